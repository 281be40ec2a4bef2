//! What is told before anything is accepted.

use std::sync::{Arc, Mutex};

use tracing::{Event, Level};

use super::*;
use crate::io::sim::ear::{Ear, field};

/// Field report `locks-not-supported`: known network filesystems are warned of.
#[test]
fn locks_not_supported_on_network_filesystems_is_warned_of() {
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&warnings);
    let hear = move |event: &Event<'_>| lock(&told).extend(field(event, "filesystem"));
    let level = Level::WARN;
    tracing::subscriber::with_default(Ear { level, hear }, || {
        let dir = Path::new("/sf");
        for number in [0x6969, 0xFE53_4D42, 0xEF53, 0x5846_5342] {
            warn_of_network(dir, Ok(Filesystem::of(number)));
        }
        warn_of_network(dir, Err(io::Error::from_raw_os_error(libc::EACCES)));
        warn_of_network(Path::new("/proc"), filesystem(Path::new("/proc")));
    });
    assert_eq!(*lock(&warnings), ["nfs", "smb2"]);
}
