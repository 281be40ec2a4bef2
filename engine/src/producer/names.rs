//! Comparing short names fast: rows repeat their columns, so almost every comparison is of equal
//! names of a few bytes, where a call of `memcmp` costs more than the comparison. And judging new
//! ones.

use forebay_wire::names;

/// Longest symbol in bytes (protocol.md section 9).
const SYMBOL_BYTES_MAX: usize = 1 << 20;

/// Whether two names are equal.
#[inline]
pub(super) fn same(a: &str, b: &str) -> bool {
    same_bytes(a.as_bytes(), b.as_bytes())
}

/// Whether two short texts are equal.
#[inline]
pub(super) fn same_bytes(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    match a.len() {
        0 => true,
        1..=3 => a.iter().zip(b).all(|(x, y)| x == y),
        4..=7 => ends::<4>(a) == ends::<4>(b),
        8..=16 => ends::<8>(a) == ends::<8>(b),
        _ => a == b,
    }
}

/// The first and the last `N` bytes, which overlap or touch for lengths of `N` to `2 * N`.
#[inline]
fn ends<const N: usize>(bytes: &[u8]) -> (Option<&[u8; N]>, Option<&[u8; N]>) {
    (bytes.first_chunk(), bytes.last_chunk())
}

pub(super) fn check_length(name: &str, limit: usize) -> Result<(), String> {
    if name.len() > limit {
        return Err(format!(
            "a name of {} bytes, at most {limit} (max_name_len)",
            name.len()
        ));
    }
    Ok(())
}

/// What is wrong with the name of a new column.
pub(super) fn check_column(name: &str, limit: usize) -> Result<(), String> {
    names::check_column(name).map_err(|error| error.to_string())?;
    check_length(name, limit)
}

/// What is wrong with a symbol of so many bytes.
#[inline]
pub(super) fn check_symbol(bytes: usize) -> Result<(), String> {
    if bytes > SYMBOL_BYTES_MAX {
        return Err(format!(
            "a symbol of {bytes} bytes, at most {SYMBOL_BYTES_MAX}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::same;

    #[test]
    fn names_compare_like_strings() {
        let text = "abcdefghijklmnopqrstuvwxyz";
        for len in 0..text.len() {
            let a = &text[..len];
            let copy: String = a.chars().collect();
            assert!(same(a, &copy));
            assert!(!same(a, &text[..=len]));
            for at in 0..len {
                let mut other = a.to_owned();
                other.replace_range(at..=at, "#");
                assert!(!same(a, &other), "{a} {other}");
            }
        }
    }
}
