//! Whether a directory's filesystem takes direct writes of our blocks.
//!
//! Most that do not refuse to open a file for direct I/O. Some find out at the first write, whose
//! alignment they refuse: better a clear error at the start than a journal that fails there.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::fill::set_direct;
use super::{Region, unnamed};

/// The file that is written where the filesystem has none without a name. Nobody else uses it.
const NAME: &str = ".direct-probe";

/// Writes one block of `bytes` into a file of its own, which is gone afterwards. `EINVAL`: direct
/// I/O, or a block of this size, is refused. Any other failure says nothing about that: who comes to
/// do the same for good hears of it.
pub(super) fn try_block(dir: &Path, bytes: usize) -> io::Result<()> {
    let named = dir.join(NAME);
    let outcome = match unnamed::create(&named) {
        Ok(Some(file)) => write(&file, bytes),
        Ok(None) => {
            let mut options = File::options();
            let options = options.create(true).truncate(true).write(true).mode(0o600);
            let outcome = options.open(&named).and_then(|file| write(&file, bytes));
            let _ = std::fs::remove_file(&named);
            outcome
        }
        Err(error) => Err(error),
    };
    match outcome {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Err(error),
        _ => Ok(()),
    }
}

fn write(file: &File, bytes: usize) -> io::Result<()> {
    set_direct(file)?;
    let block = Region::new(bytes)?;
    file.write_all_at(block.slice(0..bytes), 0)
}

#[cfg(test)]
mod tests {
    use super::super::BLOCK;
    use super::*;

    #[test]
    fn a_refused_block_is_told_and_nothing_stays() {
        // Next to the test's program: a disk, where 100 bytes are no block.
        let program = std::env::current_exe().unwrap();
        let dir = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
        try_block(dir.path(), BLOCK).unwrap();
        let error = try_block(dir.path(), 100).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_fails_for_another_reason_is_left_to_who_comes() {
        try_block(Path::new("/nowhere/at/all"), BLOCK).unwrap();
        try_block(Path::new("/proc"), BLOCK).unwrap();
    }

    #[test]
    fn memory_takes_direct_writes_where_the_kernel_says_so() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        try_block(dir.path(), BLOCK).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
