//! `.slot-id`: which machine opened the slot last.
//!
//! ```text
//! id=5f0c...        32 hex digits, random, for the life of the slot
//! host=ingest-3     host name of the last opener
//! boot=9f3c...      boot id of its kernel
//! ```
//!
//! A slot that was copied, or whose machine was started again, is recognised by it. It decides
//! nothing: a slot with another identity, or with none, opens as well.

use std::path::Path;

use super::names::SLOT_ID;
use super::whole;
use crate::error::Error;
use crate::io::{Fs, Machine};

const BYTES_MAX: usize = 1024;

/// What `.slot-id` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    id: String,
    machine: Machine,
}

/// How the machine differs from the one that opened the slot last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    /// The former and the present host, if they differ.
    pub hosts: Option<(String, String)>,
    /// The same host was started again since.
    pub rebooted: bool,
    /// Same host, same boot: whatever was written to a file is still in it.
    pub same_boot: bool,
}

impl Identity {
    fn new(fs: &dyn Fs) -> Self {
        Self {
            id: format!("{:016x}{:016x}", fs.random(), fs.random()),
            machine: fs.machine(),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let value = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key))?;
            Some(line.trim().to_owned())
        };
        Some(Self {
            id: value("id=").filter(|id| !id.is_empty())?,
            machine: Machine {
                host: value("host=")?,
                boot: value("boot=")?,
            },
        })
    }

    fn text(&self) -> String {
        let Machine { host, boot } = &self.machine;
        format!("id={}\nhost={host}\nboot={boot}\n", self.id)
    }
}

/// Gives a fresh slot its identity. The caller syncs nothing: it is durable.
pub(crate) fn create(fs: &dyn Fs, dir: &Path) -> Result<(), Error> {
    write(fs, dir, &Identity::new(fs))
}

/// Reads the identity, if there is a usable one. What cannot be read is as good as absent: a slot
/// is not refused for what decides nothing.
pub(crate) fn read(fs: &dyn Fs, dir: &Path) -> Option<Identity> {
    match whole::read(fs, dir, SLOT_ID, BYTES_MAX) {
        Ok(text) => Identity::parse(&text?),
        Err(error) => {
            tracing::debug!(slot = %dir.display(), %error, "no identity of the slot");
            None
        }
    }
}

/// Compares with this machine.
pub(crate) fn moved(fs: &dyn Fs, known: Option<&Identity>) -> Moved {
    let Some(known) = known else {
        return Moved::default();
    };
    let (before, now) = (&known.machine, fs.machine());
    let differ = |a: &str, b: &str| !a.is_empty() && !b.is_empty() && a != b;
    let other_host = differ(&before.host, &now.host);
    let other_boot = differ(&before.boot, &now.boot);
    Moved {
        rebooted: !other_host && other_boot,
        same_boot: *before == now && !now.boot.is_empty(),
        hosts: other_host.then(|| (before.host.clone(), now.host)),
    }
}

/// Notes this machine, if another one or none is noted. A full disk does not keep a slot from
/// opening: the next open tries again.
pub(crate) fn renew(fs: &dyn Fs, dir: &Path, known: Option<Identity>) {
    let machine = fs.machine();
    let written = match known {
        Some(known) if known.machine == machine => Ok(()),
        Some(known) => write(fs, dir, &Identity { machine, ..known }),
        None => create(fs, dir),
    };
    if let Err(error) = written {
        tracing::debug!(%error, "the machine was not noted");
    }
}

fn write(fs: &dyn Fs, dir: &Path, identity: &Identity) -> Result<(), Error> {
    let written = whole::write(fs, dir, SLOT_ID, identity.text().as_bytes());
    written
        .map(drop)
        .map_err(|source| Error::disk("write", &dir.join(SLOT_ID), 0, source))
}
