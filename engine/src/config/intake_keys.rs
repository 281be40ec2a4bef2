//! Keys of the intake: the rings between producers and shards.

use std::path::PathBuf;

use super::grammar::Params;
use super::value::invalid;
use crate::error::Error;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

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
        let ring_bytes = ring_bytes(params)?;
        let total_bytes = params
            .size("intake_total_bytes", 4 * KIB, u64::MAX)?
            .unwrap_or(GIB);
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

fn ring_bytes(params: &mut Params) -> Result<usize, Error> {
    let key = "intake_ring_bytes";
    let bytes = params.size(key, 4 * KIB, GIB)?.unwrap_or(MIB);
    match usize::try_from(bytes) {
        Ok(bytes) if bytes.is_power_of_two() => Ok(bytes),
        _ => Err(invalid(
            key,
            &bytes.to_string(),
            "a power of two from 4096 to 1073741824 bytes",
        )),
    }
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
