//! A disk whose every write and flush passes through the test: ext4 on a loop device over a file
//! of a FUSE filesystem in this process.
//!
//! | file | concept |
//! |---|---|
//! | `backing` | what the file is made of: the test's own |
//! | `file` | the filesystem with that one file |
//! | `device` | loop device and ext4 over it, taken down on drop |
//! | `command` | running `losetup` and its like within a limit |
//! | `recorder` | a backing that keeps every write and flush in their order |
//!
//! Needs root, /dev/fuse and loop devices; [`missing`] says what is not there.

mod backing;
mod command;
mod device;
mod file;
mod recorder;

pub use backing::Backing;
pub use device::{Device, missing};
pub use file::NAME;
pub use fuser::{Errno, ReplyEmpty, ReplyWrite};
pub use recorder::{Entry, Recorder};
