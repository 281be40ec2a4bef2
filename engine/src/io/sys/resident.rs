//! Whether the page cache holds a page of a file (`mincore`), without reading it.

use super::BLOCK;

/// Whether the page of the open file `fd` at `offset` is in memory; `false` when that cannot be
/// learned. The kernel tells it only of files that the caller owns or may write.
pub(super) fn is_resident(fd: i32, offset: u64) -> bool {
    let page = offset - offset % BLOCK as u64;
    let Ok(page) = i64::try_from(page) else {
        return false;
    };
    let (read, shared) = (libc::PROT_READ, libc::MAP_SHARED);
    // SAFETY: a new mapping at an address of the kernel's choice. It is never read, so it does not
    // matter where the file ends.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), BLOCK, read, shared, fd, page) };
    if start == libc::MAP_FAILED {
        return false;
    }
    let mut state = 0u8;
    // SAFETY: the range is the mapping just made, and `state` takes the byte of its one page.
    let known = unsafe { libc::mincore(start, BLOCK, &raw mut state) } == 0;
    // SAFETY: as above; nothing refers to the mapping.
    unsafe { libc::munmap(start, BLOCK) };
    known && state & 1 == 1
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_page_just_written_is_resident_and_one_beyond_the_end_is_not() {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &[7; 3 * BLOCK]).unwrap();
        assert!(is_resident(file.as_raw_fd(), BLOCK as u64 + 5));
        assert!(!is_resident(file.as_raw_fd(), 1 << 30));
        assert!(!is_resident(-1, 0));
    }
}
