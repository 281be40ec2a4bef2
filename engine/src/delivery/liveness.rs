//! Is the server still there, and does it still confirm? (protocol.md sections 12.2 and 13.7)
//!
//! A peer that vanished without a word leaves a socket that looks healthy for hours, with frames on
//! their way or without. So a connection on which nothing was heard for the ping interval is asked
//! by a PING, and given up when another interval passes in silence. A server that answers but
//! confirms nothing of what it has for the ack-progress limit is given up as well: after a refusal
//! that got lost it would stay silent for ever.
//!
//! A slow line may need longer for what lies in the socket's buffer than the interval: each time
//! silence ended a connection that confirmed nothing, the intervals of the next are twice as long.
//!
//! In durable mode the server speaks only when spoken to: while OKs wait for their durable
//! acknowledgements a PING goes out at once and then at every keepalive interval without frames.

/// Doublings of the intervals at most.
const STRETCH_MAX: u32 = 6;

/// Limits in nanoseconds; 0 is off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// `ping_interval_millis`.
    pub(crate) ping: u64,
    /// `ack_progress_timeout_millis`.
    pub(crate) ack: u64,
    /// `durable_ack_keepalive_interval_millis`.
    pub(crate) keepalive: u64,
}

/// What time asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing now.
    Nothing,
    /// A PING.
    Ping,
    /// Nothing was heard after a PING: the connection is dead.
    Silence,
    /// The server lives and confirms nothing: the connection is of no use.
    Stall,
}

/// The clocks of one connection, and what the one before was ended by.
#[derive(Debug, Clone)]
pub(crate) struct Liveness {
    limits: Limits,
    stretch: u32,
    heard: u64,
    /// When the unanswered PING of the silence went out.
    asked: Option<u64>,
    /// Since when frames wait for an OK without any progress.
    unacked_since: Option<u64>,
    /// When the next PING for durable acknowledgements is due.
    keepalive_at: Option<u64>,
}

impl Liveness {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            stretch: 0,
            heard: 0,
            asked: None,
            unacked_since: None,
            keepalive_at: None,
        }
    }

    /// A connection is open.
    pub(crate) fn opened(&mut self, now: u64) {
        self.heard = now;
        (self.asked, self.unacked_since, self.keepalive_at) = (None, None, None);
    }

    /// Bytes arrived.
    pub(crate) fn heard(&mut self, now: u64) {
        self.heard = now;
        self.asked = None;
    }

    /// A frame was handed to the socket: the server will say something.
    pub(crate) fn sent(&mut self, now: u64) {
        self.unacked_since.get_or_insert(now);
        if let Some(at) = &mut self.keepalive_at {
            *at = now.saturating_add(self.limits.keepalive);
        }
    }

    /// An OK confirmed more than before; `more`: frames still wait for one.
    pub(crate) fn okayed(&mut self, more: bool, now: u64) {
        self.unacked_since = more.then_some(now);
        self.stretch = 0;
    }

    /// Whether OKs wait for durable acknowledgements.
    pub(crate) fn durable_waits(&mut self, waits: bool, now: u64) {
        if !waits || self.limits.keepalive == 0 {
            self.keepalive_at = None;
        } else {
            self.keepalive_at.get_or_insert(now);
        }
    }

    /// What is due now. A PING that is told of counts as sent.
    pub(crate) fn check(&mut self, now: u64) -> Due {
        if self.limit(self.unacked_since, self.limits.ack) <= now {
            return Due::Stall;
        }
        if self.limit(self.asked, self.limits.ping) <= now {
            self.stretch = (self.stretch + 1).min(STRETCH_MAX);
            return Due::Silence;
        }
        let silent = self.asked.is_none() && self.limit(Some(self.heard), self.limits.ping) <= now;
        if silent {
            self.asked = Some(now);
        }
        let keepalive = self.keepalive_at.is_some_and(|at| at <= now);
        if keepalive {
            self.keepalive_at = Some(now.saturating_add(self.limits.keepalive));
        }
        if silent || keepalive {
            Due::Ping
        } else {
            Due::Nothing
        }
    }

    /// When [`check`](Self::check) has something to say at the latest.
    pub(crate) fn deadline(&self) -> u64 {
        let heard = self.asked.or(Some(self.heard));
        self.limit(heard, self.limits.ping)
            .min(self.limit(self.unacked_since, self.limits.ack))
            .min(self.keepalive_at.unwrap_or(u64::MAX))
    }

    fn limit(&self, since: Option<u64>, limit: u64) -> u64 {
        match since {
            Some(since) if limit > 0 => since.saturating_add(limit << self.stretch),
            _ => u64::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alive(ping: u64, ack: u64, keepalive: u64) -> Liveness {
        let mut alive = Liveness::new(Limits {
            ping,
            ack,
            keepalive,
        });
        alive.opened(1000);
        alive
    }

    #[test]
    fn silence_is_asked_and_then_given_up() {
        let mut alive = alive(10, 0, 0);
        assert_eq!((alive.check(1009), alive.deadline()), (Due::Nothing, 1010));
        assert_eq!((alive.check(1010), alive.deadline()), (Due::Ping, 1020));
        assert_eq!(alive.check(1019), Due::Nothing);
        alive.heard(1019);
        assert_eq!(alive.check(1020), Due::Nothing);
        assert_eq!(alive.check(1029), Due::Ping);
        assert_eq!(alive.check(1039), Due::Silence);
    }

    #[test]
    fn a_slow_line_gets_more_time_until_something_is_confirmed() {
        let mut alive = alive(10, 0, 0);
        let silent_after = |alive: &mut Liveness, start: u64| {
            alive.opened(start);
            (start..start + 1000)
                .find(|now| alive.check(*now) == Due::Silence)
                .unwrap()
                - start
        };
        let times = [5000, 6000, 7000].map(|start| silent_after(&mut alive, start));
        assert_eq!(times, [20, 40, 80]);
        alive.opened(8000);
        alive.okayed(true, 8001);
        assert_eq!(silent_after(&mut alive, 9000), 20);
    }

    #[test]
    fn a_server_that_answers_but_confirms_nothing_is_given_up() {
        let mut alive = alive(10, 100, 0);
        alive.sent(1000);
        for now in 1001..1100 {
            alive.heard(now);
            assert_eq!(alive.check(now), Due::Nothing);
        }
        assert_eq!(alive.check(1100), Due::Stall);
        alive.opened(2000);
        alive.sent(2000);
        alive.okayed(true, 2090);
        alive.heard(2100);
        assert_eq!(alive.check(2100), Due::Nothing, "progress");
        alive.okayed(false, 2110);
        alive.heard(2300);
        assert_eq!(alive.check(2300), Due::Nothing, "nothing is out");
    }

    #[test]
    fn durable_acknowledgements_are_asked_for_at_once_and_then_when_idle() {
        let mut alive = alive(0, 0, 50);
        alive.durable_waits(true, 1000);
        assert_eq!(alive.check(1000), Due::Ping);
        alive.durable_waits(true, 1010);
        assert_eq!((alive.check(1049), alive.deadline()), (Due::Nothing, 1050));
        alive.sent(1040);
        assert_eq!(alive.check(1050), Due::Nothing, "a frame does the same");
        assert_eq!(alive.check(1090), Due::Ping);
        alive.durable_waits(false, 1091);
        assert_eq!(alive.deadline(), u64::MAX);
    }
}
