//! A neighbour on the same disk: writes through the page cache and syncs, as databases do.

use std::error::Error;
use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Between two syncs.
const STEP_BYTES: usize = 4 << 20;
/// Where it begins anew.
const FILE_BYTES: u64 = 256 << 20;

/// Writes and syncs until it is ended.
pub(super) fn run(dir: &Path) -> Result<(), Box<dyn Error>> {
    let mut file = File::create_new(dir.join("neighbour"))?;
    let step = vec![0xa5; STEP_BYTES];
    loop {
        for _ in 0..FILE_BYTES / STEP_BYTES as u64 {
            file.write_all(&step)?;
            file.sync_all()?;
        }
        file.rewind()?;
    }
}

/// One that runs until it is dropped.
#[derive(Debug)]
pub(super) struct Neighbour(Child);

impl Neighbour {
    pub(super) fn start(dir: &Path) -> Result<Self, Box<dyn Error>> {
        let child = Command::new(std::env::current_exe()?)
            .args(["versus-child", "neighbour", "--dir"])
            .arg(dir)
            .stdin(Stdio::null())
            .spawn()?;
        Ok(Self(child))
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // It never ends by itself, and there is nothing to do about a failure.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
