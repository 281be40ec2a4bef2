//! Timestamps with their unit in the type, so that the two are never mixed up.

/// Microseconds since the Unix epoch (column type TIMESTAMP).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimestampMicros(pub i64);

/// Nanoseconds since the Unix epoch (column type `TIMESTAMP_NANOS`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimestampNanos(pub i64);

/// Either unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Timestamp {
    /// Microseconds.
    Micros(i64),
    /// Nanoseconds.
    Nanos(i64),
}

impl From<TimestampMicros> for Timestamp {
    fn from(value: TimestampMicros) -> Self {
        Self::Micros(value.0)
    }
}

impl From<TimestampNanos> for Timestamp {
    fn from(value: TimestampNanos) -> Self {
        Self::Nanos(value.0)
    }
}
