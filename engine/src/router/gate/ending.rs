//! The end of a shard: asked for by `close`, or by a terminal error. Either wakes everybody.

use std::sync::atomic::Ordering;

use super::{Gate, lock};
use crate::error::Error;
use crate::io::sys::heavy;
use crate::observe::{Category, Policy, SenderError};

/// Why an engine takes no more rows: latched once, delivered once through `close` too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Terminal {
    /// `host:port` of the server, empty where the cause is local.
    pub endpoint: String,
    /// What happened.
    pub reason: String,
}

impl Terminal {
    /// An error that no server has to do with; the reason names the way out.
    pub(crate) fn local(reason: String) -> Self {
        Self {
            endpoint: String::new(),
            reason,
        }
    }

    /// The error that callers get.
    pub(crate) fn to_error(&self) -> Error {
        if self.endpoint.is_empty() {
            return Error::Poisoned {
                cause: self.reason.clone(),
            };
        }
        Error::Peer {
            endpoint: self.endpoint.clone(),
            reason: self.reason.clone(),
            retryable: false,
        }
    }
}

impl Gate {
    /// Asks the shard to stop when everything is acked, at `deadline` (monotonic) at the latest.
    pub(crate) fn close(&self, deadline: u64) {
        self.closing
            .fetch_min(deadline.min(u64::MAX - 1), Ordering::AcqRel);
        self.wake_all();
        self.door.ring();
    }

    /// Whether the shard is gone or going.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire) || self.closing.load(Ordering::Acquire) != u64::MAX
    }

    /// Deadline of `close`, if it was called. Rings that are found empty afterwards stay empty:
    /// whoever publishes later sees the closing (half a barrier here, the other half in
    /// [`knock`](Self::knock)) and is refused.
    #[inline]
    pub(crate) fn closing(&self) -> Option<u64> {
        match self.closing.load(Ordering::Acquire) {
            u64::MAX => None,
            deadline => {
                self.show_closing();
                Some(deadline)
            }
        }
    }

    /// Once is enough: from then on every producer sees it.
    #[cold]
    fn show_closing(&self) {
        if !self.closing_shown.load(Ordering::Acquire) {
            heavy();
            self.closing_shown.store(true, Ordering::Release);
        }
    }

    /// Whether nothing further will happen: a terminal error, or the shard is gone.
    pub(crate) fn is_over(&self) -> bool {
        self.terminal.get().is_some() || self.closed.load(Ordering::Acquire)
    }

    /// The error of a wait that ended because nothing further will happen.
    pub(crate) fn ending(&self) -> Option<Error> {
        let closed = || self.closed.load(Ordering::Acquire).then_some(Error::Closed);
        self.latched().or_else(closed)
    }

    /// Why no batch is accepted any more.
    #[inline]
    pub(crate) fn refusal(&self) -> Option<Error> {
        let closed = || self.is_closed().then_some(Error::Closed);
        self.latched().or_else(closed)
    }

    #[inline]
    fn latched(&self) -> Option<Error> {
        let terminal = self.terminal.get()?;
        self.delivered.store(true, Ordering::Release);
        Some(terminal.to_error())
    }

    /// The latched terminal error.
    pub(crate) fn terminal(&self) -> Option<&Terminal> {
        self.terminal.get()
    }

    /// The latched terminal error if no call has returned it yet: `close` must (operations.md
    /// O22).
    pub(crate) fn take_undelivered(&self) -> Option<Error> {
        let first = !self.delivered.swap(true, Ordering::AcqRel);
        self.terminal
            .get()
            .filter(|_| first)
            .map(Terminal::to_error)
    }

    /// Latches a terminal error under this category (the first one stays and is told) and wakes
    /// every waiter.
    pub(crate) fn fail_as(&self, category: Category, terminal: Terminal) {
        let mut error = SenderError::new(category, Policy::Terminal, terminal.reason.clone());
        error.endpoint.clone_from(&terminal.endpoint);
        self.fail_with(terminal, error);
    }

    /// As [`fail_as`](Self::fail_as), told as this error.
    pub(crate) fn fail_with(&self, terminal: Terminal, error: SenderError) {
        if self.terminal.set(terminal).is_ok() {
            self.tell(error);
        }
        self.wake_all();
    }

    /// The shard's thread ended in a panic.
    pub(crate) fn panicked(&self, terminal: Terminal) {
        self.panicked.store(true, Ordering::Release);
        self.fail_as(Category::Fault, terminal);
        self.shut();
    }

    /// The shard is gone: every wait ends.
    pub(crate) fn shut(&self) {
        self.closed.store(true, Ordering::Release);
        self.wake_all();
    }

    fn wake_all(&self) {
        for lane in lock(&self.lanes).iter() {
            lane.wake_everybody();
        }
        self.publish_news();
    }
}
