//! Ranges of frame numbers as they are written on the command line.

use std::str::FromStr;

/// The form that the help and an error name.
const FORMS: &str = "expected A..B (without B), A..=B, A.., ..B or A";

/// Frame numbers from `first` on, below `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FsnRange {
    first: u64,
    end: u64,
}

impl FsnRange {
    /// All numbers.
    pub(crate) const ALL: Self = Self {
        first: 0,
        end: u64::MAX,
    };

    pub(crate) fn contains(self, fsn: u64) -> bool {
        self.first <= fsn && fsn < self.end
    }

    /// Whether `base` and all numbers above it lie behind the range.
    pub(crate) fn ends_before(self, base: u64) -> bool {
        base >= self.end
    }
}

impl FromStr for FsnRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str, absent: u64| match text {
            "" => Ok(absent),
            text => text.parse().map_err(|_| format!("{text:?}: {FORMS}")),
        };
        let range = match text.split_once("..") {
            Some((first, end)) => {
                let end = match end.strip_prefix('=') {
                    Some("") => return Err(FORMS.to_owned()),
                    Some(last) => number(last, 0)?.saturating_add(1),
                    None => number(end, u64::MAX)?,
                };
                Self {
                    first: number(first, 0)?,
                    end,
                }
            }
            None if text.is_empty() => return Err(FORMS.to_owned()),
            None => {
                let first = number(text, 0)?;
                Self {
                    first,
                    end: first.saturating_add(1),
                }
            }
        };
        if range.first >= range.end {
            return Err(format!("no frame number is in {text:?}"));
        }
        Ok(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_means_what_its_rust_twin_means() {
        let range = |text: &str| text.parse::<FsnRange>().map(|r| (r.first, r.end));
        assert_eq!(range("3..7"), Ok((3, 7)));
        assert_eq!(range("3..=7"), Ok((3, 8)));
        assert_eq!(range("3.."), Ok((3, u64::MAX)));
        assert_eq!(range("..7"), Ok((0, 7)));
        assert_eq!(range("5"), Ok((5, 6)));
        for wrong in ["", "a..b", "7..3", "3..3", "..0", "1..=", "-1..2", "0x3"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_first_number_is_in_and_the_end_is_not() {
        let range: FsnRange = "3..7".parse().unwrap();
        assert!(range.contains(3) && range.contains(6) && !range.contains(7));
        assert!(range.ends_before(7) && !range.ends_before(6));
    }
}
