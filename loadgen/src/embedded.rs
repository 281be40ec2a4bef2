//! The server and the slot of a command that was given no connect string.

use std::net::SocketAddr;
use std::path::Path;

use tempfile::TempDir;

use crate::error::Error;
use crate::sink::{Sink, SinkConfig, Totals};

/// A running sink and a directory that goes away with it.
#[derive(Debug)]
pub struct Embedded {
    sink: Sink,
    dir: TempDir,
}

impl Embedded {
    /// Starts a sink on a free port of the loopback interface, its connections on core `pin` if
    /// that is given, and makes a directory for the slot in `parent`.
    ///
    /// # Errors
    /// [`Error::Sink`], or [`Error::Io`] for the directory.
    pub fn start(parent: Option<&Path>, pin: Option<usize>) -> Result<Self, Error> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let dir = tempfile::Builder::new()
            .prefix("forebay-loadgen-")
            .tempdir_in(&parent)
            .map_err(|source| Error::io("make a directory in", &parent, source))?;
        let config = SinkConfig {
            pin_core: pin,
            ..SinkConfig::default()
        };
        let sink = Sink::start(config).map_err(|error| Error::Sink(error.to_string()))?;
        Ok(Self { sink, dir })
    }

    /// Where the sink listens.
    pub fn addr(&self) -> SocketAddr {
        self.sink.addr()
    }

    /// The directory for the slot.
    pub fn sf_dir(&self) -> &Path {
        self.dir.path()
    }

    /// What the sink counted so far. Everything that was acked is in it.
    pub fn totals(&self) -> Totals {
        self.sink.totals()
    }
}
