//! Values of every type that a producer takes, with the edges of each.

use forebay::ColumnType;
use forebay_wire::decimal::Unscaled;
use forebay_wire::decode::Cell;

/// One value as a caller has it. Floating-point numbers are kept as bits, so that NaN equals NaN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Bool(bool),
    /// BYTE, SHORT, INT, LONG.
    Integer(i64),
    Float(u32),
    Double(u64),
    Symbol(String),
    Text(String),
    Binary(Vec<u8>),
    Char(u16),
    /// DATE, TIMESTAMP, `TIMESTAMP_NANOS`.
    Time(i64),
    Uuid(u128),
    Long256([u64; 4]),
    Geohash(u64, u8),
    Ipv4(u32),
    /// Unscaled number as 32 little-endian bytes, and scale.
    Decimal([u8; 32], u8),
    /// Shape, and the bits of the elements.
    Array(Vec<u32>, Vec<u64>),
}

/// A type, or a way of using it, and the values to try.
#[derive(Debug)]
pub(crate) struct Kind {
    /// Part of the tables' names.
    pub(crate) label: &'static str,
    pub(crate) ty: ColumnType,
    pub(crate) values: Vec<Value>,
}

impl Kind {
    /// What the decoder shows for NULL where the type has no bitmap.
    pub(crate) fn sentinel(&self) -> Option<Value> {
        match self.ty {
            ColumnType::Boolean => Some(Value::Bool(false)),
            ColumnType::Byte | ColumnType::Short => Some(Value::Integer(0)),
            ColumnType::Char => Some(Value::Char(0)),
            ColumnType::Int => Some(Value::Integer(i32::MIN.into())),
            ColumnType::Long => Some(Value::Integer(i64::MIN)),
            ColumnType::Float => Some(Value::Float(f32::NAN.to_bits())),
            ColumnType::Double => Some(Value::Double(f64::NAN.to_bits())),
            _ => None,
        }
    }
}

/// Every kind.
pub(crate) fn kinds() -> Vec<Kind> {
    let mut kinds = numbers();
    kinds.extend(fixed());
    kinds.extend(varied());
    kinds.extend([1, 5, 8, 20, 31, 40, 60].map(geohash));
    kinds.extend(decimals());
    kinds
}

fn integers(values: &[i64]) -> Vec<Value> {
    values.iter().map(|value| Value::Integer(*value)).collect()
}

fn kind(label: &'static str, ty: ColumnType, values: Vec<Value>) -> Kind {
    Kind { label, ty, values }
}

fn numbers() -> Vec<Kind> {
    let float = |value: f32| Value::Float(value.to_bits());
    let double = |value: f64| Value::Double(value.to_bits());
    vec![
        kind(
            "bool",
            ColumnType::Boolean,
            [true, false, true].map(Value::Bool).to_vec(),
        ),
        kind("i8", ColumnType::Byte, integers(&[0, 1, -1, 127, -128])),
        kind(
            "i16",
            ColumnType::Short,
            integers(&[0, 1, -1, 32767, -32768]),
        ),
        kind(
            "i32",
            ColumnType::Int,
            integers(&[0, 1, -1, i32::MAX.into(), i32::MIN.into()]),
        ),
        kind(
            "i64",
            ColumnType::Long,
            integers(&[0, 1, -1, i64::MAX, i64::MIN]),
        ),
        kind(
            "f32",
            ColumnType::Float,
            [
                0.0,
                -0.0,
                1.5,
                f32::MIN_POSITIVE / 4.0,
                f32::MAX,
                f32::INFINITY,
                -f32::INFINITY,
            ]
            .map(float)
            .into_iter()
            .chain([Value::Float(0xffc0_1234)])
            .collect(),
        ),
        kind(
            "f64",
            ColumnType::Double,
            [
                0.0,
                -0.0,
                2615.54,
                f64::MIN_POSITIVE / 4.0,
                f64::MIN,
                f64::INFINITY,
                -f64::INFINITY,
            ]
            .map(double)
            .into_iter()
            .chain([Value::Double(0xfff8_0000_dead_beef)])
            .collect(),
        ),
    ]
}

fn fixed() -> Vec<Kind> {
    let times = || {
        let all = [
            0,
            1,
            -1,
            -7,
            1_700_000_000_000_000_000,
            i64::MAX,
            i64::MIN + 1,
        ];
        all.map(Value::Time).to_vec()
    };
    let word = 1 << 63;
    vec![
        kind(
            "char",
            ColumnType::Char,
            [65, 0, 0xd83d, 0xffff].map(Value::Char).to_vec(),
        ),
        kind("date", ColumnType::Date, times()),
        kind("ts_us", ColumnType::Timestamp, times()),
        kind("ts_ns", ColumnType::TimestampNanos, times()),
        kind(
            "uuid",
            ColumnType::Uuid,
            [0, 1, u128::MAX, 1 << 64, 1 << 127]
                .map(Value::Uuid)
                .to_vec(),
        ),
        kind(
            "long256",
            ColumnType::Long256,
            [[0; 4], [1, 2, 3, 4], [u64::MAX; 4], [0, 0, 0, word]]
                .map(Value::Long256)
                .to_vec(),
        ),
        kind(
            "ipv4",
            ColumnType::Ipv4,
            [0x0a00_0001, 1, u32::MAX, 0x7f00_0001]
                .map(Value::Ipv4)
                .to_vec(),
        ),
    ]
}

fn varied() -> Vec<Kind> {
    let texts = [
        "",
        "a",
        "BTC-USD",
        "grün 日本 🦀",
        "\0 and \n",
        "a symbol of more than 16 bytes",
    ];
    let long = "x".repeat(3000);
    let text = |make: fn(String) -> Value| -> Vec<Value> {
        texts
            .iter()
            .map(ToString::to_string)
            .chain([long.clone()])
            .map(make)
            .collect()
    };
    let bytes = [&[][..], &[0], &[0xff, 0xfe, 0x80], &[7; 300]];
    let array = |shape: &[u32], values: &[f64]| {
        Value::Array(
            shape.to_vec(),
            values.iter().map(|value| value.to_bits()).collect(),
        )
    };
    vec![
        kind("symbol", ColumnType::Symbol, text(Value::Symbol)),
        kind("varchar", ColumnType::Varchar, text(Value::Text)),
        kind(
            "binary",
            ColumnType::Binary,
            bytes.map(|v| Value::Binary(v.to_vec())).to_vec(),
        ),
        kind(
            "array1",
            ColumnType::DoubleArray,
            vec![
                array(&[0], &[]),
                array(&[1], &[f64::NAN]),
                array(&[3], &[1.0, -0.0, f64::INFINITY]),
            ],
        ),
        kind(
            "array3",
            ColumnType::DoubleArray,
            vec![
                array(&[2, 1, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
                array(&[2, 1, 3], &[0.0; 6]),
                array(&[2, 1, 3], &[f64::MIN, f64::MAX, 0.5, 0.25, -0.0, f64::NAN]),
            ],
        ),
        kind(
            "array_empty",
            ColumnType::DoubleArray,
            vec![
                array(&[2, 0], &[]),
                array(&[0, 5], &[]),
                array(&[1, 1], &[9.0]),
            ],
        ),
    ]
}

fn geohash(precision: u8) -> Kind {
    let label = match precision {
        1 => "geohash1",
        5 => "geohash5",
        8 => "geohash8",
        20 => "geohash20",
        31 => "geohash31",
        40 => "geohash40",
        _ => "geohash60",
    };
    let most = (1 << precision) - 1;
    let values = [0, most, most >> 1, 1].map(|bits| Value::Geohash(bits, precision));
    kind(label, ColumnType::Geohash, values.to_vec())
}

/// A number of up to 128 bits as a decimal.
fn decimal(unscaled: i128, scale: u8) -> Value {
    let fill = if unscaled < 0 { 0xff } else { 0 };
    let mut bytes = [fill; 32];
    bytes[..16].copy_from_slice(&unscaled.to_le_bytes());
    Value::Decimal(bytes, scale)
}

fn decimals() -> Vec<Kind> {
    let (dec64, dec128, dec256) = (
        ColumnType::Decimal64,
        ColumnType::Decimal128,
        ColumnType::Decimal256,
    );
    let numbers = |scale: u8, extremes: [i128; 2]| -> Vec<Value> {
        let all = [0, 1, -1, 261_554].into_iter().chain(extremes);
        all.map(|unscaled| decimal(unscaled, scale)).collect()
    };
    let small = [i64::MAX.into(), i64::MIN.into()];
    let large = [i128::MAX, i128::MIN];
    let (mut highest, mut lowest) = ([0xff; 32], [0; 32]);
    highest[31] = 0x7f;
    lowest[31] = 0x80;
    let mut wide = numbers(76, large);
    wide.extend([Value::Decimal(highest, 76), Value::Decimal(lowest, 76)]);
    let mixed = [(5, 0), (-25, 1), (125, 3), (7, 2)].map(|(n, scale)| decimal(n, scale));
    vec![
        kind("dec64_0", dec64, numbers(0, small)),
        kind("dec64_18", dec64, numbers(18, small)),
        kind("dec128_2", dec128, numbers(2, large)),
        kind("dec128_38", dec128, numbers(38, large)),
        kind("dec256_76", dec256, wide),
        kind("dec64_mixed", dec64, mixed.to_vec()),
        kind("dec256_mixed", dec256, mixed.to_vec()),
    ]
}

/// A decimal without the zeros behind its last digit: the same whatever the column's scale.
pub(crate) fn decimal_text(unscaled: [u8; 32], scale: u8) -> String {
    let text = Unscaled::from_le_bytes(unscaled).to_text(scale);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// The decoder's cell as a value; decimals as the text that [`decimal_text`] gives are compared
/// by [`means_the_same`].
pub(crate) fn value_of(cell: &Cell<'_>, symbol: &dyn Fn(u64) -> String) -> Value {
    match cell {
        Cell::Boolean(value) => Value::Bool(*value),
        Cell::Integer(value) => Value::Integer(*value),
        Cell::Float(value) => Value::Float(value.to_bits()),
        Cell::Double(value) => Value::Double(value.to_bits()),
        Cell::Symbol(id) => Value::Symbol(symbol(*id)),
        Cell::Time(value) => Value::Time(*value),
        Cell::Uuid(uuid) => Value::Uuid(u128::from(uuid.hi) << 64 | u128::from(uuid.lo)),
        Cell::Long256(words) => Value::Long256(*words),
        Cell::Geohash {
            bits, precision, ..
        } => Value::Geohash(*bits, *precision),
        Cell::Text(text) => Value::Text(text.expect("UTF-8").to_owned()),
        Cell::Bytes(bytes) => Value::Binary(bytes.to_vec()),
        Cell::Decimal { unscaled, scale } => Value::Decimal(unscaled.to_le_bytes(), *scale),
        Cell::Char(unit) => Value::Char(*unit),
        Cell::Ipv4(address) => Value::Ipv4(*address),
        Cell::DoubleArray(array) => Value::Array(
            array.dims.iter().collect(),
            array.elements.iter().map(f64::to_bits).collect(),
        ),
        Cell::LongArray(_) => panic!("no producer sends a LONG_ARRAY"),
    }
}

/// Equality, with decimals compared as numbers: a block has one scale for all of its rows.
pub(crate) fn means_the_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Decimal(a, scale_a), Value::Decimal(b, scale_b)) => {
            decimal_text(*a, *scale_a) == decimal_text(*b, *scale_b)
        }
        _ => a == b,
    }
}
