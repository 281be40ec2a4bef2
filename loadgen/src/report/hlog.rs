//! Histogram logs (`.hlog`, `HdrHistogram`'s interval log): written by a run, merged by name.
//!
//! One interval a distribution, its tag the name with `_` for what a tag cannot hold. Values are
//! nanoseconds. Other programs of the `HdrHistogram` family read them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag,
};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};

use super::{Latencies, Report, latency_table};
use crate::error::Error;

impl Report {
    /// Writes every distribution that is not empty.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write_hlog(&self, path: &Path) -> Result<(), Error> {
        let named = self.named_latencies();
        let named = named
            .iter()
            .map(|(name, latencies)| (tag_of(name), *latencies));
        write(path, &self.detail.title, self.total_time, named)
    }
}

/// Distributions of several logs, those of one name added up.
#[derive(Debug, Default)]
pub struct Merged {
    by_tag: BTreeMap<String, Latencies>,
    /// The longest of the runs.
    length: Duration,
}

impl Merged {
    /// The distributions by their tags.
    pub fn by_tag(&self) -> &BTreeMap<String, Latencies> {
        &self.by_tag
    }

    /// A table for people.
    pub fn table(&self) -> String {
        let mut table = latency_table();
        for (tag, latencies) in &self.by_tag {
            table.add_row(latencies.cells(tag));
        }
        table.to_string()
    }

    /// Writes them as one log.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let named = self.by_tag.iter();
        let named = named.map(|(tag, latencies)| (tag.clone(), latencies));
        write(path, "merged", self.length, named)
    }
}

/// Adds up the logs at `paths`.
///
/// # Errors
/// [`Error::Io`] for a file that cannot be read, [`Error::Config`] for one that is no such log.
pub fn merge<P: AsRef<Path>>(paths: &[P]) -> Result<Merged, Error> {
    let mut merged = Merged::default();
    let mut deserializer = Deserializer::new();
    for path in paths {
        let path = path.as_ref();
        let bytes = fs::read(path).map_err(|source| Error::io("read", path, source))?;
        let broken = |what: String| {
            let reason = format!("{} is no histogram log: {what}", path.display());
            Error::config("FILE", reason)
        };
        for entry in IntervalLogIterator::new(&bytes) {
            let entry = entry.map_err(|error| broken(format!("{error:?}")))?;
            let LogEntry::Interval(interval) = entry else {
                continue;
            };
            let encoded = STANDARD.decode(interval.encoded_histogram());
            let encoded = encoded.map_err(|error| broken(error.to_string()))?;
            let counts = deserializer.deserialize(&mut io::Cursor::new(encoded));
            let counts = counts.map_err(|error| broken(error.to_string()))?;
            let latencies = Latencies::from_counts(&counts);
            let latencies = latencies.map_err(|error| broken(error.to_string()))?;
            let tag = interval.tag().map_or("untagged", |tag| tag.as_str());
            let sum = merged.by_tag.entry(tag.to_owned()).or_default();
            sum.add(&latencies);
            merged.length = merged.length.max(interval.duration());
        }
    }
    Ok(merged)
}

fn write<'a>(
    path: &Path,
    title: &str,
    length: Duration,
    named: impl Iterator<Item = (String, &'a Latencies)>,
) -> Result<(), Error> {
    let mut bytes = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let broken =
        |error: &dyn std::fmt::Display| Error::Internal(format!("a log in memory: {error}"));
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment(&format!("forebay-loadgen {title}; nanoseconds"))
        .with_start_time(SystemTime::now())
        // The last column is for people: milliseconds.
        .with_max_value_divisor(1e6)
        .begin_log_with(&mut bytes, &mut serializer)
        .map_err(|error| broken(&error))?;
    for (tag, latencies) in named.filter(|(_, latencies)| !latencies.is_empty()) {
        let tag = Tag::new(&tag);
        log.write_histogram(latencies.counts(), Duration::ZERO, length, tag)
            .map_err(|error| Error::Internal(format!("a log in memory: {error:?}")))?;
    }
    fs::write(path, bytes).map_err(|source| Error::io("write", path, source))
}

/// A tag holds neither commas nor spaces nor line ends.
fn tag_of(name: &str) -> String {
    name.replace(", ", "_").replace([' ', ','], "_")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Latencies, merge, tag_of, write};

    fn latencies(micros: std::ops::RangeInclusive<u64>) -> Latencies {
        let mut latencies = Latencies::default();
        for micros in micros {
            latencies.record(Duration::from_micros(micros));
        }
        latencies
    }

    #[test]
    fn logs_of_several_runs_add_up_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let [first, second, both] =
            ["a.hlog", "b.hlog", "c.hlog"].map(|name| dir.path().join(name));
        let (low, high, other) = (latencies(1..=500), latencies(501..=1_000), latencies(7..=7));
        let empty = Latencies::default();
        let named = [("flush".to_owned(), &low), ("none".to_owned(), &empty)];
        write(&first, "run", Duration::from_secs(1), named.into_iter()).unwrap();
        let named = [("flush".to_owned(), &high), ("acked".to_owned(), &other)];
        write(&second, "run", Duration::from_secs(2), named.into_iter()).unwrap();
        merge(&[&first, &second]).unwrap().write(&both).unwrap();
        let merged = merge(&[&both]).unwrap();
        let tags: Vec<_> = merged.by_tag().keys().map(String::as_str).collect();
        assert_eq!(tags, ["acked", "flush"]);
        let flush = &merged.by_tag()["flush"];
        assert_eq!(flush.counts().len(), 1_000);
        let p50 = flush.at(50.0);
        assert!((499_000..=501_000).contains(&p50), "{p50}");
        assert!(merged.table().contains("flush"));
    }

    #[test]
    fn a_file_that_is_no_log_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("not.hlog");
        std::fs::write(&path, "these are, no histograms\n").unwrap();
        let error = merge(&[&path]).unwrap_err().to_string();
        assert!(error.contains("not.hlog"), "{error}");
    }

    #[test]
    fn tags_have_neither_commas_nor_spaces() {
        assert_eq!(
            tag_of("flush to written, the call alone"),
            "flush_to_written_the_call_alone"
        );
    }
}
