//! What a server answers (protocol.md section 10.1): read by the sender, written by test peers.
//!
//! | status | layout after the status byte, little-endian |
//! |---|---|
//! | OK | `seq:i64 tables:u16 tables × { len:u16 name txn:i64 }` |
//! | DURABLE_ACK, LOCAL_DURABLE_ACK | `tables:u16 tables × { len:u16 name txn:i64 }` |
//! | anything else | `seq:i64 len:u16 text`, at most 1,024 bytes of text |

#![deny(clippy::indexing_slicing, clippy::cast_possible_truncation)]
#![deny(clippy::arithmetic_side_effects)]

mod parse;
mod status;
mod write;

pub use parse::{ResponseError, TableAcks, TableAcksIter, parse, parse_with};
pub use status::Status;
pub use write::{write_durable_ack, write_error, write_local_durable_ack, write_ok};

/// Most bytes of text in an error answer.
pub const ERROR_TEXT_BYTES_MAX: usize = 1024;

/// One answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response<'a> {
    /// Everything up to `seq` is committed.
    Ok {
        /// Cumulative message number of the connection, from 0.
        seq: i64,
        /// Tables that committed since the last answer, with their transaction numbers.
        tables: TableAcks<'a>,
    },
    /// Transactions that reached the object store.
    DurableAck {
        /// Tables with their transaction numbers.
        tables: TableAcks<'a>,
    },
    /// Transactions that reached the server's disk.
    LocalDurableAck {
        /// Tables with their transaction numbers.
        tables: TableAcks<'a>,
    },
    /// Message `seq` was refused.
    Error {
        /// Why.
        status: Status,
        /// Message number.
        seq: i64,
        /// The server's text.
        message: &'a str,
    },
}
