//! `.symbol-dict` against a naive reader; and what is read once is read again from the valid part,
//! and from a new file that is written from it.
#![no_main]

use std::path::Path;

use forebay::internals::codec::dictionary_bytes;
use forebay::internals::slot::{DictionaryHeader, SymbolFile, symbol_file};
use forebay_fuzz::{file_with, flags, mend};
use forebay_wire::varint;
use libfuzzer_sys::fuzz_target;

const HEADER: usize = 8;

fn mend_chunks(bytes: &mut [u8]) {
    let mut at = HEADER;
    while let Some(end) = chunk_body_end(bytes, at) {
        if mend(bytes, at..end, end).is_none() {
            break;
        }
        at = end + 4;
    }
}

fn chunk_body_end(bytes: &[u8], at: usize) -> Option<usize> {
    let (_, used) = varint::decode(bytes.get(at..)?).ok()?;
    let (entry_bytes, used_too) = varint::decode(bytes.get(at + used..)?).ok()?;
    let end = usize::try_from(entry_bytes)
        .ok()?
        .checked_add(at + used + used_too)?;
    (end <= bytes.len()).then_some(end)
}

/// Symbols of the valid chunks and where the last of them ends, by the book.
fn naive(bytes: &[u8]) -> (Vec<&str>, usize) {
    let (mut texts, mut at) = (Vec::new(), HEADER);
    while let Some((mut found, len)) = naive_chunk(&bytes[at..]) {
        texts.append(&mut found);
        at += len;
    }
    (texts, at)
}

fn naive_chunk(bytes: &[u8]) -> Option<(Vec<&str>, usize)> {
    let end = chunk_body_end(bytes, 0)?;
    if bytes.get(end..end + 4)? != crc32c::crc32c(&bytes[..end]).to_le_bytes() {
        return None;
    }
    let (count, used) = varint::decode(bytes).ok()?;
    let (_, used_too) = varint::decode(&bytes[used..]).ok()?;
    let mut entries = &bytes[used + used_too..end];
    let mut texts = Vec::new();
    while !entries.is_empty() {
        let (length, used) = varint::decode(entries).ok()?;
        let text_end = usize::try_from(length).ok()?.checked_add(used)?;
        texts.push(std::str::from_utf8(entries.get(used..text_end)?).ok()?);
        entries = &entries[text_end..];
    }
    (count > 0 && texts.len() as u64 == count).then_some((texts, end + 4))
}

fn read(bytes: &[u8]) -> SymbolFile {
    let found = symbol_file(file_with(bytes), Path::new("fuzz")).expect("the file can be read");
    assert_eq!(found.bytes, bytes.len() as u64);
    assert!(found.end <= found.bytes);
    let count: u64 = found.chunks.iter().map(|count| u64::from(*count)).sum();
    assert_eq!(count, u64::from(found.symbols.len()));
    assert!(found.chunks.iter().all(|count| *count > 0));
    assert!(count == 0 || found.header == DictionaryHeader::Known);
    found
}

fn texts(file: &SymbolFile) -> Vec<&str> {
    let all = (0..file.symbols.len()).map(|id| file.symbols.get(id).expect("an id below len"));
    all.collect()
}

fn check(bytes: &[u8]) {
    let found = read(bytes);
    assert_eq!(
        found.header == DictionaryHeader::Known,
        bytes.starts_with(b"SYD1\x01\0\0\0")
    );
    if found.header != DictionaryHeader::Known {
        return;
    }
    let texts = texts(&found);
    let end = usize::try_from(found.end).expect("within the file");
    assert_eq!((&texts, end), (&naive(bytes).0, naive(bytes).1));
    let prefix = read(&bytes[..end]);
    assert_eq!((prefix.end, &prefix.chunks), (found.end, &found.chunks));
    assert_eq!(self::texts(&prefix), texts);

    let count = found.symbols.len();
    let written = dictionary_bytes(count, found.symbols.entries(0, count));
    let again = read(&written);
    assert_eq!(again.end, written.len() as u64);
    assert_eq!(self::texts(&again), texts);
}

fuzz_target!(|data: &[u8]| {
    let Some((flags, bytes)) = flags(data) else {
        return;
    };
    let mut bytes = bytes.to_vec();
    if flags & 1 != 0 {
        mend_chunks(&mut bytes);
    }
    check(&bytes);
});
