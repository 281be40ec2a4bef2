//! Batches of every pattern of nulls, and what of them is found in a message.

use forebay_wire::decode::{Message, Mode, Table, Values};
use forebay_wire::dict::ConnectionDict;

use crate::values::{Kind, Value, means_the_same, value_of};

/// Designated timestamp of the first row; each row's is one more.
pub(crate) const FIRST_NS: i64 = 1_700_000_000_000_000_000;
/// All patterns of nulls are tried up to so many rows.
const ALL_PATTERNS_ROWS: usize = 5;

/// One batch of one table: `v` of the kind, `n` the row's number, and a timestamp.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    pub(crate) table: String,
    pub(crate) kind: &'a Kind,
    pub(crate) rows: Vec<Option<Value>>,
}

/// Batches of the kind: every pattern of nulls in up to five rows, and some around whole bytes.
pub(crate) fn batches(kind: &Kind) -> Vec<Batch<'_>> {
    let mut patterns: Vec<Vec<bool>> = Vec::new();
    for rows in 1..=ALL_PATTERNS_ROWS {
        for pattern in 0..1_u32 << rows {
            patterns.push((0..rows).map(|row| pattern >> row & 1 == 1).collect());
        }
    }
    for rows in [7_usize, 8, 9, 16, 17] {
        patterns.push(vec![false; rows]);
        patterns.push(vec![true; rows]);
        patterns.push((0..rows).map(|row| row + 1 == rows).collect());
        patterns.push((0..rows).map(|row| row > 0 && row % 8 != 0).collect());
    }
    let many = patterns.into_iter().enumerate();
    many.map(|(number, nulls)| {
        let value = |(row, null): (usize, bool)| {
            (!null).then(|| kind.values[(row + number) % kind.values.len()].clone())
        };
        Batch {
            table: format!("{} {number}", kind.label),
            kind,
            rows: nulls.into_iter().enumerate().map(value).collect(),
        }
    })
    .collect()
}

impl Batch<'_> {
    pub(crate) fn is_all_null(&self) -> bool {
        self.rows.iter().all(Option::is_none)
    }

    /// Whether `v` comes to be before `n`, however NULL is said.
    pub(crate) fn begins_with_a_value(&self) -> bool {
        self.rows.first().is_some_and(Option::is_some)
    }

    /// Asserts that the message holds this batch and nothing else; symbols enter `dict`.
    pub(crate) fn check(&self, message: &[u8], dict: &mut ConnectionDict, may_lack_column: bool) {
        let message = Message::parse(message, Mode::Strict).expect("a message");
        if let Some(delta) = message.delta() {
            dict.apply(&delta).expect("a delta in order");
        }
        let tables: Vec<Table<'_>> = message
            .tables_within(dict.len() as u64)
            .map(|table| table.expect("a table"))
            .collect();
        let [table] = &tables[..] else {
            panic!("{} tables", tables.len())
        };
        assert_eq!(table.name(), self.table);
        assert_eq!(table.row_count(), self.rows.len());
        let mut found = false;
        for column in table.columns() {
            let column = column.expect("a column");
            let symbol = |id: u64| match column.values {
                Values::Symbol(_) => dict.get(id).expect("a known symbol").to_owned(),
                _ => unreachable!("ids stand in symbol columns"),
            };
            let cells = column
                .cells()
                .map(|cell| cell.map(|cell| value_of(&cell, &symbol)));
            let cells: Vec<Option<Value>> = cells.collect();
            let counted = |first: i64, make: fn(i64) -> Value| -> Vec<Option<Value>> {
                (first..)
                    .take(self.rows.len())
                    .map(|n| Some(make(n)))
                    .collect()
            };
            match column.name {
                "v" => {
                    found = true;
                    assert_eq!(column.ty, self.kind.ty);
                    self.check_values(&cells);
                }
                "n" => assert_eq!(cells, counted(0, Value::Integer)),
                "" => assert_eq!(cells, counted(FIRST_NS, Value::Time)),
                other => panic!("column {other}"),
            }
        }
        assert!(found || may_lack_column, "{}: no column v", self.table);
        assert_eq!(table.column_count(), 2 + usize::from(found));
    }

    fn check_values(&self, cells: &[Option<Value>]) {
        assert_eq!(cells.len(), self.rows.len(), "{}", self.table);
        for (row, (found, given)) in cells.iter().zip(&self.rows).enumerate() {
            let expected = given.clone().or_else(|| self.kind.sentinel());
            let same = match (found, &expected) {
                (Some(found), Some(expected)) => means_the_same(found, expected),
                (None, None) => true,
                _ => false,
            };
            assert!(same, "{} row {row}: {found:?}, given {given:?}", self.table);
        }
    }
}
