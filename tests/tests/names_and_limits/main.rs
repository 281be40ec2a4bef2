//! What a producer refuses by itself, before anything is sent: names, types, duplicates, times,
//! sizes. The error names table and column, the row is left out, and everything else stays.

mod limits;
mod names;
mod shapes;
mod times;

use std::fmt::Debug;

use forebay::Error;
use forebay_tests::encode::Client;
use forebay_tests::messages::describe;
use forebay_wire::decode::Mode;
use forebay_wire::dict::ConnectionDict;
use serde_json::Value;

/// A client in memory; `keys` end the connect string.
fn client(keys: &str) -> Client {
    Client::open(&format!("ws::addr=127.0.0.1:1;{keys}")).expect("a client in memory")
}

/// Asserts that the call was refused for `column` of `table`, and that the reason says `why`.
fn refused<T: Debug>(outcome: Result<T, Error>, table: &str, column: &str, why: &str) {
    match outcome {
        Err(Error::Row {
            table: t,
            column: c,
            reason,
        }) => {
            assert_eq!((t.as_str(), c.as_str()), (table, column), "{reason}");
            assert!(reason.contains(why), "{reason:?} does not say {why:?}");
        }
        other => panic!("{table}.{column}: {other:?} instead of a refusal that says {why:?}"),
    }
}

/// The first message of the client's connection, which holds what is buffered: its tables.
fn tables(client: &mut Client) -> Vec<Value> {
    let message = client.filled(|_| Ok(())).expect("a message");
    tables_of(&message)
}

fn tables_of(message: &[u8]) -> Vec<Value> {
    let described = describe(message, Mode::Strict, &mut ConnectionDict::new());
    let described = described.expect("the first message of a connection");
    described["tables"].as_array().expect("tables").clone()
}

/// Names of a table's columns.
fn columns(table: &Value) -> Vec<&str> {
    let columns = table["columns"].as_array().expect("columns");
    columns
        .iter()
        .map(|column| column["name"].as_str().expect("a name"))
        .collect()
}

/// The cells of a column.
fn cells<'a>(table: &'a Value, column: &str) -> Vec<&'a Value> {
    let place = columns(table)
        .iter()
        .position(|name| *name == column)
        .expect("the column");
    let rows = table["rows"].as_array().expect("rows");
    rows.iter().map(|row| &row[place]).collect()
}
