//! What else kept the machine busy during a run.

use std::fs::read_to_string;
use std::time::Instant;

use crate::limits::figures::float;

/// Ticks of `/proc` in a second (`USER_HZ`).
const TICKS: f64 = 100.0;

/// CPU time of everybody and of this process with its ended children.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Busy {
    at: Instant,
    all: f64,
    own: f64,
}

impl Busy {
    pub(crate) fn now() -> Self {
        let stat = read_to_string("/proc/stat").unwrap_or_default();
        let fields: Vec<f64> = numbers(stat.lines().next().unwrap_or_default());
        // user, nice, system, irq, softirq; idle and waiting are 3 and 4.
        let all = [0, 1, 2, 5, 6].map(|at| fields.get(at).copied().unwrap_or(0.0));
        let own = read_to_string("/proc/self/stat").unwrap_or_default();
        let own = own
            .rsplit_once(')')
            .map(|(_, rest)| numbers(rest))
            .unwrap_or_default();
        // Of the numbers behind the name: utime, stime, cutime, cstime.
        let own = [10, 11, 12, 13].map(|at| own.get(at).copied().unwrap_or(0.0));
        Self {
            at: Instant::now(),
            all: all.iter().sum::<f64>() / TICKS,
            own: own.iter().sum::<f64>() / TICKS,
        }
    }

    /// Cores that others kept busy since then, on average.
    pub(crate) fn others(self) -> f64 {
        let now = Self::now();
        let busy = (now.all - self.all) - (now.own - self.own);
        (busy / (now.at - self.at).as_secs_f64().max(1e-3)).max(0.0)
    }
}

/// The numbers of a line; words are left out.
fn numbers(line: &str) -> Vec<f64> {
    let words = line.split_ascii_whitespace();
    words
        .filter_map(|word| Some(float(word.parse::<i64>().ok()?.unsigned_abs())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::Busy;

    #[test]
    fn own_work_is_not_counted_as_that_of_others() {
        let before = Busy::now();
        let begun = std::time::Instant::now();
        while Busy::now().own - before.own < 0.3 && begun.elapsed().as_secs() < 30 {
            std::hint::black_box(begun);
        }
        let (all, own) = (Busy::now().all - before.all, Busy::now().own - before.own);
        assert!(own >= 0.3, "{own}");
        // Time that the host took away may be told apart in one of them and not in the other.
        assert!(all >= own / 2.0 - 0.05, "{all} {own}");
    }
}
