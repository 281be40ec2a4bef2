//! Publishing to several shards: all of it or nothing.
//!
//! Every part is sized and written into its ring first; what is not committed leaves no trace. Only
//! when all have room, each ring appears by one store. A desk whose rows the whole ring cannot hold
//! goes part by part before the others; then a refusal says how many rows were accepted.

use std::time::{Duration, Instant};

use super::publish::{Entry, Refused};
use super::{Producer, Receipt};
use crate::error::Error;

/// What became of an attempt to publish what all desks hold.
enum Attempt {
    Accepted,
    /// The present desk's rows can never be in its ring together.
    Beyond,
    /// The present desk's ring lacks room.
    Full(u64),
    Never(Error),
}

impl Producer {
    /// Publishes what the desks hold, waiting up to `limit` for room.
    #[cold]
    pub(super) fn hand_over_everywhere(&mut self, limit: Duration) -> Result<(), Error> {
        let home = self.desk.id;
        let start = Instant::now();
        let mut rows_accepted = 0;
        let outcome = loop {
            let left = limit.saturating_sub(start.elapsed());
            let refused = match self.accept_everywhere() {
                Attempt::Accepted => break Ok(()),
                Attempt::Full(bytes) => self.wait_for_room(bytes, left, start).err(),
                Attempt::Beyond => {
                    let rows = self.desk.rows;
                    let outcome = self.publish_buffer_in_parts(left);
                    rows_accepted += rows - self.desk.rows;
                    outcome.err()
                }
                Attempt::Never(error) => Some(error),
            };
            if let Some(error) = refused {
                break Err(error.with_rows_accepted(rows_accepted));
            }
        };
        self.sit_where(|desk| desk.id == home);
        outcome
    }

    fn accept_everywhere(&mut self) -> Attempt {
        let written = self.at_every_desk(|this| {
            if this.desk.rows == 0 {
                return Ok(());
            }
            match this.check_open() {
                Ok(()) => this.write_desk(),
                Err(Refused::Full(bytes)) => Err(Attempt::Full(bytes)),
                Err(Refused::Never(error)) => Err(Attempt::Never(error)),
            }
        });
        if let Err(attempt) = written {
            return attempt;
        }
        let shown = self.at_every_desk(|this| {
            if this.desk.rows > 0 {
                if this.desk.parts.is_empty() {
                    this.show_entry();
                } else {
                    this.show_parts();
                }
            }
            Ok(())
        });
        // As for one shard: what a close overtook stays, and may be delivered besides.
        let open = shown.and_then(|()| {
            self.at_every_desk(|this| match this.not_overtaken() {
                Err(Refused::Never(error)) if this.desk.is_touched => Err(Attempt::Never(error)),
                _ => Ok(()),
            })
        });
        let emptied = open.and_then(|()| {
            self.at_every_desk(|this| {
                this.start_batch();
                Ok(())
            })
        });
        match emptied {
            Ok(()) => {
                self.triggers.start_batch();
                Attempt::Accepted
            }
            Err(attempt) => attempt,
        }
    }

    /// Writes the present desk's rows; its `parts` tell how many entries that takes.
    fn write_desk(&mut self) -> Result<(), Attempt> {
        self.desk.parts.clear();
        match self.write_entry() {
            Entry::Written => Ok(()),
            Entry::Full(bytes) => Err(Attempt::Full(bytes)),
            Entry::TooLarge => match self.write_parts() {
                Ok(true) => Ok(()),
                Ok(false) => Err(Attempt::Beyond),
                Err(Refused::Full(bytes)) => Err(Attempt::Full(bytes)),
                Err(Refused::Never(error)) => Err(Attempt::Never(error)),
            },
        }
    }

    /// From here on is published what a receipt is about.
    #[inline]
    pub(super) fn begin_receipt(&mut self) {
        if !self.others.is_empty() {
            self.desks_mut().for_each(|desk| desk.is_touched = false);
        }
    }

    /// The receipt of what was published since; of everything before if that is nothing.
    pub(super) fn receipt(&self) -> Receipt {
        let (stage, has_files) = (self.options.flush_stage, self.options.has_files);
        if self.others.is_empty() {
            let desk = &self.desk;
            return Receipt::new(desk.way(), desk.published, stage, has_files);
        }
        let none = !self.desks().any(|desk| desk.is_touched);
        let mut concerned = self
            .desks()
            .filter(|d| d.is_touched || (none && d.published > 0));
        let first = concerned.next().unwrap_or(&self.desk);
        let receipt = Receipt::new(first.way(), first.published, stage, has_files);
        receipt.and(concerned.map(|desk| (desk.way(), desk.published)))
    }
}
