//! When the steward is started again, and when no more: a state machine without a clock.
//!
//! An unexpected death is followed by a pause and a new start, at most
//! [`Limits::respawns_max`] times per [`Limits::window_nanos`]; a start that fails counts as one.
//! When that is exhausted the answer is [`Next::FallBack`], once, and nothing is started again. A
//! deliberate stop comes before everything.

use std::collections::VecDeque;

use crate::config::Config;
use crate::units::nanos;

/// How often a steward may be started again. Times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Pause before a new start.
    pub(crate) backoff_nanos: u64,
    /// New starts within the window.
    pub(crate) respawns_max: usize,
    /// The window.
    pub(crate) window_nanos: u64,
}

impl Limits {
    /// As configured: for the steward, and for the shards.
    pub(crate) fn of(config: &Config) -> Self {
        let keys = &config.steward;
        Self {
            backoff_nanos: nanos(keys.respawn_backoff),
            respawns_max: keys.respawns_max,
            window_nanos: nanos(keys.respawn_window),
        }
    }
}

/// What the supervisor does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Starts the steward.
    Spawn,
    /// Waits until this time, then asks [`Supervision::due`].
    Pause(u64),
    /// Waits for news.
    Rest,
    /// Gives the steward's work to the shard, for good.
    FallBack,
}

/// What the steward is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Being started, or at work.
    Alive,
    /// Dead; started again at this time.
    Paused(u64),
    /// Dead for good.
    GivenUp,
    /// The engine stops.
    Stopping,
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Supervision {
    limits: Limits,
    state: State,
    /// When the last new starts were decided.
    respawns: VecDeque<u64>,
}

impl Supervision {
    /// A steward that is to be started for the first time, which is no respawn.
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            state: State::Alive,
            respawns: VecDeque::with_capacity(limits.respawns_max),
        }
    }

    /// The steward ended, or could not be started.
    pub(crate) fn died(&mut self, now: u64) -> Next {
        if self.state != State::Alive {
            return Next::Rest;
        }
        let from = now.saturating_sub(self.limits.window_nanos);
        while self.respawns.pop_front_if(|at| *at < from).is_some() {}
        if self.respawns.len() >= self.limits.respawns_max {
            self.state = State::GivenUp;
            return Next::FallBack;
        }
        self.respawns.push_back(now);
        let until = now.saturating_add(self.limits.backoff_nanos);
        self.state = State::Paused(until);
        Next::Pause(until)
    }

    /// A pause may be over.
    pub(crate) fn due(&mut self, now: u64) -> Next {
        match self.state {
            State::Paused(until) if now >= until => {
                self.state = State::Alive;
                Next::Spawn
            }
            State::Paused(until) => Next::Pause(until),
            _ => Next::Rest,
        }
    }

    /// The engine stops: nothing is started any more.
    pub(crate) fn stop(&mut self) {
        self.state = State::Stopping;
    }

    /// New starts within the window, for the log.
    pub(crate) fn respawns(&self) -> usize {
        self.respawns.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        backoff_nanos: 1_000,
        respawns_max: 5,
        window_nanos: 60_000,
    };

    /// Lets the steward die at `now` and be started again; answers when.
    fn die_and_return(supervision: &mut Supervision, now: u64) -> u64 {
        let Next::Pause(until) = supervision.died(now) else {
            panic!("a pause");
        };
        assert_eq!(until, now + LIMITS.backoff_nanos);
        assert_eq!(supervision.due(until - 1), Next::Pause(until));
        assert_eq!(supervision.due(until), Next::Spawn);
        until
    }

    #[test]
    fn a_death_is_followed_by_a_pause_and_a_start() {
        let mut supervision = Supervision::new(LIMITS);
        die_and_return(&mut supervision, 7);
        assert_eq!(supervision.due(1 << 40), Next::Rest, "it lives");
        assert_eq!(supervision.respawns(), 1);
    }

    #[test]
    fn the_sixth_death_in_a_minute_is_the_last() {
        let mut supervision = Supervision::new(LIMITS);
        let mut now = 100;
        for _ in 0..5 {
            now = die_and_return(&mut supervision, now);
        }
        assert_eq!(supervision.died(now + 1), Next::FallBack);
        assert_eq!(supervision.died(now + 2), Next::Rest, "told once");
        assert_eq!(supervision.due(u64::MAX), Next::Rest, "never again");
    }

    #[test]
    fn starts_that_fail_count_as_deaths() {
        let mut supervision = Supervision::new(LIMITS);
        let mut now = 0;
        for _ in 0..5 {
            // The start that `due` asks for fails at once.
            now = die_and_return(&mut supervision, now);
        }
        assert_eq!(supervision.died(now), Next::FallBack);
    }

    #[test]
    fn deaths_further_apart_than_the_window_allows_go_on_for_ever() {
        let mut supervision = Supervision::new(LIMITS);
        let mut now = 0;
        for _ in 0..1_000 {
            // Five in a window and its pauses: the sixth comes when the first has left it.
            now = die_and_return(&mut supervision, now + LIMITS.window_nanos / 5);
        }
        assert!(supervision.respawns() <= LIMITS.respawns_max);
    }

    #[test]
    fn a_stop_is_no_death_and_ends_a_pause() {
        let mut supervision = Supervision::new(LIMITS);
        supervision.stop();
        assert_eq!(supervision.died(5), Next::Rest);
        let mut supervision = Supervision::new(LIMITS);
        assert_eq!(supervision.died(5), Next::Pause(1_005));
        supervision.stop();
        assert_eq!(supervision.due(1_005), Next::Rest);
        assert_eq!(supervision.died(1_006), Next::Rest);
    }

    #[test]
    fn no_respawns_allowed_means_the_first_death_is_the_last() {
        let limits = Limits {
            respawns_max: 0,
            ..LIMITS
        };
        assert_eq!(Supervision::new(limits).died(0), Next::FallBack);
    }
}
