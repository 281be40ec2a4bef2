//! Keys of the producer: automatic flushing, and what it adds to or demands of a row.

use std::time::Duration;

use super::grammar::Params;
use super::value::{MILLIS_MAX, invalid, number};
use crate::error::Error;

/// When a producer publishes by itself: at the first of these, looked at when a row is completed
/// and by `tick`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AutoFlush {
    /// `auto_flush_rows`: buffered rows; `None` is off.
    pub rows: Option<usize>,
    /// `auto_flush_bytes`: their encoded bytes; `None` is off.
    pub bytes: Option<usize>,
    /// `auto_flush_interval`: age of the oldest buffered row; `None` is off.
    pub interval: Option<Duration>,
}

impl AutoFlush {
    /// Never.
    pub const OFF: Self = Self {
        rows: None,
        bytes: None,
        interval: None,
    };
}

/// The producer's keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProducerKeys {
    /// `auto_flush` and `auto_flush_*`.
    pub auto_flush: AutoFlush,
    /// `at_now`: whether `at_now()` stamps rows at the call (else the server does).
    pub stamp_at_now: bool,
    /// `row_seq`: a LONG column of numbers that rise from row to row.
    pub row_seq: Option<String>,
    /// `receive_time`: a `TIMESTAMP_NANOS` column of the wall clock at `at`.
    pub receive_time: Option<String>,
    /// `timestamp_past_max`: how far a designated timestamp may lie in the past.
    pub past_max: Option<Duration>,
    /// `timestamp_future_max`: how far it may lie in the future.
    pub future_max: Option<Duration>,
}

impl ProducerKeys {
    pub(super) fn take(params: &mut Params, has_files: bool) -> Result<Self, Error> {
        Ok(Self {
            auto_flush: auto_flush(params)?,
            stamp_at_now: stamp_at_now(params, has_files)?,
            row_seq: column(params, "row_seq")?,
            receive_time: column(params, "receive_time")?,
            past_max: limit(params, "timestamp_past_max")?,
            future_max: limit(params, "timestamp_future_max")?,
        })
    }
}

/// Off unless one of the keys is given: the official client that this API resembles has none.
/// Once it is on, what is not named has the documented defaults.
fn auto_flush(params: &mut Params) -> Result<AutoFlush, Error> {
    let given = params.has_prefix("auto_flush_");
    let on = params.switch("auto_flush", given)?;
    let rows = threshold(params, "auto_flush_rows", 1000)?;
    let bytes = threshold(params, "auto_flush_bytes", 0)?;
    let interval = threshold(params, "auto_flush_interval", 100)?;
    if !on {
        return Ok(AutoFlush::OFF);
    }
    Ok(AutoFlush {
        rows,
        bytes,
        interval: interval.map(|millis| Duration::from_millis(millis as u64)),
    })
}

/// A positive number; 0 and `off` switch it off.
fn threshold(params: &mut Params, key: &str, default: usize) -> Result<Option<usize>, Error> {
    let value = match params.take(key) {
        None => default,
        Some(value) if value.eq_ignore_ascii_case("off") => 0,
        Some(value) => number(key, &value, 0, MILLIS_MAX)
            .map(|number| usize::try_from(number).unwrap_or(usize::MAX))
            .map_err(|_| invalid(key, &value, "off or a whole number"))?,
    };
    Ok((value > 0).then_some(value))
}

/// With a journal the default is the client: a replayed server stamp is late, and never the same.
fn stamp_at_now(params: &mut Params, has_files: bool) -> Result<bool, Error> {
    match params.take("at_now") {
        None => Ok(has_files),
        Some(value) if value.eq_ignore_ascii_case("client") => Ok(true),
        Some(value) if value.eq_ignore_ascii_case("server") => Ok(false),
        Some(value) => Err(invalid("at_now", &value, "client or server")),
    }
}

fn column(params: &mut Params, key: &str) -> Result<Option<String>, Error> {
    let Some(name) = params.take(key) else {
        return Ok(None);
    };
    match forebay_wire::names::check_column(&name) {
        Ok(()) if !name.is_empty() => Ok(Some(name)),
        Ok(()) => Err(invalid(key, &name, "the name of a column")),
        Err(error) => Err(Error::config(key, error.to_string())),
    }
}

fn limit(params: &mut Params, key: &str) -> Result<Option<Duration>, Error> {
    let Some(value) = params.take(key) else {
        return Ok(None);
    };
    number(key, &value, 0, MILLIS_MAX).map(|millis| Some(Duration::from_millis(millis)))
}
