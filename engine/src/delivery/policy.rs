//! What an error answer means for the sender (protocol.md section 10.2 and the `on_*_error` keys
//! of section 17).

use forebay_wire::response::Status;

use crate::config::Policies;
use crate::observe::{Category, Policy};

/// What a status is about.
pub(crate) fn category(status: Status) -> Category {
    match status {
        Status::SchemaMismatch => Category::SchemaMismatch,
        Status::ParseError => Category::ParseError,
        Status::InternalError => Category::InternalError,
        Status::SecurityError => Category::SecurityError,
        Status::WriteError => Category::WriteError,
        Status::NotWritable => Category::NotWritable,
        Status::DictionaryGap => Category::DictionaryGap,
        _ => Category::Unknown,
    }
}

/// What is done about an error answer. What a newer server says in words of its own is tried again,
/// whatever the keys say; a server that takes no writes is left for another.
pub(crate) fn policy(policies: Policies, category: Category) -> Policy {
    match category {
        Category::SchemaMismatch => policies.schema,
        Category::ParseError => policies.parse,
        Category::InternalError => policies.internal,
        Category::SecurityError => policies.security,
        Category::WriteError => policies.write,
        Category::NotWritable => Policy::RetriableOther,
        Category::ProtocolViolation | Category::Disk => Policy::Terminal,
        Category::DataLoss => Policy::Abandoned,
        _ => Policy::Retriable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_official_clients() {
        let policies = Policies::default();
        let of = |code| policy(policies, category(Status::from_code(code)));
        for code in [0x03, 0x05, 0x08] {
            assert_eq!(of(code), Policy::Terminal, "{code:#x}");
        }
        for code in [0x06, 0x09, 0x0a, 0x0b, 0x0d, 0x0e, 0x7f, 0xff] {
            assert_eq!(of(code), Policy::Retriable, "{code:#x}");
        }
        assert_eq!(of(0x0c), Policy::RetriableOther);
    }

    #[test]
    fn keys_change_their_category_only() {
        let policies = Policies {
            write: Policy::Terminal,
            schema: Policy::RetriableOther,
            ..Policies::default()
        };
        let of = |category| policy(policies, category);
        assert_eq!(of(Category::WriteError), Policy::Terminal);
        assert_eq!(of(Category::SchemaMismatch), Policy::RetriableOther);
        assert_eq!(of(Category::InternalError), Policy::Retriable);
        assert_eq!(of(Category::Unknown), Policy::Retriable);
        assert_eq!(of(Category::ProtocolViolation), Policy::Terminal);
    }
}
