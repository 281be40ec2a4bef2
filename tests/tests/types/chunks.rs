//! Chunks: the batch as columns of the caller's memory, in every form that the type has.

use forebay::{Chunk, ColumnType, Error, Nulls, Producer, Symbol};

use crate::batches::{Batch, FIRST_NS};
use crate::rows::narrow;
use crate::values::{Kind, Value};

/// Which of the calls for one type is used, where there are several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The plainest one: slices of the type; symbols as codes; arrays of one shape.
    Slices,
    /// Bits, symbols as text, vectors.
    Packed,
    /// Symbols as handles.
    Handles,
}

impl Form {
    pub(crate) const ALL: [Self; 3] = [Self::Slices, Self::Packed, Self::Handles];

    /// Whether the kind can be said in this form, and not already in a plainer one.
    pub(crate) fn suits(self, kind: &Kind) -> bool {
        let label = kind.label;
        match self {
            // One scale for all rows; one shape for all rows.
            Self::Slices => {
                !label.ends_with("_mixed") && label != "array1" && label != "array_empty"
            }
            Self::Packed => {
                label == "array1" || matches!(kind.ty, ColumnType::Boolean | ColumnType::Symbol)
            }
            Self::Handles => kind.ty == ColumnType::Symbol,
        }
    }
}

/// The caller's memory. Null rows hold a value of the kind too, which nobody must see.
struct Memory {
    values: Vec<Value>,
    validity: Vec<u8>,
    offset: usize,
    offsets: Vec<u32>,
    text: String,
    bytes: Vec<u8>,
    bits: Vec<u8>,
    elements: Vec<f64>,
    dictionary: Vec<String>,
    codes: Vec<u32>,
    numbers: Vec<i64>,
    times: Vec<i64>,
}

impl Memory {
    fn new(batch: &Batch<'_>) -> Self {
        let rows = batch.rows.len();
        // Another place in the first byte for every batch.
        let offset = batch.table.len() % 9 + rows % 3;
        let mut memory = Self {
            values: Vec::new(),
            validity: vec![0; (offset + rows).div_ceil(8)],
            offset,
            offsets: vec![0],
            text: String::new(),
            bytes: Vec::new(),
            bits: vec![0; (offset + rows).div_ceil(8)],
            elements: Vec::new(),
            dictionary: Vec::new(),
            codes: Vec::new(),
            numbers: (0..).take(rows).collect(),
            times: (FIRST_NS..).take(rows).collect(),
        };
        for (row, value) in batch.rows.iter().enumerate() {
            let bit = offset + row;
            memory.validity[bit / 8] |= u8::from(value.is_some()) << (bit % 8);
            let value = value.as_ref().unwrap_or(&batch.kind.values[0]);
            memory.add(bit, value);
        }
        memory
    }

    fn add(&mut self, bit: usize, value: &Value) {
        match value {
            Value::Bool(value) => self.bits[bit / 8] |= u8::from(*value) << (bit % 8),
            Value::Text(text) | Value::Symbol(text) => {
                self.text.push_str(text);
                self.end(self.text.len());
                let known = self.dictionary.iter().position(|entry| entry == text);
                let code = known.unwrap_or(self.dictionary.len());
                if known.is_none() {
                    self.dictionary.push(text.clone());
                }
                self.codes.push(u32::try_from(code).expect("small"));
            }
            Value::Binary(bytes) => {
                self.bytes.extend_from_slice(bytes);
                self.end(self.bytes.len());
            }
            Value::Array(_, bits) => {
                self.elements
                    .extend(bits.iter().copied().map(f64::from_bits));
                self.end(self.elements.len());
            }
            _ => {}
        }
        self.values.push(value.clone());
    }

    fn end(&mut self, at: usize) {
        self.offsets.push(u32::try_from(at).expect("small"));
    }

    fn all<T>(&self, get: impl Fn(&Value) -> Option<T>) -> Vec<T> {
        let all = self.values.iter().map(get);
        all.map(|value| value.expect("a batch has one type"))
            .collect()
    }

    fn integers<T: TryFrom<i64>>(&self) -> Vec<T> {
        self.all(|value| match value {
            Value::Integer(v) | Value::Time(v) => T::try_from(*v).ok(),
            _ => None,
        })
    }
}

macro_rules! all {
    ($memory:expr, $pattern:pat => $value:expr) => {
        $memory.all(|value| match value {
            $pattern => Some($value),
            _ => None,
        })
    };
}

/// Publishes the batch as one chunk.
pub(crate) fn chunk(producer: &mut Producer, batch: &Batch<'_>, form: Form) -> Result<(), Error> {
    let memory = Memory::new(batch);
    let owned = Owned::new(producer, batch, &memory, form)?;
    let mut chunk = Chunk::new(&batch.table);
    let whole = batch.rows.iter().all(Option::is_some);
    let nulls = if whole && batch.rows.len().is_multiple_of(2) {
        Nulls::NONE
    } else {
        Nulls::from_validity(&memory.validity, memory.offset)
    };
    owned.add(&mut chunk, batch, &memory, form, nulls)?;
    chunk.i64("n", &memory.numbers, Nulls::NONE)?;
    chunk.at_nanos(&memory.times)?;
    producer.try_publish_chunk(&chunk).map(drop)
}

/// The values as a slice of their type.
enum Owned<'m> {
    Bool(Vec<bool>),
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>, u8),
    U128(Vec<u128>),
    Wide(Vec<[u8; 32]>, u8),
    Dec64(Vec<i64>, u8),
    Dec128(Vec<i128>, u8),
    Shape(Vec<u32>),
    Dictionary(Vec<&'m str>),
    Handles(Vec<Symbol>),
    /// In [`Memory`] as it is.
    Other,
}

fn long256(words: [u64; 4]) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

impl<'m> Owned<'m> {
    fn new(
        producer: &mut Producer,
        batch: &Batch<'_>,
        memory: &'m Memory,
        form: Form,
    ) -> Result<Self, Error> {
        Ok(match (batch.kind.ty, &batch.kind.values[0]) {
            (ColumnType::Boolean, _) => Self::Bool(all!(memory, Value::Bool(v) => *v)),
            (ColumnType::Byte, _) => Self::I8(memory.integers()),
            (ColumnType::Short, _) => Self::I16(memory.integers()),
            (ColumnType::Int, _) => Self::I32(memory.integers()),
            (_, Value::Integer(_) | Value::Time(_)) => Self::I64(memory.integers()),
            (ColumnType::Float, _) => {
                Self::F32(all!(memory, Value::Float(v) => f32::from_bits(*v)))
            }
            (ColumnType::Double, _) => {
                Self::F64(all!(memory, Value::Double(v) => f64::from_bits(*v)))
            }
            (ColumnType::Char, _) => Self::U16(all!(memory, Value::Char(v) => *v)),
            (ColumnType::Ipv4, _) => Self::U32(all!(memory, Value::Ipv4(v) => *v)),
            (ColumnType::Uuid, _) => Self::U128(all!(memory, Value::Uuid(v) => *v)),
            (ColumnType::Long256, _) => {
                Self::Wide(all!(memory, Value::Long256(v) => long256(*v)), 0)
            }
            (_, Value::Geohash(_, precision)) => {
                Self::U64(all!(memory, Value::Geohash(bits, _) => *bits), *precision)
            }
            (ColumnType::Decimal64, Value::Decimal(_, scale)) => {
                let small = |v: &[u8; 32]| i64::try_from(narrow(v)).expect("small");
                Self::Dec64(all!(memory, Value::Decimal(v, _) => small(v)), *scale)
            }
            (ColumnType::Decimal128, Value::Decimal(_, scale)) => {
                Self::Dec128(all!(memory, Value::Decimal(v, _) => narrow(v)), *scale)
            }
            (_, Value::Decimal(_, scale)) => {
                Self::Wide(all!(memory, Value::Decimal(v, _) => *v), *scale)
            }
            (_, Value::Array(shape, _)) => Self::Shape(shape.clone()),
            (ColumnType::Symbol, _) if form == Form::Handles => {
                let texts = all!(memory, Value::Symbol(text) => text.clone());
                let handles: Result<_, Error> = texts.iter().map(|t| producer.intern(t)).collect();
                Self::Handles(handles?)
            }
            (ColumnType::Symbol, _) => {
                Self::Dictionary(memory.dictionary.iter().map(String::as_str).collect())
            }
            _ => Self::Other,
        })
    }

    fn add<'a>(
        &'a self,
        chunk: &mut Chunk<'a>,
        batch: &Batch<'_>,
        memory: &'a Memory,
        form: Form,
        nulls: Nulls<'a>,
    ) -> Result<(), Error> {
        let rows = batch.rows.len();
        match (self, batch.kind.ty) {
            (Self::Bool(_), _) if form == Form::Packed => {
                chunk.bits("v", &memory.bits, memory.offset, rows, nulls)
            }
            (Self::Bool(v), _) => chunk.bool("v", v, nulls),
            (Self::I8(v), _) => chunk.i8("v", v, nulls),
            (Self::I16(v), _) => chunk.i16("v", v, nulls),
            (Self::I32(v), _) => chunk.i32("v", v, nulls),
            (Self::I64(v), ColumnType::Date) => chunk.date("v", v, nulls),
            (Self::I64(v), ColumnType::Timestamp) => chunk.ts_micros("v", v, nulls),
            (Self::I64(v), ColumnType::TimestampNanos) => chunk.ts_nanos("v", v, nulls),
            (Self::I64(v), _) => chunk.i64("v", v, nulls),
            (Self::F32(v), _) => chunk.f32("v", v, nulls),
            (Self::F64(v), _) => chunk.f64("v", v, nulls),
            (Self::U16(v), _) => chunk.char("v", v, nulls),
            (Self::U32(v), _) => chunk.ipv4("v", v, nulls),
            (Self::U64(v, precision), _) => chunk.geohash("v", v, *precision, nulls),
            (Self::U128(v), _) => chunk.uuid("v", v, nulls),
            (Self::Wide(v, _), ColumnType::Long256) => chunk.long256("v", v, nulls),
            (Self::Wide(v, scale), _) => chunk.dec256("v", v, *scale, nulls),
            (Self::Dec64(v, scale), _) => chunk.dec64("v", v, *scale, nulls),
            (Self::Dec128(v, scale), _) => chunk.dec128("v", v, *scale, nulls),
            (Self::Shape(_), _) if form == Form::Packed => {
                chunk.vectors("v", &memory.offsets, &memory.elements, nulls)
            }
            (Self::Shape(shape), _) => chunk.arrays("v", shape, &memory.elements, rows, nulls),
            (Self::Dictionary(_), _) if form == Form::Packed => {
                chunk.symbol_text("v", &memory.offsets, &memory.text, nulls)
            }
            (Self::Dictionary(dictionary), _) => {
                chunk.symbol_codes("v", &memory.codes, dictionary, nulls)
            }
            (Self::Handles(v), _) => chunk.symbols("v", v, nulls),
            (Self::Other, ColumnType::Binary) => {
                chunk.binary("v", &memory.offsets, &memory.bytes, nulls)
            }
            (Self::Other, _) => chunk.text("v", &memory.offsets, &memory.text, nulls),
        }
        .map(drop)
    }
}
