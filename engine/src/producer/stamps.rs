//! What the engine adds to a row, and what it demands of its timestamp.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use forebay_wire::types::ColumnType;

use super::{Producer, Timestamp};
use crate::config::ProducerKeys;
use crate::io::sys::wall_nanos;

/// Numbers that a producer takes at once for `row_seq`.
const BLOCK: i64 = 4096;

/// The next free number of this process: begins at the wall clock in nanoseconds, so that numbers
/// also rise from one process to the next (unless one wrote more than a billion rows a second).
static NEXT: AtomicI64 = AtomicI64::new(0);

/// The keys that concern single rows.
#[derive(Debug)]
pub(super) struct Stamps {
    pub(super) row_seq: Option<String>,
    pub(super) receive_time: Option<String>,
    past_max: Option<i64>,
    future_max: Option<i64>,
    pub(super) numbers: Numbers,
}

/// Numbers taken and not used.
#[derive(Debug)]
pub(super) struct Numbers(std::ops::Range<i64>);

impl Numbers {
    /// The next number.
    pub(super) fn take(&mut self) -> i64 {
        if self.0.is_empty() {
            // Whoever comes first sets the start; nobody sees a number twice.
            let _ = NEXT.compare_exchange(0, now(), Ordering::AcqRel, Ordering::Acquire);
            let first = NEXT.fetch_add(BLOCK, Ordering::AcqRel);
            self.0 = first..first + BLOCK;
        }
        let number = self.0.start;
        self.0.start += 1;
        number
    }
}

impl Stamps {
    /// `None` if no key asks for anything: rows then pay nothing.
    pub(super) fn new(keys: &ProducerKeys) -> Option<Box<Self>> {
        let nanos = |limit: Duration| i64::try_from(limit.as_nanos()).unwrap_or(i64::MAX);
        let stamps = Self {
            row_seq: keys.row_seq.clone(),
            receive_time: keys.receive_time.clone(),
            past_max: keys.past_max.map(nanos),
            future_max: keys.future_max.map(nanos),
            numbers: Numbers(0..0),
        };
        let any = stamps.row_seq.is_some()
            || stamps.receive_time.is_some()
            || stamps.past_max.is_some()
            || stamps.future_max.is_some();
        any.then(|| Box::new(stamps))
    }

    /// Why a designated timestamp is refused at this time.
    pub(super) fn judge(&self, timestamp: Timestamp, now: i64) -> Option<String> {
        let nanos = match timestamp {
            Timestamp::Nanos(nanos) => nanos,
            Timestamp::Micros(micros) => micros.saturating_mul(1000),
        };
        let age = now.saturating_sub(nanos);
        if let Some(limit) = self.past_max.filter(|limit| age > *limit) {
            return Some(format!(
                "designated timestamp {timestamp:?} lies {} ms in the past, at most {} are \
                 allowed (timestamp_past_max)",
                age / 1_000_000,
                limit / 1_000_000
            ));
        }
        let ahead = age.saturating_neg();
        let limit = self.future_max.filter(|limit| ahead > *limit)?;
        Some(format!(
            "designated timestamp {timestamp:?} lies {} ms in the future, at most {} are allowed \
             (timestamp_future_max)",
            ahead / 1_000_000,
            limit / 1_000_000
        ))
    }
}

/// The wall clock in nanoseconds since the Unix epoch.
pub(super) fn now() -> i64 {
    i64::try_from(wall_nanos()).unwrap_or(i64::MAX)
}

impl Producer {
    /// Judges the row's timestamp and adds the columns that the keys ask for.
    #[cold]
    pub(super) fn stamp(&mut self, timestamp: Option<Timestamp>) -> Result<(), (String, String)> {
        let Some(stamps) = &mut self.stamps else {
            return Ok(());
        };
        let now = now();
        if let Some(reason) = timestamp.and_then(|timestamp| stamps.judge(timestamp, now)) {
            return Err((String::new(), reason));
        }
        let table = &mut self.desk.tables[self.desk.current];
        let mut add = |name: &str, ty, value| match table.column(name, ty, |_| Ok(())) {
            Ok(buffer) => {
                buffer.push_i64(value);
                Ok(())
            }
            Err(reason) => Err((name.to_owned(), reason)),
        };
        if let Some(name) = &stamps.row_seq {
            add(name, ColumnType::Long, stamps.numbers.take())?;
        }
        if let Some(name) = &stamps.receive_time {
            add(name, ColumnType::TimestampNanos, now)?;
        }
        Ok(())
    }

    /// The timestamp of `at_now` where the client stamps: in the unit that the table has already,
    /// else microseconds, the default of a table that the server creates.
    pub(super) fn stamp_of_now(&self) -> Timestamp {
        let unit = self.desk.tables[self.desk.current].designated_type();
        match unit {
            Some(ColumnType::TimestampNanos) => Timestamp::Nanos(now()),
            _ => Timestamp::Micros(now() / 1000),
        }
    }
}
