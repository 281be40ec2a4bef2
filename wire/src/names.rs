//! Which table and column names a sender may use (protocol.md section 15).

/// Most UTF-8 bytes of a name.
pub const NAME_BYTES_MAX: usize = 127;

/// Why a name is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// No character at all.
    #[error("name is empty")]
    Empty,
    /// More than [`NAME_BYTES_MAX`] bytes.
    #[error("name has {bytes} bytes of UTF-8, at most 127 are allowed")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// A character that the server's file names cannot have.
    #[error("name has the character {character:?} at byte {at}, which names must not have")]
    Character {
        /// The character.
        character: char,
        /// Its byte offset in the name.
        at: usize,
    },
    /// A table name with a dot at either end, or two in a row.
    #[error("name has a dot at byte {at}: dots must not lead, trail or follow each other")]
    Dot {
        /// Byte offset of the dot.
        at: usize,
    },
}

/// Checks a table name.
///
/// ```
/// use forebay_wire::names::check_table;
/// assert!(check_table("ticks.2026 eu-1").is_ok());
/// assert!(check_table("ticks..eu").is_err());
/// ```
pub fn check_table(name: &str) -> Result<(), NameError> {
    check(name, forbidden)?;
    let mut previous = '.';
    for (at, character) in name.char_indices() {
        if character == '.' && previous == '.' {
            return Err(NameError::Dot { at });
        }
        previous = character;
    }
    if previous == '.' {
        return Err(NameError::Dot { at: name.len() - 1 });
    }
    Ok(())
}

/// Checks a column name. (The designated timestamp has no name and is not checked.)
pub fn check_column(name: &str) -> Result<(), NameError> {
    check(name, |c| forbidden(c) || matches!(c, '.' | '-'))
}

fn check(name: &str, refused: impl Fn(char) -> bool) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(NameError::TooLong { bytes: name.len() });
    }
    match name.char_indices().find(|(_, c)| refused(*c)) {
        Some((at, character)) => Err(NameError::Character { character, at }),
        None => Ok(()),
    }
}

fn forbidden(character: char) -> bool {
    matches!(
        character,
        '?' | ',' | '\'' | '"' | '\\' | '/' | ':' | ')' | '(' | '+' | '*' | '%' | '~' | '\0'
            ..='\u{f}' | '\u{7f}' | '\u{feff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_may_stand_inside_table_names_only() {
        assert_eq!(check_table("a.b"), Ok(()));
        assert_eq!(check_table(".a"), Err(NameError::Dot { at: 0 }));
        assert_eq!(check_table("a."), Err(NameError::Dot { at: 1 }));
        assert_eq!(check_table("a..b"), Err(NameError::Dot { at: 2 }));
        assert_eq!(
            check_column("a.b"),
            Err(NameError::Character {
                character: '.',
                at: 1
            })
        );
    }

    #[test]
    fn dashes_spaces_and_other_scripts_are_allowed_in_tables() {
        assert_eq!(check_table("été-日本 \u{10}"), Ok(()));
        assert_eq!(check_column("été 日本"), Ok(()));
        assert_eq!(
            check_column("a-b"),
            Err(NameError::Character {
                character: '-',
                at: 1
            })
        );
    }

    #[test]
    fn every_listed_character_is_refused_in_both() {
        let controls = ('\0'..='\u{f}').chain("?,'\"\\/:)(+*%~\u{7f}\u{feff}".chars());
        for character in controls {
            let name = format!("é{character}");
            let error = Err(NameError::Character { character, at: 2 });
            assert_eq!(check_table(&name), error);
            assert_eq!(check_column(&name), error);
        }
    }

    #[test]
    fn length_counts_bytes_of_utf8() {
        assert_eq!(check_table(&"a".repeat(127)), Ok(()));
        assert_eq!(
            check_column(&"é".repeat(64)),
            Err(NameError::TooLong { bytes: 128 })
        );
        assert_eq!(check_table(""), Err(NameError::Empty));
        assert_eq!(check_column(""), Err(NameError::Empty));
    }
}
