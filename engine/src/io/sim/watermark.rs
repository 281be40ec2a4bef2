//! Scripted runs about acknowledgements that are ahead of the disk.

/// TODO
pub fn acked_ahead_of_the_disk(_seed: u64) {}
/// TODO
pub fn watermark_file_ahead(_seed: u64) {}
