//! What this process used besides CPU time, from `/proc`: memory, switches, disk.

use std::path::Path;
use std::time::Duration;

/// `stat` counts in units of 1/100 s for user space on every architecture (`USER_HZ`).
const TICK_MS: u64 = 10;
/// Fields of `stat` behind the parenthesised name: `utime` and `stime` are the 12th and 13th.
const UTIME_FIELD: usize = 11;

/// What the living threads of this process used so far.
///
/// Threads that ended are not in the switches: whoever lets a thread end takes
/// [`thread_switches`] in it last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Highest resident memory so far, KiB (`VmHWM`: of this program alone).
    pub peak_rss_kib: u64,
    /// Bytes that the process made the disk write (`write_bytes`: the page cache counts when a
    /// page is made dirty).
    pub disk_write_bytes: u64,
    /// Context switches.
    pub switches: Switches,
}

/// Context switches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Switches {
    /// A thread waited.
    pub voluntary: u64,
    /// A thread was taken off its core.
    pub involuntary: u64,
}

impl Switches {
    /// Adds those of another thread.
    pub fn add(&mut self, other: Self) {
        self.voluntary += other.voluntary;
        self.involuntary += other.involuntary;
    }

    /// What came after `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            voluntary: self.voluntary.saturating_sub(before.voluntary),
            involuntary: self.involuntary.saturating_sub(before.involuntary),
        }
    }
}

impl Usage {
    /// What is known now; 0 for what `/proc` does not tell.
    pub fn now() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let mut switches = Switches::default();
        for task in std::fs::read_dir("/proc/self/task").into_iter().flatten() {
            let Ok(task) = task else { continue };
            switches.add(switches_of(&task.path()));
        }
        Self {
            peak_rss_kib: number(&read("/proc/self/status"), "VmHWM:"),
            disk_write_bytes: number(&read("/proc/self/io"), "write_bytes:"),
            switches,
        }
    }
}

impl Usage {
    /// What came after `before`; `ended` are the switches of threads that began and ended since.
    #[must_use]
    pub fn since(self, before: Self, ended: Switches) -> Self {
        let mut switches = self.switches.since(before.switches);
        switches.add(ended);
        Self {
            peak_rss_kib: self.peak_rss_kib,
            disk_write_bytes: self
                .disk_write_bytes
                .saturating_sub(before.disk_write_bytes),
            switches,
        }
    }
}

/// CPU time of this process, ended threads included, to 10 ms.
pub fn process_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let mut fields = fields.split_ascii_whitespace().skip(UTIME_FIELD);
    let mut ticks = || fields.next().and_then(|field| field.parse::<u64>().ok());
    let both = ticks().unwrap_or(0) + ticks().unwrap_or(0);
    Duration::from_millis(both * TICK_MS)
}

/// The switches of the calling thread.
pub fn thread_switches() -> Switches {
    switches_of(Path::new("/proc/thread-self"))
}

fn switches_of(task: &Path) -> Switches {
    let status = std::fs::read_to_string(task.join("status")).unwrap_or_default();
    Switches {
        voluntary: number(&status, "voluntary_ctxt_switches:"),
        involuntary: number(&status, "nonvoluntary_ctxt_switches:"),
    }
}

/// The number behind `label` at the start of a line; 0 if there is none.
fn number(text: &str, label: &str) -> u64 {
    let rest = text.lines().find_map(|line| line.strip_prefix(label));
    rest.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{Usage, number, process_cpu, thread_switches};
    use crate::cpu::thread_cpu_ns;

    #[test]
    fn numbers_are_found_by_their_label_at_the_start_of_a_line() {
        let status = "Name:\tx\nVmHWM:\t   1234 kB\nvoluntary_ctxt_switches:\t7\n\
                      nonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(number(status, "VmHWM:"), 1234);
        assert_eq!(number(status, "voluntary_ctxt_switches:"), 7);
        assert_eq!(number(status, "nonvoluntary_ctxt_switches:"), 3);
        assert_eq!(number(status, "VmPeak:"), 0);
    }

    #[test]
    fn the_process_has_used_what_a_thread_of_it_did_even_when_that_has_ended() {
        let before = process_cpu();
        let worker = std::thread::spawn(|| {
            while thread_cpu_ns() < 50_000_000 {
                std::hint::spin_loop();
            }
        });
        worker.join().unwrap();
        let used = process_cpu().saturating_sub(before);
        assert!(used.as_millis() >= 20, "{used:?}");
    }

    #[test]
    fn a_sleep_is_a_voluntary_switch_and_memory_raises_the_peak() {
        let before = (thread_switches(), Usage::now());
        std::thread::sleep(std::time::Duration::from_millis(2));
        let memory = vec![1_u8; 64 << 20];
        std::hint::black_box(&memory);
        let after = (thread_switches(), Usage::now());
        assert!(after.0.since(before.0).voluntary >= 1);
        assert!(after.1.peak_rss_kib >= 60 << 10, "{after:?}");
    }
}
