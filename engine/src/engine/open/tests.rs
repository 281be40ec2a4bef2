//! What is told before anything is accepted.

use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::*;

/// Ids of the warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Visit for Warnings {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "filesystem" {
            lock(&self.0).push(format!("{value:?}"));
        }
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Field report `locks-not-supported`: known network filesystems are warned of.
#[test]
fn locks_not_supported_on_network_filesystems_is_warned_of() {
    let warnings = Warnings::default();
    tracing::subscriber::with_default(warnings.clone(), || {
        let dir = Path::new("/sf");
        for number in [0x6969, 0xFE53_4D42, 0xEF53, 0x5846_5342] {
            warn_of_network(dir, Ok(Filesystem::of(number)));
        }
        warn_of_network(dir, Err(io::Error::from_raw_os_error(libc::EACCES)));
        warn_of_network(Path::new("/proc"), filesystem(Path::new("/proc")));
    });
    assert_eq!(*lock(&warnings.0), ["nfs", "smb2"]);
}
