//! Limits of an HTTP head, and small readings of header values. Used by both sides.

use tungstenite::http::HeaderMap;

/// Largest head that is read, bytes.
pub const HEAD_BYTES_MAX: usize = 32 * 1024;
/// Longest line of a head, bytes, without its line end.
pub const LINE_BYTES_MAX: usize = 8 * 1024;

/// Which limit a head breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Excess {
    Head,
    Line,
}

/// Checks the head of length `head_bytes` at the front of `bytes`; without a length the head is
/// still arriving.
pub(super) fn check_limits(bytes: &[u8], head_bytes: Option<usize>) -> Result<(), Excess> {
    let head = &bytes[..head_bytes.unwrap_or(bytes.len()).min(bytes.len())];
    // The first line that is too long is told even when the head is too large as well.
    let within = &head[..head.len().min(HEAD_BYTES_MAX)];
    for line in within.split(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.len() > LINE_BYTES_MAX {
            return Err(Excess::Line);
        }
    }
    let whole = head_bytes.is_some();
    if head.len() > HEAD_BYTES_MAX || (!whole && head.len() == HEAD_BYTES_MAX) {
        return Err(Excess::Head);
    }
    Ok(())
}

/// The first value of a header, trimmed; `None` when absent or not ASCII text.
pub(super) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// Whether a comma list, possibly over several headers of one name, has the token.
pub(super) fn has_token(headers: &HeaderMap, name: &str, token: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|part| part.trim().eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_to_the_byte() {
        let line = |n: usize| [vec![b'a'; n], b"\r\n".to_vec()].concat();
        assert_eq!(check_limits(&line(LINE_BYTES_MAX), None), Ok(()));
        assert_eq!(
            check_limits(&line(LINE_BYTES_MAX + 1), None),
            Err(Excess::Line)
        );
        let many = line(1022).repeat(40);
        assert_eq!(check_limits(&many[..HEAD_BYTES_MAX - 1], None), Ok(()));
        assert_eq!(
            check_limits(&many[..HEAD_BYTES_MAX], None),
            Err(Excess::Head)
        );
        assert_eq!(check_limits(&many, Some(HEAD_BYTES_MAX)), Ok(()));
        assert_eq!(
            check_limits(&many, Some(HEAD_BYTES_MAX + 1)),
            Err(Excess::Head)
        );
    }
}
