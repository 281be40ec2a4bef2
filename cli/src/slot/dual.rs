//! `sf-manifest.bin` and `.ack-watermark`, in the present and in older forms.

use forebay::internals::slot::{Record, records};

use super::dir::{Dir, MANIFEST, WATERMARK};
use crate::error::Failure;

/// Bytes of a file in the present form.
const PRESENT_LEN: usize = 8192;
/// Where its second record lies.
const PRESENT_UPPER: usize = 4096;
/// Bytes of a file of the second form: the same records, side by side.
const SHORT_LEN: usize = 128;
const SHORT_UPPER: usize = 64;
/// Bytes of the oldest watermark: magic, four unused bytes, FSN; no checksum.
const PLAIN_LEN: usize = 16;

/// How a file is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Two records in 8,192 bytes.
    Present,
    /// Two records in 128 bytes: an older client's.
    Short,
    /// One number in 16 bytes: an even older client's watermark.
    Plain,
    /// Any other size.
    Unknown,
}

impl Form {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Present => "dual-8192",
            Self::Short => "dual-128",
            Self::Plain => "plain-16",
            Self::Unknown => "unknown",
        }
    }
}

/// A file of records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DualFile {
    pub(crate) bytes: u64,
    pub(crate) form: Form,
    /// The record at the start and the other one.
    pub(crate) records: [Option<Record>; 2],
    /// The one that counts.
    pub(crate) current: Option<Record>,
}

/// Reads the manifest, if there is one.
pub(crate) fn manifest(dir: &Dir) -> Result<Option<DualFile>, Failure> {
    read(dir, MANIFEST, true)
}

/// Reads the watermark, if there is one.
pub(crate) fn watermark(dir: &Dir) -> Result<Option<DualFile>, Failure> {
    read(dir, WATERMARK, false)
}

fn read(dir: &Dir, name: &str, manifest: bool) -> Result<Option<DualFile>, Failure> {
    let read = || -> Result<DualFile, Failure> {
        let file = dir.open(name)?;
        let stat = |source| Failure::read("read", &dir.join(name), source);
        let bytes = file.metadata().map_err(stat)?.len();
        let content = super::dir::read_up_to(&file, 0, PRESENT_LEN).map_err(stat)?;
        Ok(parse(bytes, &content, manifest))
    };
    match read() {
        Ok(file) => Ok(Some(file)),
        Err(failure) if failure.is_gone() => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Judges a file of `bytes` bytes that starts with `content`.
fn parse(bytes: u64, content: &[u8], manifest: bool) -> DualFile {
    let sized = |len: usize| bytes == len as u64 && content.len() == len;
    let (form, upper) = if sized(PRESENT_LEN) {
        (Form::Present, PRESENT_UPPER)
    } else if sized(SHORT_LEN) {
        (Form::Short, SHORT_UPPER)
    } else if sized(PLAIN_LEN) && !manifest {
        let current = plain(content);
        return DualFile {
            bytes,
            form: Form::Plain,
            records: [current, None],
            current,
        };
    } else {
        return DualFile {
            bytes,
            form: Form::Unknown,
            records: [None, None],
            current: None,
        };
    };
    let (lower, upper) = content.split_at_checked(upper).unwrap_or_default();
    let [lower, upper, current] = records(lower, upper, manifest);
    DualFile {
        bytes,
        form,
        records: [lower, upper],
        current,
    }
}

/// The number of a 16-byte watermark, as a record of generation 0.
fn plain(content: &[u8]) -> Option<Record> {
    let raw = content.get(8..)?.first_chunk()?;
    let first = i64::from_le_bytes(*raw);
    (content.starts_with(b"AKW1") && first >= -1).then_some(Record {
        generation: 0,
        first,
        second: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_forms_are_shown_as_what_they_are() {
        let mut plain = b"AKW1\0\0\0\0".to_vec();
        plain.extend_from_slice(&7_i64.to_le_bytes());
        let file = parse(16, &plain, false);
        assert_eq!(file.form, Form::Plain);
        assert_eq!(file.current.map(|record| record.first), Some(7));
        assert_eq!(parse(16, &plain, true).form, Form::Unknown);
        let file = parse(128, &[0; 128], true);
        assert_eq!((file.form, file.current), (Form::Short, None));
        assert_eq!(parse(0, &[], false).form, Form::Unknown);
        assert_eq!(parse(8192, &[0; 8192], false).form, Form::Present);
    }
}
