//! The sums of entries. The crate `forebay-loom` has others in their place.

pub(super) use crate::io::sys::{crc32c, crc32c_append};
