//! The kinds of value: sizes, numbers, durations, switches.
//!
//! Every refusal names the key, quotes the value and says what would be right.

use std::time::Duration;

use super::grammar::Params;
use crate::error::Error;

/// Longest duration in milliseconds: its nanoseconds fit an i64.
pub(super) const MILLIS_MAX: u64 = (i64::MAX / 1_000_000).unsigned_abs();

/// An error for a value.
pub(super) fn invalid(key: &str, value: &str, wanted: &str) -> Error {
    Error::config(key, format!("invalid value {value:?}, expected {wanted}"))
}

/// An error for a key whose feature does not exist yet.
pub(super) fn not_yet(key: &str, what: &str) -> Error {
    Error::config(
        key,
        format!("{what} is not supported by this version yet: remove the key"),
    )
}

/// A whole number of decimal digits.
pub(super) fn number(key: &str, value: &str, min: u64, max: u64) -> Result<u64, Error> {
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let number = if digits { value.parse().ok() } else { None };
    number
        .filter(|number| (min..=max).contains(number))
        .ok_or_else(|| invalid(key, value, &format!("a whole number from {min} to {max}")))
}

/// Bytes: digits, then optionally `k`, `m`, `g` or `t` (powers of 1024), then optionally `b`.
pub(super) fn size(key: &str, value: &str, min: u64, max: u64) -> Result<u64, Error> {
    let wanted = || {
        let text = format!(
            "{min} to {max} bytes as a whole number with an optional k, m, g or t (powers of 1024)"
        );
        invalid(key, value, &text)
    };
    let lower = value.to_ascii_lowercase();
    let stem = lower.strip_suffix('b').unwrap_or(&lower);
    let (digits, shift) = match stem.char_indices().next_back() {
        Some((at, 'k')) => (&stem[..at], 10),
        Some((at, 'm')) => (&stem[..at], 20),
        Some((at, 'g')) => (&stem[..at], 30),
        Some((at, 't')) => (&stem[..at], 40),
        _ => (stem, 0),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wanted());
    }
    let bytes = digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(1 << shift));
    bytes
        .filter(|bytes| (min..=max).contains(bytes))
        .ok_or_else(wanted)
}

/// `on`, `true`, `off` or `false`, in any case.
pub(super) fn switch(key: &str, value: &str) -> Result<bool, Error> {
    match value.to_ascii_lowercase().as_str() {
        "on" | "true" => Ok(true),
        "off" | "false" => Ok(false),
        _ => Err(invalid(key, value, "on or off")),
    }
}

impl Params {
    /// A number, or the default when the key is absent.
    pub(super) fn number(
        &mut self,
        key: &str,
        default: u64,
        min: u64,
        max: u64,
    ) -> Result<u64, Error> {
        self.take(key)
            .map_or(Ok(default), |value| number(key, &value, min, max))
    }

    /// A size, if given.
    pub(super) fn size(&mut self, key: &str, min: u64, max: u64) -> Result<Option<u64>, Error> {
        self.take(key)
            .map(|value| size(key, &value, min, max))
            .transpose()
    }

    /// Milliseconds, at least `min`.
    pub(super) fn millis(&mut self, key: &str, default: u64, min: u64) -> Result<Duration, Error> {
        self.number(key, default, min, MILLIS_MAX)
            .map(Duration::from_millis)
    }

    /// Milliseconds where zero and negative numbers mean "none".
    pub(super) fn millis_or_none(
        &mut self,
        key: &str,
        default: u64,
    ) -> Result<Option<Duration>, Error> {
        let Some(value) = self.take(key) else {
            return Ok(Some(Duration::from_millis(default)));
        };
        if let Some(digits) = value.strip_prefix('-') {
            let wanted = "a whole number; zero and negative numbers do not wait";
            return number(key, digits, 0, MILLIS_MAX)
                .map(|_| None)
                .map_err(|_| invalid(key, &value, wanted));
        }
        let millis = number(key, &value, 0, MILLIS_MAX)?;
        Ok((millis > 0).then(|| Duration::from_millis(millis)))
    }

    /// A switch, or the default when the key is absent.
    pub(super) fn switch(&mut self, key: &str, default: bool) -> Result<bool, Error> {
        self.take(key)
            .map_or(Ok(default), |value| switch(key, &value))
    }
}
