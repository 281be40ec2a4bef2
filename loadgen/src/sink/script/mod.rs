//! Fault scripts: what a hostile sink does, as rules of a connection, a moment and an action.
//!
//! A script is text, a rule a line ([`Script`] parses it with [`str::parse`]; the grammar is in
//! docs/loadgen.md), or the same as Rust values:
//!
//! ```
//! use forebay_loadgen::sink::{Action, Numbers, Rule, Script, When};
//! let text: Script = "conn 0 message 2 times 1 -> nack 0x09 \"disk full\"".parse()?;
//! let rule = Rule::new(
//!     When::Message(Numbers::one(2)),
//!     Action::Nack { status: 0x09, text: "disk full".into() },
//! );
//! assert_eq!(text.rules, [rule.conn(Numbers::one(0)).times(1)]);
//! # Ok::<(), forebay_loadgen::sink::ScriptError>(())
//! ```
//!
//! Connections count from 0 in the order of their accept, messages from 0 on each connection, as
//! sequence numbers do.

mod action;
mod malformed;
mod parse;
mod words;

use std::time::Duration;

pub use action::{Action, DurableManners, Phase};
pub use malformed::Malformed;
pub(super) use malformed::ok;
pub use parse::ScriptError;

/// What a hostile sink does. The default does nothing: the sink stays a faithful server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// In the order in which they are tried; all that match act.
    pub rules: Vec<Rule>,
}

impl Script {
    /// A script of these rules.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        Self {
            rules: rules.into_iter().collect(),
        }
    }
}

/// One line of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Connections that it is for.
    pub conn: Numbers,
    /// When it acts.
    pub when: When,
    /// How often it acts at most, over all connections; `None` is without end.
    pub times: Option<u64>,
    /// What it does.
    pub action: Action,
}

impl Rule {
    /// A rule for every connection, without end.
    pub fn new(when: When, action: Action) -> Self {
        Self {
            conn: Numbers::ALL,
            when,
            times: None,
            action,
        }
    }

    /// Only for these connections.
    #[must_use]
    pub fn conn(mut self, conn: Numbers) -> Self {
        self.conn = conn;
        self
    }

    /// At most so often.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }
}

/// The moment of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// The upgrade request is whole.
    Upgrade,
    /// The 101 was written.
    Start,
    /// A message of these numbers came. Endings act in its place: it is not applied.
    Message(Numbers),
    /// A message with a block for this table came. Endings act in its place.
    Table(String),
    /// A message of these numbers was applied (and stored), and no OK covers it yet. Endings
    /// leave it without one, so a client has to send it again.
    Applied(Numbers),
    /// An OK that covers this message was written. Once a connection.
    Acked(u64),
    /// So long after the 101. Once a connection.
    After(Duration),
    /// So long after the sink's start (or after the script was set). On connections that are
    /// live then.
    At(Duration),
}

/// A set of numbers: `from`, `from + step`, and so on, up to and with `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// The first.
    pub from: u64,
    /// The last that may be in it; `u64::MAX` is without end.
    pub to: u64,
    /// Distance from one to the next, at least 1.
    pub step: u64,
}

impl Numbers {
    /// Every number.
    pub const ALL: Self = Self::range(0, u64::MAX);

    /// Just this one.
    pub const fn one(number: u64) -> Self {
        Self::range(number, number)
    }

    /// This one and all after it.
    pub const fn from(first: u64) -> Self {
        Self::range(first, u64::MAX)
    }

    /// From `first` to `last`, both in it.
    pub const fn range(first: u64, last: u64) -> Self {
        Self {
            from: first,
            to: last,
            step: 1,
        }
    }

    /// Every `step`-th of them, the first included.
    #[must_use]
    pub const fn every(mut self, step: u64) -> Self {
        self.step = step;
        self
    }

    /// Whether the number is in the set.
    pub const fn contains(&self, number: u64) -> bool {
        let step = if self.step == 0 { 1 } else { self.step };
        number >= self.from && number <= self.to && (number - self.from).is_multiple_of(step)
    }
}
