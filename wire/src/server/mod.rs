//! The server's side of an upgraded QWP connection, as the genuine server behaves, without I/O
//! (protocol.md 3.1, 10 and 11).
//!
//! A [`Session`] owns the receive buffer and the sequence numbers of one connection. Its caller (a
//! thread of the sink, or the simulator) gives it what the socket had, gets the bytes to answer
//! with, and obeys the returned [`Flow`]. What a message *means* is the business of a
//! [`MessageHandler`]: counting, decoding, storing, or refusing on purpose.
//!
//! | file | concept |
//! |---|---|
//! | `session` | the receive pass: frames in, answers out |
//! | `talk` | what each frame leads to |
//! | `input` | the receive buffer and its unmasking |
//! | `ledger` | what is processed, what may be acknowledged, which tables to name |
//! | `durable` | durable acknowledgements |
//! | `handler` | the seam to the code that applies messages |

mod config;
mod durable;
mod handler;
mod input;
mod ledger;
mod session;
mod talk;

pub use config::SessionConfig;
pub use handler::{Commits, MessageHandler, Outcome, Refusal};
pub use session::{Ending, Flow, Session};

#[cfg(test)]
mod hook_tests;
