//! The bar on stderr while rows are on their way. Silent when stderr is no terminal.

use std::io::IsTerminal;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use forebay::{Engine, Stats};
use indicatif::{ProgressBar, ProgressStyle};

/// Time between two updates.
const PERIOD: Duration = Duration::from_millis(100);

/// What the bar counts up to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    /// So many rows of this process acked.
    Rows(u64),
    /// The frames that the slot held at the start, all acked.
    Backlog(u64),
}

impl Goal {
    fn total(self) -> u64 {
        match self {
            Self::Rows(total) | Self::Backlog(total) => total,
        }
    }

    fn position(self, stats: &Stats) -> u64 {
        match self {
            Self::Rows(_) => stats.rows_acked,
            Self::Backlog(frames) => frames.saturating_sub(stats.unacked_frames),
        }
    }

    fn template(self) -> &'static str {
        match self {
            Self::Rows(_) => "{bar:30} {pos}/{len} rows acked  {msg}",
            Self::Backlog(_) => "{bar:30} {pos}/{len} frames acked  {msg}",
        }
    }
}

/// Runs `work` with a bar beside it, fed by the engine's counters.
pub(crate) fn watch<T>(engine: &Engine, goal: Goal, work: impl FnOnce() -> T) -> T {
    if !std::io::stderr().is_terminal() {
        return work();
    }
    // Dropping the sender ends the watcher, also when `work` panics.
    let (ended, wait) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || show(engine, goal, &wait));
        let result = work();
        drop(ended);
        result
    })
}

fn show(engine: &Engine, goal: Goal, ended: &mpsc::Receiver<()>) {
    let bar = ProgressBar::new(goal.total());
    if let Ok(style) = ProgressStyle::with_template(goal.template()) {
        bar.set_style(style);
    }
    let mut last = (Instant::now(), engine.stats());
    while ended.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
        let now = (Instant::now(), engine.stats());
        bar.set_position(goal.position(&now.1));
        bar.set_message(rates(now.0 - last.0, &last.1, &now.1));
        last = now;
    }
    bar.finish_and_clear();
}

/// What the last period moved, and what waits for the server.
fn rates(period: Duration, before: &Stats, after: &Stats) -> String {
    let per_second = |from: u64, to: u64| {
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let moved = to.saturating_sub(from) as f64;
        moved / period.as_secs_f64().max(1e-9)
    };
    format!(
        "{:.0} rows/s  {:.1} MB/s  {} frames unacked{}",
        per_second(before.rows_acked, after.rows_acked),
        per_second(before.bytes_published, after.bytes_published) / 1e6,
        after.unacked_frames,
        if after.connected == 0 {
            "  (no server)"
        } else {
            ""
        },
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use forebay::Stats;

    use super::{Goal, rates};

    #[test]
    fn the_bar_counts_rows_or_the_backlog() {
        let mut stats = Stats::default();
        stats.rows_acked = 7;
        stats.unacked_frames = 2;
        assert_eq!(Goal::Rows(10).position(&stats), 7);
        assert_eq!(Goal::Backlog(5).position(&stats), 3);
        assert_eq!(Goal::Backlog(1).position(&stats), 0);
    }

    #[test]
    fn rates_are_per_second_of_the_period() {
        let before = Stats::default();
        let mut after = before;
        after.rows_acked = 500;
        after.bytes_published = 2_000_000;
        after.unacked_frames = 3;
        let text = rates(Duration::from_millis(500), &before, &after);
        assert_eq!(text, "1000 rows/s  4.0 MB/s  3 frames unacked  (no server)");
    }
}
