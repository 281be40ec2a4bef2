//! The embedded QWP server: accepts real clients and this project's engine on a real socket and
//! answers as the genuine server does. Used by the `sink` command, by `run` and by tests.
//!
//! One thread accepts, one thread serves each connection with large blocking reads; there is no
//! shared lock on the way of a message unless rows are stored. The conversation itself is
//! [`forebay_wire::server`], the upgrade [`forebay_wire::upgrade`].
//!
//! | file | concept |
//! |---|---|
//! | `config` | what a sink is told at its start |
//! | `totals` | what it counted |
//! | `server` | listening, stopping |
//! | `connection` | one connection from accept to its end |
//! | `delayed` | answers that are held back for a while |
//! | `apply` | a message's way: header, dictionary, tables |
//! | `quick` | the short way for small messages of a known shape |
//! | `walk` | looking at every value |
//! | `store` | rows as text in files ([`forebay_wire::ndjson`]) |

mod apply;
mod config;
mod connection;
mod delayed;
mod quick;
mod server;
mod store;
mod totals;
mod walk;

pub use config::{Depth, SinkConfig};
pub use server::Sink;
pub use totals::{TableTotals, Totals};

#[cfg(test)]
mod measure;
#[cfg(test)]
mod test_client;
#[cfg(test)]
mod tests;
