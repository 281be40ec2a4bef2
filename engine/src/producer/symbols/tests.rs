//! The table of ids, batch by batch and epoch by epoch.

use super::*;

/// As `Producer::symbol` does without a limit.
pub(super) fn cell(symbols: &mut Symbols, text: &str) -> u32 {
    let known = symbols.cell(text);
    known.unwrap_or_else(|| {
        let id = symbols.add(text).unwrap();
        symbols.mark_used(id);
        id
    })
}

#[test]
fn a_batch_lists_what_it_uses_once_in_order() {
    let mut symbols = Symbols::default();
    let ids = ["b", "a", "b", ""].map(|text| cell(&mut symbols, text));
    assert_eq!(ids, [0, 1, 0, 2]);
    assert_eq!(
        symbols.used().collect::<Vec<_>>(),
        [(0, &b"b"[..]), (1, b"a"), (2, b"")]
    );
    symbols.next_batch(1, 0);
    assert_eq!(symbols.cell("a"), Some(1));
    let mark = symbols.mark();
    assert_eq!(symbols.cell("new"), None);
    assert_eq!(cell(&mut symbols, "new"), 3);
    symbols.rewind(mark);
    assert_eq!(symbols.used().collect::<Vec<_>>(), [(1, &b"a"[..])]);
    assert_eq!(symbols.used_size(), (1, 1));
    assert_eq!(symbols.cell("new"), None, "its row brought it");
    assert_eq!(cell(&mut symbols, "other"), 3);
    assert_eq!(symbols.used_size(), (2, 6));
    symbols.rewind_all();
    assert_eq!(symbols.used().count(), 0);
    assert_eq!((symbols.cell("other"), symbols.cell("b")), (None, Some(0)));
}

#[test]
fn symbols_are_pending_until_the_shard_took_their_entry() {
    let mut symbols = Symbols::default();
    for (entry, texts) in [["a", "b"], ["b", "c"], ["a", "b"]].iter().enumerate() {
        for text in texts {
            cell(&mut symbols, text);
        }
        symbols.next_batch(entry as u64 + 1, 0);
    }
    cell(&mut symbols, "d");
    let pending = [0, 1, 1, 2, 3].map(|taken| symbols.pending(taken));
    assert_eq!(pending, [4, 2, 2, 1, 1]);
}

#[test]
fn a_new_epoch_begins_a_new_table_with_the_next_batch() {
    let mut symbols = Symbols::default();
    assert_eq!([cell(&mut symbols, "a"), cell(&mut symbols, "b")], [0, 1]);
    symbols.next_batch(1, 0);
    assert_eq!((symbols.cell("b"), symbols.number()), (Some(1), 0));
    symbols.next_batch(2, 7);
    assert_eq!((symbols.cell("b"), symbols.number()), (None, 1));
    assert_eq!(cell(&mut symbols, "b"), 0);
    assert_eq!(symbols.used().collect::<Vec<_>>(), [(0, &b"b"[..])]);
    symbols.next_batch(3, 7);
    assert_eq!((symbols.cell("b"), symbols.number()), (Some(0), 1));
    assert_eq!(symbols.pending(2), 1);
}

#[test]
fn the_cache_never_answers_for_another_text() {
    let mut symbols = Symbols::default();
    for epoch in 0..2 {
        symbols.next_batch(1, epoch);
        let mut known = std::collections::HashMap::new();
        // Many more than places, of all lengths, some with the same ends.
        for n in (0..5000_u32).chain(0..5000) {
            let text = match n % 4 {
                0 => format!("{}", n + u32::try_from(epoch).unwrap()),
                1 => format!("SYM{n:05}"),
                2 => format!("begin-{n}-and the same end"),
                _ => "x".repeat(n as usize % 40),
            };
            let next = u32::try_from(known.len()).unwrap();
            let expected = *known.entry(text.clone()).or_insert(next);
            assert_eq!(cell(&mut symbols, &text), expected, "{text}");
        }
        assert_eq!(symbols.used().count(), known.len());
    }
}

#[test]
fn a_text_that_was_left_out_is_not_found_in_the_cache() {
    let mut symbols = Symbols::default();
    cell(&mut symbols, "a");
    let mark = symbols.mark();
    cell(&mut symbols, "new");
    assert_eq!(symbols.cell("new"), Some(1));
    symbols.rewind(mark);
    assert_eq!(symbols.cell("new"), None);
    assert_eq!([cell(&mut symbols, "b"), cell(&mut symbols, "new")], [1, 2]);
}
