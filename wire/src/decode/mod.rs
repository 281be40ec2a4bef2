//! Reading QWP messages, for a server (the capturing peer, the corpus test) and for a sender that
//! checks what it is about to replay.
//!
//! [`Message::parse`] checks the header and the whole delta dictionary; [`Message::tables`] then
//! walks the table blocks and checks each one completely (every section is there, every code is
//! known) before it is handed out. Views borrow the message; nothing is copied or allocated.
//!
//! ```
//! use forebay_wire::decode::{Message, Mode, Values};
//!
//! let bytes = b"QWP1\x01\x08\x01\x00\x12\x00\x00\x00\x00\x00\x01n\x01\x01\x01l\x05\x00\
//!     \x01\x00\x00\x00\x00\x00\x00\x00";
//! let message = Message::parse(bytes, Mode::Genuine)?;
//! for table in message.tables() {
//!     let table = table?;
//!     assert_eq!((table.name(), table.row_count()), ("n", 1));
//!     for column in table.columns() {
//!         let column = column?;
//!         let Values::Long(longs) = column.values else { panic!("a LONG column") };
//!         assert_eq!((column.name, longs.get(0)), ("l", Some(1)));
//!     }
//! }
//! # Ok::<(), forebay_wire::decode::DecodeError>(())
//! ```

#![deny(clippy::indexing_slicing, clippy::cast_possible_truncation)]
#![deny(clippy::arithmetic_side_effects)]

mod arrays;
mod bits;
mod cell;
mod column;
mod delta;
mod error;
mod fixed;
mod message;
mod nulls;
mod numbers;
mod symbols;
mod table;
mod timestamps;
mod values;
mod varlen;

pub use arrays::{ArrayValue, Arrays, ArraysIter, Dims};
pub use bits::{Bools, BoolsIter};
pub use cell::Cell;
pub use column::{Cells, Column};
pub(crate) use delta::split_entry;
pub use delta::{Delta, DeltaIter};
pub use error::{DecodeError, Reason, StrictRule};
pub use fixed::{Fixed, FixedIter, FixedValue, Uuid};
pub use message::Message;
pub use nulls::{Nulls, NullsIter};
pub use numbers::{Decimals, Geohashes};
pub use symbols::{LocalDict, LocalDictIter, SymbolIds, SymbolIdsIter};
pub use table::{Columns, Table, Tables};
pub use timestamps::{TimestampEncoding, Timestamps, TimestampsIter};
pub use values::Values;
pub use varlen::{Binary, BinaryIter, Strings, StringsIter};

/// How much a decoder tolerates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// What the genuine server accepts, sloppiness included.
    #[default]
    Genuine,
    /// Also refuses what no sender should ever write; the reasons are [`Reason::Strict`].
    Strict,
}
