//! The dictionary against a naive model and its limits.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

#[test]
fn ids_are_dense_and_entries_are_one_slice() {
    let mut dictionary = Dictionary::new();
    assert_eq!(dictionary.intern("one"), Ok((0, true)));
    assert_eq!(dictionary.intern("two"), Ok((1, true)));
    assert_eq!(dictionary.intern("one"), Ok((0, false)));
    assert_eq!(dictionary.intern(""), Ok((2, true)));
    assert_eq!(dictionary.intern("three"), Ok((3, true)));
    assert_eq!(dictionary.entries(0, 4), b"\x03one\x03two\0\x05three");
    assert_eq!(dictionary.entries(1, 2), b"\x03two");
    assert_eq!(dictionary.entries(4, 4), b"");
    assert_eq!(dictionary.find("three"), Some(3));
    assert_eq!(dictionary.find("four"), None);
    assert_eq!((dictionary.get(2), dictionary.get(4)), (Some(""), None));
}

#[test]
fn a_chunk_is_what_the_official_client_writes() {
    let mut dictionary = Dictionary::new();
    for symbol in ["one", "two", "three"] {
        dictionary.intern(symbol).unwrap();
    }
    let mut out = Vec::new();
    dictionary.chunk(1, 3, &mut out);
    assert_eq!(out, b"\x02\x0a\x03two\x05three\xa2\x44\x4d\x7f");
    dictionary.chunk(3, 3, &mut out);
    assert_eq!(out.len(), 16);
}

#[test]
fn a_string_that_occurs_twice_on_disk_keeps_both_ids() {
    let mut dictionary = Dictionary::new();
    for symbol in ["a", "b", "a", "c"] {
        dictionary.append(symbol).unwrap();
    }
    assert_eq!(
        (dictionary.len(), dictionary.find("a"), dictionary.get(2)),
        (4, Some(0), Some("a"))
    );
    dictionary.truncate(2);
    assert_eq!(
        (dictionary.find("a"), dictionary.find("c")),
        (Some(0), None)
    );
}

#[test]
fn limits_are_refused_without_a_change() {
    let mut dictionary = Dictionary::new();
    let long = "x".repeat(ENTRY_BYTES_MAX + 1);
    assert_eq!(
        dictionary.intern(&long),
        Err(DictionaryFull::EntryBytes(ENTRY_BYTES_MAX + 1))
    );
    for i in 0..256 {
        let text = format!("{i:04}{}", "y".repeat(ENTRY_BYTES_MAX - 4));
        dictionary.intern(&text).unwrap();
    }
    assert_eq!(
        dictionary.intern("z"),
        Err(DictionaryFull::Bytes(STRING_BYTES_MAX))
    );
    assert_eq!((dictionary.len(), dictionary.find("z")), (256, None));
    dictionary.truncate(255);
    assert_eq!(dictionary.intern("z"), Ok((255, true)));
}

#[test]
fn new_ids_end_at_a_million_and_stored_ones_at_two() {
    let mut dictionary = Dictionary::new();
    for i in 0..NEW_ENTRIES_MAX {
        assert_eq!(dictionary.intern(&i.to_string()), Ok((i, true)));
    }
    assert_eq!(
        dictionary.intern("x"),
        Err(DictionaryFull::Entries(NEW_ENTRIES_MAX))
    );
    assert_eq!(dictionary.intern("999999"), Ok((999_999, false)));
    assert_eq!(dictionary.append("x"), Ok(NEW_ENTRIES_MAX));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn it_answers_like_a_map(steps in prop::collection::vec((0..200_u32, 0..40_u32), 1..300)) {
        let mut dictionary = Dictionary::new();
        let mut model: Vec<String> = Vec::new();
        for (word, cut) in steps {
            if cut == 0 {
                let keep = word.min(dictionary.len());
                dictionary.truncate(keep);
                model.truncate(keep as usize);
            }
            let text = "s".repeat(word as usize) + &word.to_string();
            let known: HashMap<&str, usize> =
                model.iter().enumerate().map(|(id, text)| (text.as_str(), id)).collect();
            let expected = known.get(text.as_str()).map_or((model.len(), true), |id| (*id, false));
            let (id, new) = dictionary.intern(&text).unwrap();
            prop_assert_eq!((id as usize, new), expected);
            if new {
                model.push(text);
            }
        }
        prop_assert_eq!(dictionary.len() as usize, model.len());
        for (id, text) in model.iter().enumerate() {
            prop_assert_eq!(dictionary.get(u32::try_from(id).unwrap()), Some(text.as_str()));
        }
    }
}
