//! Why a message is refused, and where. Texts follow the genuine server where they are known.

use crate::response::Status;
use crate::types::ColumnType;

/// A refused message: the offset of the byte that gave it away, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason} [offset={offset}]")]
pub struct DecodeError {
    /// Bytes from the start of the message, header included; at most the message's length.
    pub offset: usize,
    /// What is wrong there.
    pub reason: Reason,
}

impl DecodeError {
    pub(crate) const fn new(offset: usize, reason: Reason) -> Self {
        Self { offset, reason }
    }

    pub(crate) const fn moved_to(self, offset: usize) -> Self {
        Self {
            offset,
            reason: self.reason,
        }
    }

    /// The status that a server answers with.
    pub const fn status(&self) -> Status {
        Status::ParseError
    }
}

/// One cause of refusal per variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// Fewer bytes than a header has.
    #[error("message is shorter than its 12-byte header")]
    HeaderTruncated,
    /// The first four bytes are not `QWP1`.
    #[error("invalid magic, not a QWP message")]
    BadMagic,
    /// A version other than the negotiated one.
    #[error("message version {version} does not match negotiated version 1")]
    VersionMismatch {
        /// The version byte.
        version: u8,
    },
    /// The header promises more than the protocol allows.
    #[error("message payload of {payload_len} bytes exceeds the maximum of 16777216")]
    PayloadTooLarge {
        /// The header's payload length.
        payload_len: u32,
    },
    /// The header promises more than was received.
    #[error(
        "message payload exceeds available data \
         [payloadLength={payload_len}, available={available}]"
    )]
    PayloadBeyondData {
        /// The header's payload length.
        payload_len: u32,
        /// Bytes after the header.
        available: usize,
    },
    /// A varint of more than 64 bits.
    #[error("varint overflow")]
    VarintOverflow,
    /// The delta section is cut off before or inside an entry.
    #[error("truncated delta symbol dictionary")]
    DeltaTruncated,
    /// First id above the 32-bit range.
    #[error("deltaStartId out of int range")]
    DeltaStartRange,
    /// Number of entries above the 32-bit range.
    #[error("deltaCount out of int range")]
    DeltaCountRange,
    /// More ids than a connection may have.
    #[error("delta symbol dictionary size exceeds limit")]
    DeltaLimit,
    /// More entries than the payload has bytes left.
    #[error("delta symbol dictionary count {count} exceeds remaining payload")]
    DeltaCountBeyondPayload {
        /// Number of entries announced.
        count: u32,
    },
    /// A symbol is not UTF-8.
    #[error("invalid UTF-8 in symbol dictionary")]
    SymbolNotUtf8,
    /// A table block is cut off in its head.
    #[error("truncated table header")]
    TableTruncated,
    /// A table name of no bytes.
    #[error("empty table name")]
    TableNameEmpty,
    /// A table name of more than 127 bytes.
    #[error("table name too long")]
    TableNameTooLong,
    /// A column name of more than 127 bytes.
    #[error("column name too long")]
    ColumnNameTooLong,
    /// A name is not UTF-8. (The genuine server may let this pass; a view needs text.)
    #[error("invalid UTF-8 in name")]
    NameNotUtf8,
    /// More than 1,000,000 rows in one block.
    #[error("row count exceeds maximum")]
    RowCountTooLarge,
    /// More than 2,048 columns in one block.
    #[error("column count exceeds maximum")]
    ColumnCountTooLarge,
    /// A code that no type has.
    #[error("invalid column type code: {code:#x}")]
    UnknownType {
        /// The byte.
        code: u8,
    },
    /// The null flag or the null bitmap is cut off.
    #[error("truncated null bitmap")]
    NullsTruncated,
    /// Column data is cut off.
    #[error("truncated {} column data", .ty.name())]
    ValuesTruncated {
        /// The column's type.
        ty: ColumnType,
    },
    /// A timestamp encoding other than plain and delta-of-delta.
    #[error("unknown timestamp encoding: {code:#x}")]
    TimestampEncoding {
        /// The byte.
        code: u8,
    },
    /// A precision outside 1 to 60 bits.
    #[error("invalid geohash precision: {precision}")]
    GeohashPrecision {
        /// What stands on the wire.
        precision: u64,
    },
    /// An array of no or more than 32 dimensions.
    #[error("invalid array dimensionality: {dims}")]
    ArrayRank {
        /// What stands on the wire.
        dims: u8,
    },
    /// A negative array dimension.
    #[error("invalid array dimension length: {length}")]
    ArrayDim {
        /// What stands on the wire.
        length: i32,
    },
    /// More elements than 32 bits can count.
    #[error("array element count overflow")]
    ArrayTooLarge,
    /// A column dictionary of more than 2,000,000 entries, or more than there are bytes left.
    #[error("symbol dictionary size out of range: {size}")]
    LocalDictSize {
        /// What stands on the wire.
        size: u64,
    },
    /// A symbol id that no dictionary entry has.
    #[error("symbol index out of range")]
    SymbolIndexOutOfRange,
    /// Tolerated by the genuine server, refused under [`super::Mode::Strict`].
    #[error("strict: {0}")]
    Strict(StrictRule),
}

/// What [`super::Mode::Strict`] refuses on top.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StrictRule {
    /// Flag bits without a meaning.
    #[error("reserved flag bits {bits:#x}")]
    ReservedFlags {
        /// The offending bits.
        bits: u8,
    },
    /// Bytes after the payload.
    #[error("{bytes} bytes after the payload")]
    PayloadSurplus {
        /// How many.
        bytes: usize,
    },
    /// Bytes between the last table block and the end of the payload.
    #[error("{bytes} bytes after the last table block")]
    BytesAfterTables {
        /// How many.
        bytes: usize,
    },
    /// Two columns of one name (ASCII case ignored) in one block.
    #[error("duplicate column name")]
    DuplicateColumn,
    /// An empty column name on something that is no timestamp.
    #[error("empty column name")]
    EmptyColumnName,
    /// A block without columns.
    #[error("table block without columns")]
    NoColumns,
    /// Text that is not UTF-8.
    #[error("invalid UTF-8 in VARCHAR")]
    VarcharNotUtf8,
    /// Offsets that do not start at 0 or that fall.
    #[error("offsets not rising from 0")]
    Offsets,
    /// A scale above the precision of the type.
    #[error("decimal scale {scale} exceeds precision")]
    DecimalScale {
        /// The scale.
        scale: u8,
    },
    /// A varint with needless bytes.
    #[error("padded varint")]
    PaddedVarint,
}
