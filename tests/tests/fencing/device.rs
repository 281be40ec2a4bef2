//! The slowed disk, mounted.

use std::path::Path;
use std::time::Duration;

use crate::slow_file::SlowFile;

const DISK_BYTES: usize = 64 << 20;
/// Writes wait at most this long, so that no process hangs in the kernel when a test has failed.
const HELD_MAX: Duration = Duration::from_mins(1);

pub(crate) type Device = forebay_tests::block::Device<SlowFile>;

pub(crate) fn mount() -> Device {
    let file = SlowFile::new(DISK_BYTES);
    let held = file.clone();
    std::thread::spawn(move || {
        std::thread::sleep(HELD_MAX);
        held.release_all();
    });
    Device::mount(file, Path::new(env!("CARGO_TARGET_TMPDIR")))
}
