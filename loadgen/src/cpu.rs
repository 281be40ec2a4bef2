//! CPU time of this process, by thread, from `/proc`: no unsafe call is needed for it.
//!
//! `/proc/self/task/<tid>/schedstat` counts in nanoseconds. A kernel without it is read through
//! `stat`, which counts in ticks of 10 ms. Threads that ended are not in the list, so whoever lets
//! a thread end takes [`thread_cpu_ns`] in it last.

use std::path::Path;

/// `stat` counts in units of 1/100 s for user space on every architecture (`USER_HZ`).
const TICK_NS: u64 = 10_000_000;
/// Fields of `stat` behind the parenthesised name: `utime` and `stime` are the 12th and 13th.
const UTIME_FIELD: usize = 11;

/// CPU time of one thread so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadCpu {
    /// The kernel's thread id.
    pub tid: u32,
    /// Its name, at most 15 bytes.
    pub name: String,
    /// Nanoseconds on a core, user and system.
    pub cpu_ns: u64,
}

/// Names of the shards' threads are this and a number, and what their helpers append.
const SHARD_THREADS: &str = "forebay-s";

impl ThreadCpu {
    /// Whether it is a shard's: the steward's name begins like theirs and goes on with a letter.
    pub fn is_shard(&self) -> bool {
        let rest = self.name.strip_prefix(SHARD_THREADS);
        rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    }
}

/// Every living thread of this process.
pub fn threads() -> Vec<ThreadCpu> {
    let Ok(entries) = std::fs::read_dir("/proc/self/task") else {
        return Vec::new();
    };
    let mut threads: Vec<ThreadCpu> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let tid = entry.file_name().to_str()?.parse().ok()?;
            let name = std::fs::read_to_string(entry.path().join("comm")).ok()?;
            let cpu_ns = cpu_ns(&entry.path())?;
            Some(ThreadCpu {
                tid,
                name: name.trim_end().to_owned(),
                cpu_ns,
            })
        })
        .collect();
    threads.sort_by_key(|thread| thread.tid);
    threads
}

/// CPU time of the calling thread in nanoseconds; 0 without `/proc`.
pub fn thread_cpu_ns() -> u64 {
    cpu_ns(Path::new("/proc/thread-self")).unwrap_or(0)
}

/// Sum over the threads whose name starts with `prefix`, in nanoseconds; `None` if there is none.
pub fn sum_ns(threads: &[ThreadCpu], prefix: &str) -> Option<u64> {
    let found = || {
        threads
            .iter()
            .filter(|thread| thread.name.starts_with(prefix))
    };
    found().next()?;
    Some(found().map(|thread| thread.cpu_ns).sum())
}

fn cpu_ns(task: &Path) -> Option<u64> {
    let schedstat = std::fs::read_to_string(task.join("schedstat")).ok();
    schedstat
        .as_deref()
        .and_then(parse_schedstat)
        .or_else(|| parse_stat(&std::fs::read_to_string(task.join("stat")).ok()?))
}

/// `<cpu ns> <wait ns> <timeslices>`.
fn parse_schedstat(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// `<pid> (<name>) <state> <ppid> ... <utime> <stime> ...`; the name may hold anything.
fn parse_stat(text: &str) -> Option<u64> {
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(UTIME_FIELD);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) * TICK_NS)
}

#[cfg(test)]
mod tests {
    use super::{ThreadCpu, parse_schedstat, parse_stat, sum_ns, thread_cpu_ns, threads};

    #[test]
    fn both_forms_of_the_kernel_are_read() {
        assert_eq!(parse_schedstat("1234567 89 3\n"), Some(1_234_567));
        assert_eq!(parse_schedstat(""), None);
        let stat = "77 (a) b) S 1 77 77 0 -1 4194560 100 0 0 0 5 7 0 0 20 0 1 0";
        assert_eq!(parse_stat(stat), Some(120_000_000));
        assert_eq!(parse_stat("77 (a"), None);
    }

    #[test]
    fn work_is_seen_on_the_thread_that_does_it() {
        let name = "cpu-test-worker";
        let worker = std::thread::Builder::new().name(name.to_owned()).spawn(|| {
            let before = thread_cpu_ns();
            let mut sum = 0_u64;
            while thread_cpu_ns() < before + 20_000_000 {
                sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
            }
            (threads(), thread_cpu_ns())
        });
        let (seen, own_ns) = worker.unwrap().join().unwrap();
        let by_name = sum_ns(&seen, name).unwrap();
        assert!(
            by_name >= 20_000_000 && by_name <= own_ns,
            "{by_name} {own_ns}"
        );
    }

    #[test]
    fn sums_go_by_prefix() {
        let thread = |name: &str, cpu_ns| ThreadCpu {
            tid: 1,
            name: name.to_owned(),
            cpu_ns,
        };
        let list = [
            thread("forebay-s0", 5),
            thread("forebay-s1", 6),
            thread("main", 7),
        ];
        assert_eq!(sum_ns(&list, "forebay-s"), Some(11));
        assert_eq!(sum_ns(&list, "sink"), None);
    }
}
