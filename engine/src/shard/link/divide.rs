//! Refused frames taken apart (`on_schema_error=dead_letter`): what is refused goes into files by
//! the steward's hand, the rest is sent table by table.

use std::io;
use std::path::PathBuf;

use super::send::{Outgoing, Unsent};
use super::{Link, State};
use crate::config::Config;
use crate::delivery::{Conversation, letter};
use crate::fsn::Fsn;
use crate::io::{Request, Steward};
use crate::observe::{Category, Policy, SenderError};
use crate::slot::Dictionary;
use crate::steward::Rejected;

/// Where refused tables go.
#[derive(Debug)]
pub(super) struct Keeper {
    dir: PathBuf,
    limit: u64,
    sender_id: String,
    /// The table whose file is being written.
    in_flight: Option<InFlight>,
}

#[derive(Debug)]
struct InFlight {
    frame: Fsn,
    index: usize,
    table: String,
    rows: u64,
    server: String,
    reason: String,
}

impl Keeper {
    /// `None` unless refused rows are to be kept.
    pub(super) fn new(config: &Config) -> Option<Self> {
        Some(Self {
            dir: config.delivery.rejected_dir.clone()?,
            limit: config.delivery.rejected_max_bytes,
            sender_id: config.sender_id.clone(),
            in_flight: None,
        })
    }

    /// Lets what was refused of the frame at hand be kept. `true` once all of it is.
    pub(super) fn keep(
        &mut self,
        io: &mut impl Steward,
        talk: &mut Conversation,
        (frame, payload): (Fsn, &[u8]),
        dictionary: &Dictionary,
        server: &str,
    ) -> Result<bool, Unsent> {
        let Some(split) = talk.split_of(frame) else {
            return Ok(true);
        };
        if self.in_flight.is_some() {
            return Ok(false);
        }
        split.prepare(letter::tables(payload));
        let Some((index, reason)) = split.to_keep() else {
            return Ok(true);
        };
        let letter = letter::letter(payload, index, |id| dictionary.get(id))
            .map_err(|error| Unsent::Never(format!("frame {frame}: {error}")))?;
        let rejected = Rejected {
            letter,
            fsn: frame.0,
            index,
            sender_id: self.sender_id.clone(),
            server: server.to_owned(),
            reason: reason.to_owned(),
        };
        let in_flight = InFlight {
            frame,
            index,
            table: rejected.letter.table.clone(),
            rows: rejected.letter.rows,
            server: rejected.server.clone(),
            reason: rejected.reason.clone(),
        };
        let (dir, limit) = (self.dir.clone(), self.limit);
        let request = Request::Keep {
            dir,
            rejected: Box::new(rejected),
            limit,
        };
        // A full queue: next turn.
        if io.request(request).is_ok() {
            self.in_flight = Some(in_flight);
        }
        Ok(false)
    }
}

impl Outgoing {
    /// Puts what is due of a divided frame behind what waits, a message per table.
    pub(super) fn gather_parts(
        &mut self,
        talk: &mut Conversation,
        (random, now): (u64, u64),
        (frame, payload): (Fsn, &[u8]),
    ) -> Result<(), Unsent> {
        let Some(split) = talk.split_of(frame) else {
            return Ok(());
        };
        let due: Vec<_> = split.due().collect();
        if due.is_empty() {
            self.gather(random, &letter::nothing(self.registered));
            talk.sent_frame(now);
            return Ok(());
        }
        let last = due[due.len() - 1];
        let mut random = random;
        for table in &due {
            let part = letter::part(payload, *table, *table == due[0])
                .map_err(|error| Unsent::Never(format!("frame {frame}: {error}")))?;
            self.gather(random, &part);
            random = random.rotate_left(1);
            talk.sent_part(*table, *table == last, now);
        }
        Ok(())
    }
}

impl Link {
    /// The steward has written a file, or could not.
    pub(crate) fn kept(&mut self, io: &mut impl crate::io::Io, answer: io::Result<()>, now: u64) {
        let Some(keeper) = &mut self.keeper else {
            return;
        };
        let Some(kept) = keeper.in_flight.take() else {
            return;
        };
        if let Err(error) = answer {
            let reason = format!(
                "rows that the server refuses cannot be kept in {}: {error}; the frame stays in \
                 the slot",
                keeper.dir.display()
            );
            if !matches!(self.state, State::Stopped) {
                self.terminal(io, Category::SchemaMismatch, reason, now);
            }
            return;
        }
        if let Some(split) = self.talk.split_of(kept.frame) {
            split.kept(kept.index);
        }
        self.gate.counters.tables_dead_lettered.add(1);
        self.gate.counters.rows_dead_lettered.add(kept.rows);
        if kept.frame >= self.own_from {
            self.gate.hall.tables.dead_lettered(&kept.table, kept.rows);
        }
        let text = format!(
            "{} rows of table {:?} are kept in {}, refused: {}",
            kept.rows,
            kept.table,
            keeper.dir.display(),
            kept.reason
        );
        let mut error = SenderError::new(Category::SchemaMismatch, Policy::Abandoned, text);
        error.endpoint = kept.server;
        let error = error.of_frames(kept.frame, kept.frame.plus(1));
        self.gate.tell(error);
    }
}
