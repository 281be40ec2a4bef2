//! `forebay drain`: delivers what is in a directory of slots, without the programs that filled it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use clap::Args;
use forebay::DrainerEvent;
use forebay::internals::orphans::{self, Drain};
use indicatif::ProgressBar;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::error::Failure;
use crate::{Outcome, paper};

/// Exit status after a second signal: 128 + SIGINT, as shells report it.
const EXIT_SECOND_SIGNAL: i32 = 130;
/// Time between two looks at signals and counters.
const LOOK: Duration = Duration::from_millis(100);

/// Delivers the slots of a directory that nobody holds. Exit status: 0 drained, 3 slots are left
/// (held, marked, no server, interrupted), 4 a slot was given up: refused by the server or damaged.
#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    /// Directory of slots (`sf_dir`).
    #[arg(value_name = "SF_DIR")]
    sf_dir: PathBuf,
    /// How to reach the server: a connect string, `sf_dir` and `sender_id` in it are not used.
    #[arg(long, value_name = "CONNECT_STRING")]
    conf: String,
    /// Leave a slot when no server can be reached, instead of waiting for one.
    #[arg(long)]
    once: bool,
}

impl DrainArgs {
    pub(crate) fn execute(self, out: &mut impl Write) -> Result<Outcome, Failure> {
        let list = |source| Failure::read("list", &self.sf_dir, source);
        orphans::left(&self.sf_dir).map_err(list)?;
        let asked = stop_signal()
            .map_err(|source| Failure::read("watch signals for", &self.sf_dir, source))?;
        let (events, told) = channel();
        let tell = move |event| drop(events.send(event));
        let drain = Drain::start(&self.conf, &self.sf_dir, self.once, tell)?;
        let mut account = Account::new();
        let mut stopping = false;
        loop {
            match told.recv_timeout(LOOK) {
                Ok(event) => account.take(event, out)?,
                Err(RecvTimeoutError::Timeout) => account.show(&drain),
                // Everything was told and the drain has ended.
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if !stopping && asked.load(Ordering::Relaxed) {
                drain.stop(Duration::ZERO);
                stopping = true;
            }
        }
        drain.join();
        account.bar.finish_and_clear();
        let left = orphans::left(&self.sf_dir).map_err(list)?;
        for slot in left
            .iter()
            .filter(|left| !account.said.contains(&left.slot))
        {
            let why = match (slot.failed, slot.held, &slot.behind) {
                (true, ..) => "left: marked as failed, see forebay clear-failed".to_owned(),
                (_, true, _) => "left: somebody holds it".to_owned(),
                (.., Some(other)) => format!("left: {other} of the same sender comes first"),
                _ => "left".to_owned(),
            };
            say(&slot.slot, &why, out)?;
        }
        Ok(if account.refused {
            Outcome::Refused
        } else if left.is_empty() {
            Outcome::Sound
        } else {
            Outcome::Left
        })
    }
}

/// What was told so far.
struct Account {
    bar: ProgressBar,
    /// Frames confirmed and still to deliver, by slot at work.
    at_work: BTreeMap<String, (u64, u64)>,
    /// Frames confirmed of slots that are done.
    done: u64,
    /// Slots whose end was printed.
    said: BTreeSet<String>,
    refused: bool,
}

impl Account {
    fn new() -> Self {
        Self {
            // On stderr, and silent where that is no terminal.
            bar: ProgressBar::new_spinner(),
            at_work: BTreeMap::new(),
            done: 0,
            said: BTreeSet::new(),
            refused: false,
        }
    }

    fn take(&mut self, event: DrainerEvent, out: &mut impl Write) -> Result<(), Failure> {
        let slot = event.slot().to_owned();
        let text = match event {
            DrainerEvent::Started { frames, bytes, .. } => {
                self.at_work.insert(slot.clone(), (0, frames));
                format!("started: {frames} frames, {}", paper::bytes(bytes))
            }
            DrainerEvent::Progress { acked, left, .. } => {
                self.at_work.insert(slot, (acked, left));
                return Ok(());
            }
            DrainerEvent::Drained { acked, .. } => {
                self.done += acked;
                format!("drained: {acked} frames confirmed")
            }
            DrainerEvent::EraDrained { acked, .. } => {
                self.done += acked;
                self.at_work.remove(&slot);
                let text = format!("drained up to another number of shards: {acked} confirmed");
                return self.bar.suspend(|| say(&slot, &text, out));
            }
            DrainerEvent::Failed {
                reason, unmarked, ..
            } => {
                self.refused = true;
                match unmarked {
                    None => format!("failed: {reason}"),
                    Some(error) => format!("failed: {reason} (no marker: {error})"),
                }
            }
            DrainerEvent::Postponed { cause, .. } => format!("left: {cause}"),
            DrainerEvent::DurableMismatch { cause, .. } => format!("left for now: {cause}"),
            _ => return Ok(()),
        };
        if !text.starts_with("started") {
            self.at_work.remove(&slot);
            self.said.insert(slot.clone());
        }
        self.bar.suspend(|| say(&slot, &text, out))
    }

    fn show(&self, drain: &Drain) {
        let stats = drain.stats();
        let acked: u64 = self.at_work.values().map(|frames| frames.0).sum();
        let left: u64 = self.at_work.values().map(|frames| frames.1).sum();
        self.bar.set_message(format!(
            "{} of {} slots at work, {} frames confirmed, {left} to go there",
            stats.drainers_active,
            stats.orphan_slots,
            self.done + acked,
        ));
        self.bar.tick();
    }
}

/// A flag that SIGTERM and SIGINT set; a second one ends the process at once.
fn stop_signal() -> io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        // Registered first, so it runs first: it fires only if an earlier signal set the flag.
        signal_hook::flag::register_conditional_shutdown(
            signal,
            EXIT_SECOND_SIGNAL,
            Arc::clone(&flag),
        )?;
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}

fn say(slot: &str, text: &str, out: &mut impl Write) -> Result<(), Failure> {
    writeln!(out, "{}: {}", paper::tame(slot), paper::tame(text))
        .and_then(|()| out.flush())
        .map_err(Failure::Output)
}
