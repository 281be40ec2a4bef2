//! Hears what a piece of work logs on its thread, at one level.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// A subscriber that calls `hear` for every event of `level`.
pub(crate) struct Ear<F> {
    pub(crate) level: Level,
    pub(crate) hear: F,
}

impl<F: Fn(&Event<'_>) + 'static> Subscriber for Ear<F> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == self.level
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        (self.hear)(event);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The text of an event's field, if it has it.
pub(crate) fn field(event: &Event<'_>, name: &'static str) -> Option<String> {
    struct Found(&'static str, Option<String>);

    impl Visit for Found {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            if field.name() == self.0 {
                self.1 = Some(format!("{value:?}"));
            }
        }
    }

    let mut found = Found(name, None);
    event.record(&mut found);
    found.1
}
