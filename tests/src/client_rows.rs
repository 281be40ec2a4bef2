//! The rows of a captured message as its client gave them: in its order, without what it left out.
//!
//! `expected.json` lists rows by table and shows some nulls as the value that stands for them. What
//! it cannot tell is written down here, once per scenario.

use serde_json::Value;

use crate::corpus::Scenario;

/// Scenarios of one column type end in this when rows 1, 4 and 8 lack the value.
const WITH_NULLS: &str = "_nulls";
/// Rows without a value in those scenarios.
const NULL_ROWS: [usize; 3] = [1, 4, 8];
/// What `late_columns` left out, as (message, column, row of the message).
const LATE_COLUMNS: [(usize, &str, usize); 5] = [
    (0, "late_f", 0),
    (0, "late_f", 1),
    (1, "late_s", 0),
    (1, "late_v", 0),
    (1, "a", 2),
];

/// A row as it goes into a row API.
#[derive(Debug)]
pub struct Row<'a> {
    /// Name of the table.
    pub table: &'a str,
    /// Cells in the order in which they were set: symbols first, as the official API demands.
    pub cells: Vec<RowCell<'a>>,
    /// The designated timestamp.
    pub at: RowCell<'a>,
}

/// One value of a row.
#[derive(Debug, Clone, Copy)]
pub struct RowCell<'a> {
    /// Name of the column.
    pub column: &'a str,
    /// Its type, named as in the public documentation.
    pub ty: &'a str,
    /// The value in the notation of the corpus.
    pub value: &'a Value,
}

/// The rows of message number `message` of the scenario.
pub fn rows_of(scenario: &Scenario, message: usize) -> Option<Vec<Row<'_>>> {
    let tables = scenario.messages.get(message)?.expected["tables"].as_array()?;
    let mut rows_by_table = Vec::new();
    for table in tables {
        rows_by_table.push(table_rows(scenario, message, table)?.into_iter());
    }
    if scenario.name != "multi_table" {
        return Some(rows_by_table.into_iter().flatten().collect());
    }
    // The client alternated between the first two tables; the third got one row at the end.
    let [trades, quotes, only_ts] = rows_by_table.try_into().ok()?;
    let alternating = trades.zip(quotes).flat_map(<[Row<'_>; 2]>::from);
    Some(alternating.chain(only_ts).collect())
}

fn table_rows<'a>(scenario: &Scenario, message: usize, table: &'a Value) -> Option<Vec<Row<'a>>> {
    let columns = table["columns"].as_array()?;
    let mut rows = Vec::new();
    for (number, values) in table["rows"].as_array()?.iter().enumerate() {
        let (mut symbols, mut others, mut at) = (Vec::new(), Vec::new(), None);
        for (column, value) in columns.iter().zip(values.as_array()?) {
            let cell = RowCell {
                column: column["name"].as_str()?,
                ty: column["type"].as_str()?,
                value,
            };
            if cell.column.is_empty() {
                at = Some(cell);
            } else if !left_out(&scenario.name, message, cell.column, number) {
                let cells = if cell.ty == "SYMBOL" {
                    &mut symbols
                } else {
                    &mut others
                };
                cells.push(cell);
            }
        }
        symbols.append(&mut others);
        rows.push(Row {
            table: table["name"].as_str()?,
            cells: symbols,
            at: at?,
        });
    }
    Some(rows)
}

/// Whether the client gave the row no value for this column.
fn left_out(scenario: &str, message: usize, column: &str, row: usize) -> bool {
    if scenario.starts_with("type_") && scenario.ends_with(WITH_NULLS) {
        return column == "v" && NULL_ROWS.contains(&row);
    }
    scenario == "late_columns" && LATE_COLUMNS.contains(&(message, column, row))
}
