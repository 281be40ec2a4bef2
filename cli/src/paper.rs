//! Text for people: foreign bytes without power over a terminal, sizes and ages in words.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A text from disk on one line, with control characters escaped.
pub(crate) fn tame(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        // The right-to-left overrides reorder a line as well.
        if c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// Bytes with a unit of 1,024.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut scaled = (count, 0);
    let mut unit = UNITS[0];
    for next in UNITS {
        unit = next;
        scaled = (scaled.0 / 1024, scaled.0 % 1024);
        if scaled.0 < 1024 {
            break;
        }
    }
    format!("{}.{} {unit}", scaled.0, scaled.1 * 10 / 1024)
}

/// How long ago a wall-clock time was; `None` when it lies ahead.
pub(crate) fn age(micros: u64) -> Option<Duration> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    now.checked_sub(Duration::from_micros(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_move_the_cursor() {
        assert_eq!(tame("a\x1b[2J\nb\u{9b}é"), "a\\u{1b}[2J\\nb\\u{9b}é");
        assert_eq!(tame("x\u{202e}y"), "x\\u{202e}y");
    }

    #[test]
    fn sizes_are_cut_not_rounded() {
        let shown = [0, 1023, 1024, 1536, 4 << 20, (1 << 30) - 1, u64::MAX].map(bytes);
        let want = [
            "0 B",
            "1023 B",
            "1.0 KiB",
            "1.5 KiB",
            "4.0 MiB",
            "1023.9 MiB",
        ];
        assert_eq!(shown[..6], want);
        assert!(shown[6].ends_with("TiB"));
    }
}
