//! Keys of the intake: the rings between producers and shards.

use std::path::PathBuf;

use super::grammar::Params;
use super::value::invalid;
use crate::error::Error;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Rings of the default size fit into `intake_total_bytes` so many times: as many as an engine has
/// producers at most.
const RINGS_COUNT: u64 = 1024;
/// Bounds of that default. Entries stay in a ring until they are written, so with a journal 1 MiB
/// bounds throughput, and above 4 MiB nothing is gained (docs/decisions/0014-ring-size.md).
const RING_BYTES_DEFAULT: std::ops::RangeInclusive<u64> = MIB..=4 * MIB;

/// Where accepted batches wait until they are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntakeKeys {
    /// `intake=file`: rings lie in files and survive the death of the process. Only with `sf_dir`,
    /// and the default there.
    pub file: bool,
    /// `intake_dir`: where those files are; `None` in the slot.
    pub dir: Option<PathBuf>,
    /// `intake_ring_bytes`: a power of two; an entry fills at most half of it.
    pub ring_bytes: usize,
    /// `intake_total_bytes`: the rings of all producers together.
    pub total_bytes: u64,
}

impl IntakeKeys {
    pub(super) fn take(params: &mut Params, has_files: bool) -> Result<Self, Error> {
        let asked = params.take("intake");
        let file = match asked.as_deref().map(str::to_ascii_lowercase).as_deref() {
            None => has_files,
            Some("file") if has_files => true,
            Some("file") => {
                let reason = "file needs sf_dir: without a journal nothing survives the process";
                return Err(Error::config("intake", reason));
            }
            Some("memory") => false,
            Some(other) => return Err(invalid("intake", other, "file or memory")),
        };
        let dir = match params.take("intake_dir") {
            None => None,
            Some(path) if path.is_empty() || path.contains('\n') => {
                return Err(invalid("intake_dir", &path, "a directory"));
            }
            Some(_) if !file => {
                let reason = "only intake=file with sf_dir has files to put there";
                return Err(Error::config("intake_dir", reason));
            }
            Some(path) => {
                // Noted in the slot: the next process may have another working directory.
                let absolute = std::path::absolute(&path);
                let absolute =
                    absolute.map_err(|error| Error::config("intake_dir", error.to_string()))?;
                Some(absolute)
            }
        };
        let total_bytes = params
            .size("intake_total_bytes", 4 * KIB, u64::MAX)?
            .unwrap_or(if has_files { 4 * GIB } else { GIB });
        let ring_bytes = ring_bytes(params, total_bytes)?;
        if total_bytes < ring_bytes as u64 {
            let reason = format!("{total_bytes} bytes do not hold one ring of {ring_bytes}");
            return Err(Error::config("intake_total_bytes", reason));
        }
        Ok(Self {
            file,
            dir,
            ring_bytes,
            total_bytes,
        })
    }
}

fn ring_bytes(params: &mut Params, total_bytes: u64) -> Result<usize, Error> {
    let key = "intake_ring_bytes";
    let bytes = params.size(key, 4 * KIB, GIB)?;
    let bytes = bytes.unwrap_or_else(|| default_ring_bytes(total_bytes));
    match usize::try_from(bytes) {
        Ok(bytes) if bytes.is_power_of_two() => Ok(bytes),
        _ => Err(invalid(
            key,
            &bytes.to_string(),
            "a power of two from 4096 to 1073741824 bytes",
        )),
    }
}

/// A power of two, since both bounds are.
fn default_ring_bytes(total_bytes: u64) -> u64 {
    let share = (total_bytes / RINGS_COUNT).max(1);
    let power = 1 << share.ilog2();
    power.clamp(*RING_BYTES_DEFAULT.start(), *RING_BYTES_DEFAULT.end())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Config;
    use super::IntakeKeys;

    fn parse(keys: &str) -> Result<IntakeKeys, String> {
        let text = format!("ws::addr=h;{keys}");
        let config = Config::parse(&text).map_err(|error| error.to_string())?;
        Ok(config.intake)
    }

    #[test]
    fn rings_are_files_where_that_is_asked() {
        assert!(!parse("").unwrap().file);
        assert!(parse("sf_dir=/x;").unwrap().file);
        assert!(!parse("sf_dir=/x;intake=memory;").unwrap().file);
        let keys = parse("sf_dir=/x;intake=file;intake_dir=/dev/shm/a;").unwrap();
        assert_eq!(keys.dir.as_deref(), Some(Path::new("/dev/shm/a")));
    }

    #[test]
    fn a_ring_is_as_large_as_the_bound_on_all_of_1024_allows_up_to_4_mib() {
        for (keys, ring, total) in [
            ("", 1 << 20, 1 << 30),
            ("sf_dir=/x;", 4 << 20, 4 << 30),
            ("sf_dir=/x;intake=memory;", 4 << 20, 4 << 30),
            ("sf_dir=/x;intake_total_bytes=1g;", 1 << 20, 1 << 30),
            ("sf_dir=/x;intake_total_bytes=3g;", 2 << 20, 3 << 30),
            ("sf_dir=/x;intake_total_bytes=2m;", 1 << 20, 2 << 20),
            ("sf_dir=/x;intake_total_bytes=1t;", 4 << 20, 1 << 40),
            ("intake_ring_bytes=8m;", 8 << 20, 1 << 30),
        ] {
            let parsed = parse(keys).unwrap();
            assert_eq!(
                (parsed.ring_bytes, parsed.total_bytes),
                (ring, total),
                "{keys}"
            );
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for (keys, told) in [
            ("intake=file;", "needs sf_dir"),
            ("sf_dir=/x;intake=disk;", "file or memory"),
            ("intake_dir=/x;", "only intake=file"),
            ("sf_dir=/x;intake=memory;intake_dir=/y;", "only intake=file"),
            ("intake_ring_bytes=1m;intake_total_bytes=512k;", "one ring"),
        ] {
            let error = parse(keys).unwrap_err();
            assert!(error.contains(told), "{keys}: {error}");
        }
    }
}
