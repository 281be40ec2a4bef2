//! Status bytes of server answers (protocol.md section 10.2).

/// The first byte of an answer. Codes that this version does not know are kept as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// 0x00: committed.
    Ok,
    /// 0x02: uploaded to the object store.
    DurableAck,
    /// 0x03: the table cannot take the data.
    SchemaMismatch,
    /// 0x05: malformed message.
    ParseError,
    /// 0x06: the server failed.
    InternalError,
    /// 0x08: not permitted.
    SecurityError,
    /// 0x09: storage refused the rows.
    WriteError,
    /// 0x0A: cancelled; belongs to queries.
    Cancelled,
    /// 0x0B: limit exceeded; belongs to queries.
    LimitExceeded,
    /// 0x0C: this node does not take writes.
    NotWritable,
    /// 0x0D: symbols are missing on this connection.
    DictionaryGap,
    /// 0x0E: on the server's own disk.
    LocalDurableAck,
    /// Any other byte.
    Unknown(u8),
}

impl Status {
    /// The status of a byte.
    pub const fn from_code(code: u8) -> Self {
        match code {
            0x00 => Self::Ok,
            0x02 => Self::DurableAck,
            0x03 => Self::SchemaMismatch,
            0x05 => Self::ParseError,
            0x06 => Self::InternalError,
            0x08 => Self::SecurityError,
            0x09 => Self::WriteError,
            0x0a => Self::Cancelled,
            0x0b => Self::LimitExceeded,
            0x0c => Self::NotWritable,
            0x0d => Self::DictionaryGap,
            0x0e => Self::LocalDurableAck,
            other => Self::Unknown(other),
        }
    }

    /// The byte on the wire.
    pub const fn code(self) -> u8 {
        match self {
            Self::Ok => 0x00,
            Self::DurableAck => 0x02,
            Self::SchemaMismatch => 0x03,
            Self::ParseError => 0x05,
            Self::InternalError => 0x06,
            Self::SecurityError => 0x08,
            Self::WriteError => 0x09,
            Self::Cancelled => 0x0a,
            Self::LimitExceeded => 0x0b,
            Self::NotWritable => 0x0c,
            Self::DictionaryGap => 0x0d,
            Self::LocalDurableAck => 0x0e,
            Self::Unknown(code) => code,
        }
    }

    /// The name in the public documentation; `UNKNOWN` for other codes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::DurableAck => "DURABLE_ACK",
            Self::SchemaMismatch => "SCHEMA_MISMATCH",
            Self::ParseError => "PARSE_ERROR",
            Self::InternalError => "INTERNAL_ERROR",
            Self::SecurityError => "SECURITY_ERROR",
            Self::WriteError => "WRITE_ERROR",
            Self::Cancelled => "CANCELLED",
            Self::LimitExceeded => "LIMIT_EXCEEDED",
            Self::NotWritable => "NOT_WRITABLE",
            Self::DictionaryGap => "DICTIONARY_GAP",
            Self::LocalDurableAck => "LOCAL_DURABLE_ACK",
            Self::Unknown(_) => "UNKNOWN",
        }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (0x{:02x})", self.name(), self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_survives_a_round_trip() {
        for code in 0..=u8::MAX {
            assert_eq!(Status::from_code(code).code(), code);
        }
        assert_eq!(Status::DictionaryGap.to_string(), "DICTIONARY_GAP (0x0d)");
    }
}
