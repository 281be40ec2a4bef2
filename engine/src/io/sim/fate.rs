//! What a process does to its disk, step by step, and the step at which it dies.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::io::Token;
use crate::shard::token;

/// A step: something after which the disk, or what the kernel knows, is not as before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// A blocking call that changes something, and on what.
    Call(&'static str, String),
    /// The shard asks the steward.
    Ask(&'static str),
    /// An operation reaches the kernel.
    Submit(Token),
    /// An operation takes effect and the shard is told.
    Complete(Token),
}

/// The fate of one process. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fate(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Steps until the one that does not happen; `None` lives on.
    left: Option<u32>,
    is_dead: bool,
    /// The step that did not happen.
    last: Option<Event>,
    /// What happened since somebody began to look.
    trace: Option<Vec<Event>>,
}

impl Fate {
    /// From now on `left` steps happen; the process dies at the next. Steps are noted if `traced`.
    pub(crate) fn decide(&self, left: Option<u32>, traced: bool) {
        *self.state() = State {
            left,
            is_dead: false,
            last: None,
            trace: traced.then(Vec::new),
        };
    }

    /// The process is dead already.
    pub(crate) fn kill(&self) {
        self.state().is_dead = true;
    }

    /// Takes a step; `false`: the process is dead, or died at this one, and nothing happens.
    pub(crate) fn step(&self, event: impl FnOnce() -> Event) -> bool {
        let mut state = self.state();
        if state.is_dead {
            return false;
        }
        if let Some(left) = &mut state.left {
            if *left == 0 {
                state.is_dead = true;
                state.last = Some(event());
                return false;
            }
            *left -= 1;
        }
        if let Some(trace) = &mut state.trace {
            trace.push(event());
        }
        true
    }

    /// Whether it died.
    pub(crate) fn is_dead(&self) -> bool {
        self.state().is_dead
    }

    /// The step that did not happen.
    pub(crate) fn last(&self) -> Option<Event> {
        self.state().last.clone()
    }

    /// What happened.
    pub(crate) fn trace(&self) -> Vec<Event> {
        self.state().trace.clone().unwrap_or_default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(what, on) => write!(f, "{what} {on}"),
            Self::Ask(what) => write!(f, "ask the steward to {what}"),
            Self::Submit(token) => write!(f, "submit {}", operation(*token)),
            Self::Complete(token) => write!(f, "complete {}", operation(*token)),
        }
    }
}

/// What an operation of the shard is.
fn operation(token: Token) -> &'static str {
    match token {
        token::DICTIONARY => "dictionary write",
        token::SEGMENT => "segment write",
        token::SYNC_DICTIONARY => "dictionary sync",
        token::SYNC_SEGMENT => "segment sync",
        token::HEADER => "header of the new segment",
        token::SYNC_OLD => "sync of the full segment",
        token::SYNC_NEW => "sync of the new segment",
        token::MANIFEST => "manifest write of the rotation",
        token::SYNC_MANIFEST => "manifest sync of the rotation",
        token::TRIM_DICTIONARY => "dictionary sync of the trim",
        token::TRIM_WATERMARK => "watermark write of the trim",
        token::TRIM_SYNC_WATERMARK => "watermark sync of the trim",
        token::TRIM_MANIFEST => "manifest write of the trim",
        token::TRIM_SYNC_MANIFEST => "manifest sync of the trim",
        token::WATERMARK => "watermark write",
        _ => "read for replay",
    }
}
