//! Connections of a sink that has a script, TLS, records or durable acknowledgements.
//!
//! They take a way of their own, so that a plain sink pays nothing for what it does not use: one
//! thread a connection that wakes every few milliseconds to look at the clock and at what changed
//! on the sink. The conversation itself is the same [`forebay_wire::server`], its messages go to
//! the same applier.
//!
//! | file | concept |
//! |---|---|
//! | `transport` | plain TCP or TLS, read with a time limit |
//! | `output` | answers, delayed or not |
//! | `upgrade` | the upgrade request and what the script does about it |
//! | `handler` | a message's way through the script to the applier |
//! | `limits` | which OKs are held back |
//! | `durable` | commits on their way to be durable |
//! | `serve` | the connection's loop |
//! | `ends` | how a connection ends |

mod durable;
mod ends;
mod handler;
mod limits;
mod output;
mod serve;
mod transport;
mod upgrade;

pub(super) use ends::Last;
pub(super) use serve::serve;
