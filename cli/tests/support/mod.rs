//! The corpus' slots, unpacked; and the tool inside the test's own process.

#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "helpers of tests: a panic here is a failed test, and each file uses its part"
)]

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tempfile::TempDir;

static ARCHIVE: &[u8] = include_bytes!("../../../tests/corpus.tar.xz");

/// What the tool printed and its exit status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) status: u8,
    pub(crate) out: Vec<u8>,
    pub(crate) diagnostics: String,
}

impl Ran {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.out).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.out).unwrap()
    }

    /// One value a line.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let lines = self.text().lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

/// Runs `forebay ARGS... PATH` in this process.
pub(crate) fn forebay(args: &[&str], path: &Path) -> Ran {
    let words = ["forebay"].iter().chain(args).map(OsString::from);
    let (mut out, mut diagnostics) = (Vec::new(), Vec::new());
    let status = forebay_cli::run(words.chain([path.into()]), &mut out, &mut diagnostics);
    Ran {
        status,
        out,
        diagnostics: String::from_utf8(diagnostics).unwrap(),
    }
}

/// A slot of the corpus, with its files as its client left them.
#[derive(Debug)]
pub(crate) struct CorpusSlot {
    /// `CLIENT/SCENARIO/SLOT`.
    pub(crate) name: String,
    pub(crate) dir: PathBuf,
    /// Its object in `expected.json`.
    pub(crate) expected: Value,
}

/// All slots of the corpus; they live as long as the directory.
pub(crate) fn corpus() -> (TempDir, Vec<CorpusSlot>) {
    let scratch = tempfile::tempdir().unwrap();
    let packed = if let Some(given) = std::env::var_os("FOREBAY_CORPUS") {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(given)
    } else {
        let xz = liblzma::read::XzDecoder::new(ARCHIVE);
        tar::Archive::new(xz).unpack(scratch.path()).unwrap();
        scratch.path().join("corpus")
    };
    let mut slots = Vec::new();
    for client in folders(&packed.join("slots")) {
        for scenario in folders(&client) {
            let expected = read(&scenario.join("expected.json"));
            let expected: Value = serde_json::from_slice(&expected).unwrap();
            for slot in folders(&scenario.join("sf")) {
                let parts = [&client, &scenario, &slot].map(|path| file_name(path));
                let name = parts.join("/");
                let dir = scratch.path().join("unpacked").join(&name);
                unpack(&slot, &dir);
                let expected = expected[parts[2].as_str()].clone();
                assert!(expected.is_object(), "{name}");
                slots.push(CorpusSlot {
                    name,
                    dir,
                    expected,
                });
            }
        }
    }
    (scratch, slots)
}

/// Copies a slot of the corpus, whose larger files are packed one by one.
fn unpack(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let name = file_name(&path);
        match name.strip_suffix(".xz") {
            Some(name) => fs::write(to.join(name), read_xz(&path)).unwrap(),
            None => fs::write(to.join(name), read(&path)).unwrap(),
        }
    }
}

fn read(path: &Path) -> Vec<u8> {
    let mut packed = path.as_os_str().to_owned();
    packed.push(".xz");
    match fs::read(path) {
        Ok(bytes) => bytes,
        Err(_) => read_xz(Path::new(&packed)),
    }
}

fn read_xz(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path).unwrap();
    liblzma::read::XzDecoder::new(file)
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

fn folders(of: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(of).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = entries.filter(|path| path.is_dir()).collect();
    found.sort();
    found
}

pub(crate) fn file_name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

/// Names and contents of a directory's files.
pub(crate) fn contents(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| (file_name(&path), fs::read(&path).unwrap()))
        .collect();
    found.sort();
    found
}

/// A directory that is the slot `name` with these files and nothing else, at rest for an hour: so
/// the tool does not wait to see whether somebody is writing to it.
pub(crate) fn slot_of(root: &Path, name: &str, files: &[(String, Vec<u8>)]) -> PathBuf {
    let dir = root.join(name);
    if dir.exists() {
        fs::remove_dir_all(&dir).unwrap();
    }
    fs::create_dir_all(&dir).unwrap();
    for (name, bytes) in files {
        fs::write(dir.join(name), bytes).unwrap();
    }
    settle(&dir);
    dir
}

/// Makes a slot look as if nobody had touched it for an hour.
pub(crate) fn settle(dir: &Path) {
    let then = SystemTime::now() - Duration::from_hours(1);
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.symlink_metadata().unwrap().is_file() {
            let file = fs::File::open(path).unwrap();
            file.set_modified(then).unwrap();
        }
    }
    fs::File::open(dir).unwrap().set_modified(then).unwrap();
}

/// The contents of one of the files.
pub(crate) fn file<'a>(files: &'a mut [(String, Vec<u8>)], name: &str) -> &'a mut Vec<u8> {
    let found = files.iter_mut().find(|(of, _)| of == name);
    &mut found.unwrap_or_else(|| panic!("no {name}")).1
}

/// A frame with this payload.
pub(crate) fn frame(payload: &[u8]) -> Vec<u8> {
    let mut covered = u32::try_from(payload.len()).unwrap().to_le_bytes().to_vec();
    covered.extend_from_slice(payload);
    let mut frame = crc32c(&covered).to_le_bytes().to_vec();
    frame.append(&mut covered);
    frame
}

/// A segment of `bytes` bytes with these frames.
pub(crate) fn segment(flags: u8, base: i64, frames: &[&[u8]], bytes: usize) -> Vec<u8> {
    let mut out = b"SF01\x01".to_vec();
    out.extend_from_slice(&[flags, 0, 0]);
    out.extend_from_slice(&base.to_le_bytes());
    out.extend_from_slice(&1_700_000_000_000_000_u64.to_le_bytes());
    for payload in frames {
        out.append(&mut frame(payload));
    }
    assert!(out.len() <= bytes);
    out.resize(bytes, 0);
    out
}

/// A record of a manifest or a watermark.
pub(crate) fn record(magic: [u8; 4], generation: i64, first: i64, second: i64) -> Vec<u8> {
    let mut out = magic.to_vec();
    out.extend_from_slice(&1_u32.to_le_bytes());
    for number in [generation, first, second] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.resize(60, 0);
    let crc = crc32c(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

/// Bit by bit, so that the tool's own is not what its tests rely on.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                crc >> 1 ^ 0x82F6_3B78
            } else {
                crc >> 1
            };
        }
    }
    !crc
}

/// Random numbers from a seed.
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap() % end.max(1)
    }
}
