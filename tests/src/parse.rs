//! Cells in the notation of the corpus, read back: the inverse of [`cells`](crate::cells).

use std::error::Error;
use std::str::FromStr;

use serde_json::Value;

/// Why a cell cannot be read.
pub type Failure = Box<dyn Error>;

/// The text of a cell.
pub fn text(value: &Value) -> Result<&str, Failure> {
    let text = value.as_str();
    text.ok_or_else(|| format!("{value} is no text").into())
}

/// Decimal numbers, addresses, booleans: whatever the standard library reads.
pub fn parsed<T: FromStr<Err: Error + 'static>>(value: &Value) -> Result<T, Failure> {
    Ok(text(value)?.parse()?)
}

/// `0x…`: the bits of a floating-point number.
pub fn bits(text: &str) -> Result<u64, Failure> {
    let digits = text.strip_prefix("0x").ok_or("bits begin with 0x")?;
    Ok(u64::from_str_radix(digits, 16)?)
}

/// A DOUBLE.
pub fn double(value: &Value) -> Result<f64, Failure> {
    Ok(f64::from_bits(bits(text(value)?)?))
}

/// A FLOAT.
pub fn float(value: &Value) -> Result<f32, Failure> {
    Ok(f32::from_bits(u32::try_from(bits(text(value)?)?)?))
}

/// A UUID's more and less significant half.
pub fn uuid(value: &Value) -> Result<(u64, u64), Failure> {
    let digits = text(value)?.replace('-', "");
    let number = u128::from_str_radix(&digits, 16)?;
    let low = u64::try_from(number & u128::from(u64::MAX))?;
    Ok((u64::try_from(number >> 64)?, low))
}

/// A LONG256, least significant word first.
pub fn long256(value: &Value) -> Result<[u64; 4], Failure> {
    let digits = text(value)?.strip_prefix("0x").ok_or("begins with 0x")?;
    let mut words = [0; 4];
    for (word, from) in words.iter_mut().zip([48, 32, 16, 0]) {
        let digits = digits.get(from..from + 16).ok_or("64 digits")?;
        *word = u64::from_str_radix(digits, 16)?;
    }
    Ok(words)
}

/// A GEOHASH's bits and precision.
pub fn geohash(value: &Value) -> Result<(u64, u8), Failure> {
    let (bits, precision) = text(value)?.split_once('/').ok_or("bits/precision")?;
    Ok((bits.parse()?, precision.parse()?))
}

/// BINARY.
pub fn bytes(value: &Value) -> Result<Vec<u8>, Failure> {
    let pairs = text(value)?.as_bytes().chunks(2);
    pairs
        .map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?))
        .collect()
}

/// A fixed-point number's digits with its sign, and its scale.
pub fn decimal(value: &Value) -> Result<(String, u8), Failure> {
    let text = text(value)?;
    let scale = text.split_once('.').map_or(0, |(_, behind)| behind.len());
    Ok((text.replace('.', ""), u8::try_from(scale)?))
}

/// A number in decimal as 32 little-endian bytes of a two's complement.
pub fn wide(digits: &str) -> Result<[u8; 32], Failure> {
    let (negative, magnitude) = match digits.strip_prefix('-') {
        Some(magnitude) => (true, magnitude),
        None => (false, digits),
    };
    let mut number = [0_u8; 32];
    for digit in magnitude.chars() {
        let digit = digit.to_digit(10).ok_or("a decimal digit")?;
        multiply_add(&mut number, 10, u8::try_from(digit)?)?;
    }
    if negative {
        number = number.map(|byte| !byte);
        multiply_add(&mut number, 1, 1)?;
    }
    Ok(number)
}

fn multiply_add(number: &mut [u8; 32], factor: u8, summand: u8) -> Result<(), Failure> {
    let mut carry = u16::from(summand);
    for byte in number {
        let [low, high] = (u16::from(*byte) * u16::from(factor) + carry).to_le_bytes();
        *byte = low;
        carry = u16::from(high);
    }
    if carry == 0 {
        Ok(())
    } else {
        Err("a number beyond 256 bits".into())
    }
}

/// An array's dimensions and its elements, each read by `element`.
pub fn array<T>(
    value: &Value,
    element: impl Fn(&Value) -> Result<T, Failure>,
) -> Result<(Vec<usize>, Vec<T>), Failure> {
    let list = |key: &str| value[key].as_array().ok_or("dims and v");
    let mut dims = Vec::new();
    for length in list("dims")? {
        let length = length.as_u64().ok_or("a dimension is a number")?;
        dims.push(usize::try_from(length)?);
    }
    let elements: Result<Vec<T>, Failure> = list("v")?.iter().map(element).collect();
    Ok((dims, elements?))
}
