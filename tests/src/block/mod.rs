//! A disk whose every write and flush passes through the test: ext4 on a loop device over a file
//! of a FUSE filesystem in this process.
//!
//! | file | concept |
//! |---|---|
//! | `backing` | what the file is made of: the test's own |
//! | `file` | the filesystem with that one file |
//! | `image` | the bytes of a disk in memory |
//! | `device` | loop device and ext4 over it, taken down on drop |
//! | `small` | ext4 on a loop device over a plain file, without FUSE |
//! | `command` | running `losetup` and its like within a limit |
//! | `recorder` | a backing that keeps every write and flush in their order |
//!
//! Needs root, /dev/fuse and loop devices; [`missing`] says what is not there. A [`SmallDisk`], whose
//! writes nobody looks at, needs root and loop devices only.

mod backing;
mod command;
mod device;
mod file;
mod image;
mod recorder;
mod small;

pub use backing::Backing;
pub use command::wait_until;
pub use device::{Device, missing};
pub use file::NAME;
pub use fuser::{Errno, ReplyEmpty, ReplyWrite};
pub use image::{Image, answer};
pub use recorder::{Entry, Recorder};
pub use small::SmallDisk;
