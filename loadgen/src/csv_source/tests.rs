//! The rules of inference and the places that errors name.

use std::io::Write;

use tempfile::NamedTempFile;

use super::ColumnType::{self, Double, Long, Timestamp, Varchar};
use super::{CsvOptions, CsvSource, Row, Value};
use crate::error::Error;

fn file(text: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text).unwrap();
    file
}

fn options(file: &NamedTempFile) -> CsvOptions {
    CsvOptions {
        path: file.path().to_path_buf(),
        symbols: vec![],
        timestamp: "ts".to_owned(),
        types: vec![],
    }
}

fn types(text: &str) -> Vec<ColumnType> {
    let file = file(text.as_bytes());
    let source = CsvSource::open(&options(&file)).unwrap();
    source
        .schema()
        .columns
        .iter()
        .map(|column| column.column_type)
        .collect()
}

const TS: &str = "2023-09-05T16:00:00.000001Z";

#[test]
fn integers_are_long_numbers_double_and_the_rest_varchar() {
    let text = format!(
        "ts,l,d,e,big,v,empty,word\n\
         {TS},1,1,6.8E7,9223372036854775808,1,,1\n\
         {TS},-2,2.5,-3,1,a,,nan\n\
         {TS},,,,,,,\n"
    );
    let found = types(&text);
    assert_eq!(
        found,
        [
            Timestamp, Long, Double, Double, Double, Varchar, Varchar, Varchar
        ]
    );
}

#[test]
fn a_double_does_not_become_long_again() {
    assert_eq!(types(&format!("ts,d\n{TS},1.5\n{TS},1\n"))[1], Double);
    assert_eq!(types(&format!("ts,d\n{TS},x\n{TS},1\n"))[1], Varchar);
    assert_eq!(types(&format!("ts,d\n{TS},1e999\n"))[1], Varchar);
}

#[test]
fn given_types_replace_inferred_ones_and_symbols_are_sent_first() {
    let file = file(format!("a,ts,b,c\n1,{TS},2,x\n").as_bytes());
    let mut options = options(&file);
    options.symbols = vec!["c".to_owned()];
    options.types = vec![("b".to_owned(), Double)];
    let mut source = CsvSource::open(&options).unwrap();
    assert_eq!(source.schema().send_order, [3, 0, 2]);
    assert_eq!(source.schema().timestamp, 1);
    assert_eq!(source.rows_total(), 1);
    let mut row = Row::default();
    assert!(source.read(&mut row).unwrap());
    assert_eq!(row.line(), 2);
    assert_eq!(row.value(0), Value::I64(1));
    assert_eq!(row.value(1), Value::Micros(1_693_929_600_000_001));
    assert_eq!(row.value(2), Value::F64(2.0));
    assert_eq!((row.value(3), row.text(3)), (Value::Symbol, "x"));
    assert!(!source.read(&mut row).unwrap());
}

#[test]
fn skip_passes_over_rows_and_tells_how_many_there_were() {
    let file = file(format!("ts,n\n{TS},1\n{TS},2\n{TS},3\n").as_bytes());
    let mut source = CsvSource::open(&options(&file)).unwrap();
    assert_eq!(source.skip(2).unwrap(), 2);
    let mut row = Row::default();
    assert!(source.read(&mut row).unwrap());
    assert_eq!((row.line(), row.value(1)), (4, Value::I64(3)));
    assert_eq!(source.skip(5).unwrap(), 0);
}

fn place(text: &[u8], types: &[(&str, ColumnType)]) -> (u64, String) {
    let file = file(text);
    let mut options = options(&file);
    options.types = types
        .iter()
        .map(|&(name, ty)| (name.to_owned(), ty))
        .collect();
    match CsvSource::open(&options).unwrap_err() {
        Error::Csv { line, column, .. } => (line, column),
        other => panic!("{other}"),
    }
}

#[test]
fn a_bad_row_is_named_by_line_and_column_before_anything_is_read() {
    let bad = |line: u64, column: &str| (line, column.to_owned());
    let long = [("n", Long)];
    assert_eq!(
        place(format!("ts,n\n{TS},1\n{TS},x\n").as_bytes(), &long),
        bad(3, "n")
    );
    assert_eq!(place(b"ts,n\nyesterday,1\n", &[]), bad(2, "ts"));
    assert_eq!(place(b"ts,n\n,1\n", &[]), bad(2, "ts"));
    assert_eq!(
        place(format!("ts,n\n{TS},1\n{TS}\n").as_bytes(), &[]),
        bad(3, "n")
    );
    assert_eq!(
        place(format!("ts,n\n{TS},1,2\n").as_bytes(), &[]),
        bad(2, "(row)")
    );
    assert_eq!(
        place(format!("ts,n,n\n{TS},1,2\n").as_bytes(), &[]),
        bad(1, "n")
    );
    let mut latin1 = format!("ts,n\n{TS},").into_bytes();
    latin1.extend_from_slice(b"\xE9\n");
    assert_eq!(place(&latin1, &[]), bad(2, "n"));
    // A quoted line break does not shift the count: the row is named by its first line.
    assert_eq!(
        place(format!("ts,n\n{TS},\"a\nb\"\n{TS}\n").as_bytes(), &[]),
        bad(4, "n")
    );
}

#[test]
fn options_that_name_no_column_are_refused_with_the_columns_there_are() {
    let file = file(format!("ts,n\n{TS},1\n").as_bytes());
    let mut options = options(&file);
    options.symbols = vec!["nope".to_owned()];
    let error = CsvSource::open(&options).unwrap_err().to_string();
    assert!(
        error.contains("--symbols") && error.contains("\"nope\""),
        "{error}"
    );
    assert!(error.contains("ts, n"), "{error}");

    options.symbols = vec!["n".to_owned()];
    options.types = vec![("n".to_owned(), Double)];
    let error = CsvSource::open(&options).unwrap_err().to_string();
    assert!(error.contains("two types"), "{error}");

    options.symbols = vec!["ts".to_owned()];
    options.types = vec![];
    let error = CsvSource::open(&options).unwrap_err().to_string();
    assert!(error.contains("designated timestamp"), "{error}");
}
