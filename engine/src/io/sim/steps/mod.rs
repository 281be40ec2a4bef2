//! A crash between every two operations of a scripted history.
//!
//! A [`Phase`] is a short script: what goes before, and the part whose steps count. It runs once to
//! learn its steps (blocking calls that change something, requests to the steward, operations that
//! reach the kernel, operations that complete), then once per [`CrashPoint`]: the process dies just
//! before step `step`, by a kill or with the power, something of what was not durable survives as
//! `survival` says, and the slot is opened again, written and drained.
//!
//! A new phase: a variant, its name, its script in `scripts`.

mod history;
mod keepsake;
mod scripts;
mod verdict;

use self::history::History;
use super::fate::Event;

/// Ways to survive that every step is tried with: kill and power cut, each with and without a
/// reopening that dies too.
const SURVIVALS: u64 = 6;

/// A scripted part of a slot's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The first open of a slot, up to its second spare.
    FreshOpen,
    /// Frames with new symbols, their acknowledgement, the watermark.
    Append,
    /// No room for new symbols, and then there is some.
    FullDictionary,
    /// Segments become full; the server is away.
    Rotation,
    /// The server comes back to three full segments.
    Trim,
    /// Rotations and trims at the smallest cap, at the same time.
    RotationRacingTrim,
    /// Large dictionaries are given up, one after the other.
    Epochs,
    /// Close of a slot whose frames get acknowledged.
    DrainedClose,
    /// Close without a server: frames stay.
    CloseWithFramesLeft,
    /// A damaged slot is set aside, and an empty one takes its place.
    SetAside,
    /// Open after one of the phases above but setting aside was cut short.
    Reopen,
}

impl Phase {
    /// Every phase.
    pub const ALL: [Self; 11] = [
        Self::FreshOpen,
        Self::Append,
        Self::FullDictionary,
        Self::Rotation,
        Self::Trim,
        Self::RotationRacingTrim,
        Self::Epochs,
        Self::DrainedClose,
        Self::CloseWithFramesLeft,
        Self::SetAside,
        Self::Reopen,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::FreshOpen => "fresh-open",
            Self::Append => "append",
            Self::FullDictionary => "full-dictionary",
            Self::Rotation => "rotation",
            Self::Trim => "trim",
            Self::RotationRacingTrim => "rotation-racing-trim",
            Self::Epochs => "epochs",
            Self::DrainedClose => "drained-close",
            Self::CloseWithFramesLeft => "close-with-frames-left",
            Self::SetAside => "set-aside",
            Self::Reopen => "reopen",
        }
    }

    /// The phase that [`Reopen`](Self::Reopen) cuts short.
    fn reopened(seed: u64) -> Self {
        // Itself and setting aside are the last two.
        let others = Self::ALL.len() as u64 - 2;
        Self::ALL[usize::try_from(seed % others).expect("small")]
    }

    /// Runs the phase to its end. Delays, frame sizes and durability follow from `seed`. Panics
    /// where it does not get there.
    pub fn trace(self, seed: u64) -> Trace {
        let mut history = History::new(self, seed);
        history.plan(None, true);
        let end = history.play(self);
        assert!(end.is_ok(), "nobody killed it");
        let events = history.world.fate.trace();
        Trace {
            racing: racing(&events),
            steps: events.iter().map(Event::to_string).collect(),
        }
    }
}

/// The steps of a phase.
#[derive(Debug)]
pub struct Trace {
    /// What they are.
    pub steps: Vec<String>,
    /// Steps while both a rotation and a trim are under way.
    pub racing: u64,
}

impl Trace {
    /// All crash points of the phase.
    pub fn points(&self, phase: Phase, seed: u64) -> impl Iterator<Item = CrashPoint> {
        let steps = u32::try_from(self.steps.len()).expect("short scripts");
        (0..=steps).flat_map(move |step| {
            (0..SURVIVALS).map(move |survival| CrashPoint {
                phase,
                seed,
                step,
                survival,
            })
        })
    }
}

/// Where a process dies, and what survives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrashPoint {
    /// What it was doing.
    pub phase: Phase,
    /// Seed of the script.
    pub seed: u64,
    /// Steps that happened; the number of steps for a crash behind the last.
    pub step: u32,
    /// Seed of what survives.
    pub survival: u64,
}

/// Steps with a rotation and a trim under way: from the first operation of each to its last.
fn racing(events: &[Event]) -> u64 {
    use crate::shard::token;
    let (mut rotates, mut trims) = (false, false);
    let mut count = 0;
    for event in events {
        match *event {
            Event::Submit(token::HEADER) => rotates = true,
            Event::Complete(token::SYNC_MANIFEST) => rotates = false,
            Event::Submit(token::TRIM_DICTIONARY | token::TRIM_WATERMARK) => trims = true,
            Event::Complete(token::TRIM_SYNC_MANIFEST) => trims = false,
            _ => {}
        }
        count += u64::from(rotates && trims);
    }
    count
}
