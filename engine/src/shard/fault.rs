//! Panics on demand, for tests: `FOREBAY_FAULT_SHARD_*` (docs/testing.md). Read once per process;
//! without it a place costs one load and a branch.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

const PREFIX: &str = "FOREBAY_FAULT_SHARD_";

/// A place in the shard's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A frame is in the segment's memory and in nobody's books.
    Append,
    /// A step of a rotation has ended.
    Rotate,
    /// An fdatasync of a segment is on its way.
    Sync,
    /// Bytes of frames were handed to the socket.
    Deliver,
    /// An upgrade is under way.
    Connect,
    /// A turn after `close` was called.
    Close,
}

/// What is to happen.
#[derive(Debug)]
struct Plan {
    /// `PANIC_AT=place`.
    place: Place,
    /// `PANIC_AFTER=n`: the place is passed so often before each panic.
    after: u64,
    /// `PANICS=n`: so many panics, in all shards together; any number when it is not set.
    panics: u64,
    passed: AtomicU64,
    panicked: AtomicU64,
}

static PLAN: LazyLock<Option<Plan>> = LazyLock::new(|| {
    let plan = Plan::read(|name| std::env::var(format!("{PREFIX}{name}")).ok());
    if plan.is_some() {
        tracing::warn!(
            ?plan,
            "FB-S009 faults are injected (FOREBAY_FAULT_SHARD_*): never in production"
        );
    }
    plan
});

/// Panics if it is time.
///
/// # Panics
/// As the environment says.
#[inline]
pub(super) fn pass(place: Place) {
    if let Some(plan) = PLAN.as_ref() {
        plan.pass(place);
    }
}

impl Plan {
    fn read(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let place = match variable("PANIC_AT")?.as_str() {
            "append" => Place::Append,
            "rotate" => Place::Rotate,
            "sync" => Place::Sync,
            "deliver" => Place::Deliver,
            "connect" => Place::Connect,
            "close" => Place::Close,
            other => {
                tracing::warn!(other, "FB-S009 no such place, ignored");
                return None;
            }
        };
        let number = |name: &str| variable(name).and_then(|text| text.parse().ok());
        Some(Self {
            place,
            after: number("PANIC_AFTER").unwrap_or(0),
            panics: number("PANICS").unwrap_or(u64::MAX),
            passed: AtomicU64::new(0),
            panicked: AtomicU64::new(0),
        })
    }

    fn pass(&self, place: Place) {
        let over = self.panicked.load(Ordering::Relaxed) >= self.panics;
        if place != self.place || over {
            return;
        }
        if self.passed.fetch_add(1, Ordering::Relaxed) < self.after {
            return;
        }
        self.passed.store(0, Ordering::Relaxed);
        self.panicked.fetch_add(1, Ordering::Relaxed);
        panic!("injected at {place:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panics(plan: &Plan, place: Place) -> bool {
        std::panic::catch_unwind(|| plan.pass(place)).is_err()
    }

    #[test]
    fn a_plan_panics_where_and_as_often_as_it_says() {
        assert!(Plan::read(|_| None).is_none());
        assert!(Plan::read(|_| Some("nowhere".to_owned())).is_none());
        let plan = Plan::read(|name| {
            let value = match name {
                "PANIC_AT" => "deliver",
                "PANIC_AFTER" => "1",
                _ => "2",
            };
            Some(value.to_owned())
        });
        let plan = plan.expect("a place is named");
        let places = [Place::Append, Place::Deliver];
        let outcomes: Vec<_> = (0..12).map(|n| panics(&plan, places[n % 2])).collect();
        let panicked: Vec<_> = (0..12).filter(|n| outcomes[*n]).collect();
        assert_eq!(panicked, [3, 7], "every second pass, twice");
    }
}
