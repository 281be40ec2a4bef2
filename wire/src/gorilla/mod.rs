//! Delta-of-delta coding of timestamps (protocol.md section 8, "Gorilla").
//!
//! The first two values stand as they are; every further value is the change of the difference:
//!
//! | change | bits, first bit first |
//! |---|---|
//! | 0 | `0` |
//! | −64 to 63 | `10` and 7 bits |
//! | −256 to 255 | `110` and 9 bits |
//! | −2048 to 2047 | `1110` and 12 bits |
//! | any other 32-bit number | `1111` and 32 bits |
//!
//! Bytes fill from bit 0 up, numbers least significant bit first, in two's complement. A change
//! beyond 32 bits cannot be written: the column then goes plain.

mod decode;
mod encode;

pub use decode::{Decoder, GorillaError};
pub use encode::{encode, encode_from};

/// Bits of the numbers in the four buckets that carry one, by the count of leading ones.
const BUCKET_BITS: [u32; 4] = [7, 9, 12, 32];
