//! The corpus of captured messages and slots: unpacked for as long as a test holds it.
//!
//! `FOREBAY_CORPUS` names an unpacked corpus to use instead, absolute or from the workspace root.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::Value;
use tempfile::TempDir;

static ARCHIVE: &[u8] = include_bytes!("../corpus.tar.xz");
static OPEN: Mutex<Weak<Corpus>> = Mutex::new(Weak::new());

/// An unpacked corpus; the last holder removes it.
#[derive(Debug)]
pub struct Corpus {
    root: PathBuf,
    /// Removes what was unpacked; absent for a corpus that was there before.
    _unpacked: Option<TempDir>,
}

impl Corpus {
    /// The corpus, unpacked unless another test of this process holds it already.
    pub fn open() -> io::Result<Arc<Self>> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(corpus) = open.upgrade() {
            return Ok(corpus);
        }
        let corpus = Arc::new(Self::unpack()?);
        *open = Arc::downgrade(&corpus);
        Ok(corpus)
    }

    fn unpack() -> io::Result<Self> {
        if let Some(given) = std::env::var_os("FOREBAY_CORPUS") {
            let root = workspace_root().join(given);
            return Ok(Self {
                root,
                _unpacked: None,
            });
        }
        let dir = tempfile::Builder::new()
            .prefix("forebay-corpus-")
            .tempdir()?;
        tar::Archive::new(liblzma::read::XzDecoder::new(ARCHIVE)).unpack(dir.path())?;
        Ok(Self {
            root: dir.path().join("corpus"),
            _unpacked: Some(dir),
        })
    }

    /// The scenarios of captured messages, by client and name.
    ///
    /// Fails on anything that is no scenario, so that nothing is passed over in silence.
    pub fn frame_scenarios(&self) -> io::Result<Vec<Scenario>> {
        let mut scenarios = Vec::new();
        for client in entries(&self.root.join("frames"))? {
            let name = file_name(&client);
            if client.is_dir() {
                for entry in entries(&client)? {
                    if entry.is_dir() {
                        scenarios.push(Scenario::read(&name, &entry)?);
                    } else if file_name(&entry) != "same-as-rust-row.txt" {
                        return Err(not_understood(&entry));
                    }
                }
            } else if !name.starts_with("behaviour-") {
                return Err(not_understood(&client));
            }
        }
        Ok(scenarios)
    }

    /// The folder of slot directories, `slots/CLIENT/SCENARIO/sf/SLOT`.
    pub fn slots(&self) -> PathBuf {
        self.root.join("slots")
    }
}

/// One scenario of one client.
#[derive(Debug)]
pub struct Scenario {
    /// Folder of the client, for example `rust-row`.
    pub client: String,
    /// Folder of the scenario, for example `type_f64_nulls`.
    pub name: String,
    /// Captured messages in order of arrival.
    pub messages: Vec<Captured>,
}

/// One captured message and what it must decode to.
#[derive(Debug)]
pub struct Captured {
    /// File name, for example `000.bin`.
    pub file: String,
    /// Connection within the scenario.
    pub connection: u64,
    /// Number within the connection.
    pub wire_seq: u64,
    /// The message as it was sent.
    pub bytes: Vec<u8>,
    /// Its line of `expected.json`, without the three keys above.
    pub expected: Value,
}

impl Scenario {
    fn read(client: &str, folder: &Path) -> io::Result<Self> {
        let name = file_name(folder);
        let expected: Value = read_json(&folder.join("expected.json"))?;
        let lines = expected.get("messages").and_then(Value::as_array).cloned();
        let lines = lines.ok_or_else(|| not_understood(&folder.join("expected.json")))?;
        let mut messages = Vec::new();
        for line in lines {
            messages.push(Captured::read(folder, line)?);
        }
        for entry in entries(folder)? {
            let file = file_name(&entry);
            let stem = file.strip_suffix(".xz").unwrap_or(&file);
            let known = matches!(stem, "expected.json" | "meta.json")
                || messages.iter().any(|message| message.file == stem);
            if !known {
                return Err(not_understood(&entry));
            }
        }
        Ok(Self {
            client: client.to_owned(),
            name,
            messages,
        })
    }
}

impl Captured {
    fn read(folder: &Path, mut line: Value) -> io::Result<Self> {
        let bad = || not_understood(&folder.join("expected.json"));
        let object = line.as_object_mut().ok_or_else(bad)?;
        let file = object.shift_remove("file");
        let file = file
            .as_ref()
            .and_then(Value::as_str)
            .ok_or_else(bad)?
            .to_owned();
        let mut number = |key: &str| {
            object
                .shift_remove(key)
                .as_ref()
                .and_then(Value::as_u64)
                .ok_or_else(bad)
        };
        let connection = number("conn")?;
        let wire_seq = number("conn_seq")?;
        let bytes = read_maybe_xz(&folder.join(&file))?;
        Ok(Self {
            file,
            connection,
            wire_seq,
            bytes,
            expected: line,
        })
    }
}

/// The bytes of `path`, or of `path.xz` unpacked if only that exists.
pub fn read_maybe_xz(path: &Path) -> io::Result<Vec<u8>> {
    if path.exists() {
        return fs::read(path);
    }
    let mut packed = path.as_os_str().to_owned();
    packed.push(".xz");
    let file = fs::File::open(&packed)
        .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", packed.display())))?;
    let mut bytes = Vec::new();
    liblzma::read::XzDecoder::new(file).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A file of JSON.
pub fn read_json(path: &Path) -> io::Result<Value> {
    let text =
        fs::read(path).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
    serde_json::from_slice(&text).map_err(io::Error::other)
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    let listing = fs::read_dir(folder)
        .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", folder.display())))?;
    for entry in listing {
        paths.push(entry?.path());
    }
    paths.sort();
    Ok(paths)
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn not_understood(path: &Path) -> io::Error {
    io::Error::other(format!(
        "corpus has something that is not understood: {}",
        path.display()
    ))
}

fn workspace_root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}
