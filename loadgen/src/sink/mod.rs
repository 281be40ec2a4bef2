//! The embedded QWP server: accepts real clients and this project's engine on a real socket and
//! answers as the genuine server does. Used by the `sink` command, by `run` and by tests.
//!
//! One thread accepts, one thread serves each connection with large blocking reads; there is no
//! shared lock on the way of a message unless rows are stored. The conversation itself is
//! [`forebay_wire::server`], the upgrade [`forebay_wire::upgrade`].
//!
//! A test that needs a misbehaving server, or wants to know what the server saw:
//!
//! ```
//! use forebay_loadgen::sink::{Sink, SinkConfig};
//! let script = "message 2 times 1 -> nack 0x09 \"disk full\"\nconn 3.. -> http 503".parse()?;
//! let sink = Sink::start(SinkConfig::scripted(script))?;
//! // ... a client talks to sink.addr() ...
//! sink.set_role(Some("REPLICA")); // knobs: also set_script, set_authorization, set_durable, ...
//! let records = sink.records(); // connections, requests, messages, PINGs, closes
//! assert_eq!(records.connections.len(), 0);
//! let totals = sink.stop(); // rows by table
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
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
//! | `watch` | showing applied blocks to somebody |
//! | `script` | what a hostile sink does: rules, their text form |
//! | `scripted` | connections of a sink with a script, TLS, records or durable acknowledgements |
//! | `records` | what a sink remembers of its connections |
//! | `live` | what can change while a sink runs |
//! | `control` | changing it |
//! | `tls` | certificate and key |
//! | `schema` | typed columns, and which types convert to which |
//! | `store` | rows as text in files ([`forebay_wire::ndjson`]) |

mod apply;
mod config;
mod connection;
mod control;
mod delayed;
mod live;
mod quick;
mod records;
mod schema;
mod script;
mod scripted;
mod server;
mod store;
mod tls;
mod totals;
mod walk;
mod watch;

pub use config::{Depth, SinkConfig};
pub use control::basic_authorization;
pub use records::{ConnectionRecord, Fate, MessageRecord, RecordLimits, Records, payload_hash};
pub use script::{
    Action, DurableManners, Malformed, Numbers, Phase, Rule, Script, ScriptError, When,
};
pub use server::Sink;
pub use tls::TlsIdentity;
pub use totals::{TableTotals, Totals};
pub use watch::Watch;

#[cfg(test)]
mod answer_tests;
#[cfg(test)]
mod measure;
#[cfg(test)]
mod script_tests;
#[cfg(test)]
mod test_client;
#[cfg(test)]
mod tests;
