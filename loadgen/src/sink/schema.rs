//! Tables with typed columns: the first type that a column is sent with is its type, and later
//! ones must be convertible to it (protocol.md 10.6, checks 11 and 12).
//!
//! Which types convert to which is judged by their families alone; ranges of values are not looked
//! at. Everything may be created.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use forebay_wire::decode::Table;
use forebay_wire::response::Status;
use forebay_wire::server::Refusal;
use forebay_wire::types::ColumnType;

/// Columns of every table of a sink, by the lower-case names of both.
#[derive(Debug, Default)]
pub(super) struct Schema {
    tables: Mutex<HashMap<String, HashMap<String, ColumnType>>>,
}

impl Schema {
    /// Checks a block's columns, and creates those that are new if all of them fit.
    pub(super) fn check(&self, block: &Table<'_>) -> Result<(), Refusal> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let columns = tables.entry(block.name().to_lowercase()).or_default();
        let mut new = Vec::new();
        for (name, sent) in block.definitions() {
            if sent == ColumnType::LongArray {
                let text = "long arrays are not supported, only double arrays";
                return Err(Refusal::new(Status::SchemaMismatch, text));
            }
            let key = name.to_lowercase();
            match columns.get(&key) {
                None => new.push((key, sent)),
                Some(&stored) if converts(sent, stored) => {}
                Some(stored) => {
                    let text = format!("column {name:?} is {stored:?}, cannot take {sent:?}");
                    return Err(Refusal::new(Status::SchemaMismatch, text));
                }
            }
        }
        columns.extend(new);
        Ok(())
    }

    /// Forgets a table that was dropped.
    pub(super) fn forget(&self, table: &str) {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.remove(&table.to_lowercase());
    }
}

/// What types have in common for conversions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Boolean,
    Integer,
    Float,
    Time,
    Decimal,
    Text,
    /// Only to itself and to text.
    Alone,
    Array,
}

fn family(ty: ColumnType) -> Family {
    match ty {
        ColumnType::Boolean => Family::Boolean,
        ColumnType::Byte | ColumnType::Short | ColumnType::Int | ColumnType::Long => {
            Family::Integer
        }
        ColumnType::Float | ColumnType::Double => Family::Float,
        ColumnType::Timestamp | ColumnType::TimestampNanos | ColumnType::Date => Family::Time,
        ColumnType::Decimal64 | ColumnType::Decimal128 | ColumnType::Decimal256 => Family::Decimal,
        ColumnType::Symbol | ColumnType::Varchar => Family::Text,
        ColumnType::DoubleArray | ColumnType::LongArray => Family::Array,
        _ => Family::Alone,
    }
}

/// Whether values that were sent as one type can be stored as the other.
fn converts(sent: ColumnType, stored: ColumnType) -> bool {
    use Family::{Alone, Array, Boolean, Decimal, Float, Integer, Text, Time};
    if sent == stored {
        return true;
    }
    match (family(sent), family(stored)) {
        // VARCHAR is parsed into almost everything, SYMBOL only goes to text.
        (Text, to) if to != Text => sent == ColumnType::Varchar && to != Array,
        (from, to) => matches!(
            (from, to),
            (Integer, Integer | Float | Time | Decimal | Text)
                | (Float, Integer | Float | Decimal | Text)
                | (Boolean, Integer | Float | Text)
                | (Time, Time | Text)
                | (Decimal, Decimal | Text)
                | (Text | Alone, Text)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_convert_as_the_genuine_server_converts_them() {
        use ColumnType as T;
        for (sent, stored) in [
            (T::Long, T::Byte),
            (T::Double, T::Long),
            (T::Int, T::Timestamp),
            (T::Boolean, T::Double),
            (T::Varchar, T::Uuid),
            (T::Uuid, T::Varchar),
            (T::Symbol, T::Varchar),
            (T::TimestampNanos, T::Timestamp),
            (T::DoubleArray, T::DoubleArray),
        ] {
            assert!(converts(sent, stored), "{sent:?} to {stored:?}");
        }
        for (sent, stored) in [
            (T::Double, T::Timestamp),
            (T::Long, T::Boolean),
            (T::Symbol, T::Long),
            (T::Uuid, T::Long256),
            (T::DoubleArray, T::Varchar),
            (T::Varchar, T::DoubleArray),
            (T::Char, T::Int),
            (T::Timestamp, T::Long),
        ] {
            assert!(!converts(sent, stored), "{sent:?} to {stored:?}");
        }
    }
}
