//! QWP, QuestDB's binary ingest protocol, and its WebSocket conversation, as bytes and state
//! machines.
//!
//! Nothing here does I/O, reads a clock or uses `unsafe`: a caller hands in bytes and gets views,
//! values or bytes back. Decoders never panic on foreign bytes and never allocate by a length
//! that a peer sent; encoders write into what the caller gives them.
//!
//! | module | what it knows |
//! |---|---|
//! | [`varint`], [`header`], [`types`], [`names`] | the primitives of a message |
//! | [`decode`] | zero-copy views over a received message |
//! | [`encode`] | growing columns row by row, and the head of a table block |
//! | [`control`] | messages without rows: dictionary catch-up, commit |
//! | [`dict`] | the symbol dictionary that a server keeps per connection |
//! | [`ndjson`] | rows as JSON text |
//! | [`gorilla`], [`decimal`] | two encodings that both directions need |
//! | [`response`] | what the server answers |
//! | [`ws`] | WebSocket frames, masking, close codes, the client's reader |
//! | [`upgrade`] | the HTTP upgrade, both sides |
//! | [`server`] | one connection of a genuine-like server as a state machine |

#![forbid(unsafe_code)]

pub mod control;
pub mod decimal;
pub mod decode;
pub mod dict;
pub mod encode;
pub mod gorilla;
pub mod header;
pub mod names;
pub mod ndjson;
pub mod response;
pub mod server;
pub mod types;
pub mod upgrade;
pub mod varint;
pub mod ws;

mod reader;
