//! The sums of entries; the engine has a short way for short ones.

pub(crate) use crc32c::{crc32c, crc32c_append};
