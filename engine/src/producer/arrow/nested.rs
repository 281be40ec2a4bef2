//! Columns of several buffers: text, bytes, dictionaries, lists.

use std::borrow::Cow;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, UInt32Type};
use arrow_array::{Array, FixedSizeBinaryArray, GenericBinaryArray, GenericStringArray};
use arrow_schema::{DataType, Field};

use super::column::unsupported;
use super::data::Data;

pub(super) fn convert<'a>(
    field: &'a Field,
    array: &'a dyn Array,
    wanted: Option<&str>,
) -> Result<Data<'a>, String> {
    let metadata = |key: &str| field.metadata().get(key).map(String::as_str);
    let symbol = wanted == Some("symbol") || metadata("questdb.symbol") == Some("true");
    let uuid = wanted == Some("uuid") || metadata("ARROW:extension:name") == Some("arrow.uuid");
    match array.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let (ends, text) = text(array)?;
            Ok(if symbol {
                Data::SymbolText(ends, text)
            } else {
                Data::Text(ends, text)
            })
        }
        DataType::Binary => {
            let array: &GenericBinaryArray<i32> = array.as_binary();
            let ends = array.offsets().inner().inner().typed_data();
            Ok(Data::Binary(
                Cow::Borrowed(ends),
                Cow::Borrowed(array.value_data()),
            ))
        }
        DataType::LargeBinary => gathered(array.as_binary::<i64>().iter()),
        DataType::BinaryView => gathered(array.as_binary_view().iter()),
        DataType::FixedSizeBinary(16) if uuid => {
            // Canonical order is most significant byte first.
            let (values, _) = array.as_fixed_size_binary().value_data().as_chunks();
            Ok(Data::Uuid(
                values
                    .iter()
                    .map(|value| u128::from_be_bytes(*value))
                    .collect(),
            ))
        }
        DataType::FixedSizeBinary(32) if wanted == Some("long256") => Ok(Data::Long256(
            array.as_fixed_size_binary().value_data().as_chunks().0,
        )),
        DataType::FixedSizeBinary(_) if wanted.is_none() && !uuid => {
            let array: &FixedSizeBinaryArray = array.as_fixed_size_binary();
            gathered(array.iter())
        }
        DataType::Dictionary(_, _) => dictionary(array),
        DataType::List(inner) if inner.data_type() == &DataType::Float64 => {
            let list = array.as_list::<i32>();
            let ends = list.offsets().inner().inner().typed_data();
            Ok(Data::Vectors(
                Cow::Borrowed(ends),
                doubles(list.values().as_ref())?,
            ))
        }
        DataType::FixedSizeList(_, _) => fixed_lists(array),
        ty => Err(unsupported(ty, wanted)),
    }
}

type Texts<'a> = (Cow<'a, [u32]>, Cow<'a, str>);

fn text(array: &dyn Array) -> Result<Texts<'_>, String> {
    if let Some(array) = array.as_string_opt::<i32>() {
        let ends: &[u32] = array.offsets().inner().inner().typed_data();
        let last = ends.last().map_or(0, |last| *last as usize);
        let bytes = array.value_data().get(..last).unwrap_or_default();
        let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
        return Ok((Cow::Borrowed(ends), Cow::Borrowed(text)));
    }
    let (mut ends, mut text) = (vec![0], String::new());
    let mut add = |value: Option<&str>| {
        text.push_str(value.unwrap_or_default());
        ends.push(end(text.len())?);
        Ok::<(), String>(())
    };
    if let Some(array) = array.as_string_opt::<i64>() {
        array.iter().try_for_each(&mut add)?;
    } else {
        array.as_string_view().iter().try_for_each(&mut add)?;
    }
    Ok((ends.into(), text.into()))
}

fn end(length: usize) -> Result<u32, String> {
    u32::try_from(length).map_err(|_| "more than 4 GiB in one column".to_owned())
}

fn gathered<'a>(values: impl Iterator<Item = Option<&'a [u8]>>) -> Result<Data<'a>, String> {
    let (mut ends, mut bytes) = (vec![0], Vec::new());
    for value in values {
        bytes.extend_from_slice(value.unwrap_or_default());
        ends.push(end(bytes.len())?);
    }
    Ok(Data::Binary(ends.into(), bytes.into()))
}

fn dictionary(array: &dyn Array) -> Result<Data<'_>, String> {
    fn words<O: arrow_array::OffsetSizeTrait>(array: &GenericStringArray<O>) -> Vec<&str> {
        array.iter().map(Option::unwrap_or_default).collect()
    }
    let dictionary = array.as_any_dictionary();
    let entries = dictionary.values();
    let words = match (
        entries.as_string_opt::<i32>(),
        entries.as_string_opt::<i64>(),
    ) {
        (Some(entries), _) => words(entries),
        (_, Some(entries)) => words(entries),
        _ => return Err(unsupported(array.data_type(), None)),
    };
    let keys = dictionary.keys();
    let codes = if let Some(keys) = keys.as_primitive_opt::<UInt32Type>() {
        Cow::Borrowed(&keys.values()[..])
    } else if let Some(keys) = keys.as_primitive_opt::<Int32Type>() {
        // Those that are not null are not negative.
        Cow::Borrowed(keys.values().inner().typed_data())
    } else if words.is_empty() {
        vec![0; array.len()].into()
    } else {
        let keys = dictionary.normalized_keys().into_iter();
        let codes: Result<Vec<u32>, String> = keys.map(end).collect();
        codes?.into()
    };
    Ok(Data::SymbolCodes(codes, words))
}

fn doubles(array: &dyn Array) -> Result<&[f64], String> {
    let Some(values) = array.as_primitive_opt::<Float64Type>() else {
        let ty = array.data_type();
        return Err(format!("an array of {ty}: only doubles can be stored"));
    };
    if values.null_count() > 0 {
        return Err("null elements within an array: use NaN".to_owned());
    }
    Ok(values.values())
}

/// Lists of one length, within each other as often as there are dimensions.
fn fixed_lists(array: &dyn Array) -> Result<Data<'_>, String> {
    let (mut shape, mut inner) = (Vec::new(), array);
    while let Some(list) = inner.as_fixed_size_list_opt() {
        if !shape.is_empty() && list.null_count() > 0 {
            return Err("null lists within an array".to_owned());
        }
        let length = list.value_length();
        shape.push(u32::try_from(length).map_err(|_| format!("a list of {length} elements"))?);
        inner = list.values().as_ref();
    }
    Ok(Data::Arrays(shape, doubles(inner)?))
}
