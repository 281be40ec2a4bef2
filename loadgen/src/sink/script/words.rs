//! A line of a script as words: quotes keep spaces together, `#` starts a comment.

/// Splits a line. A word in double quotes may hold spaces, `#`, and `\"` and `\\`.
pub(super) fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut chars = line.chars().peekable();
    while let Some(&first) = chars.peek() {
        match first {
            '#' => break,
            c if c.is_whitespace() => {
                chars.next();
            }
            '"' => {
                chars.next();
                words.push(quoted(&mut chars)?);
            }
            _ => {
                let mut word = String::new();
                while let Some(c) = chars.next_if(|c| !c.is_whitespace()) {
                    word.push(c);
                }
                words.push(word);
            }
        }
    }
    Ok(words)
}

fn quoted(chars: &mut impl Iterator<Item = char>) -> Result<String, String> {
    let mut word = String::new();
    loop {
        match chars.next() {
            Some('"') => return Ok(word),
            Some('\\') => word.extend(chars.next()),
            Some(c) => word.push(c),
            None => return Err("a quote is not closed".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn quotes_keep_spaces_and_a_hash_starts_a_comment() {
        let words = split("  a \"b  #\\\"c\" d# # no").unwrap();
        assert_eq!(words, ["a", "b  #\"c", "d#"]);
        assert!(split("\"open").is_err());
    }
}
