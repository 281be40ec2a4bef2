//! Frames that a server refused for one of their tables: which table it was is found by sending
//! them one by one (`on_schema_error=dead_letter`; design.md section 7).
//!
//! A table is due until it is acknowledged or refused; a refused one is kept as a file before
//! anything else of the frame is sent. When nothing is due the frame is sent as a message without
//! tables, so that its acknowledgement comes in its place among the others. A crash forgets all of
//! this: the frame is sent whole again, refused again and taken apart again.

use crate::fsn::Fsn;

/// What became of a table of a refused frame.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fate {
    /// To be sent.
    Due,
    /// An OK covered it.
    Okayed,
    /// Refused, with the server's text; to be kept.
    Refused(String),
    /// Refused, and safe in a file.
    Kept,
}

/// One refused frame.
#[derive(Debug)]
pub(crate) struct Split {
    frame: Fsn,
    /// The text of the refusal of the whole.
    reason: String,
    /// Empty until the frame is met again.
    tables: Vec<Fate>,
}

impl Split {
    /// The server refused the whole of `frame`.
    pub(crate) fn new(frame: Fsn, reason: String) -> Self {
        Self {
            frame,
            reason,
            tables: Vec::new(),
        }
    }

    /// Which frame it is.
    pub(crate) fn frame(&self) -> Fsn {
        self.frame
    }

    /// The frame is at hand and has so many tables. One alone is the culprit.
    pub(crate) fn prepare(&mut self, tables: usize) {
        if self.tables.is_empty() {
            self.tables = vec![Fate::Due; tables];
            if let [only] = &mut self.tables[..] {
                *only = Fate::Refused(std::mem::take(&mut self.reason));
            }
        }
    }

    /// The server refused a table of it.
    pub(crate) fn refuse(&mut self, table: usize, reason: String) {
        if let Some(fate) = self.tables.get_mut(table)
            && *fate == Fate::Due
        {
            *fate = Fate::Refused(reason);
        }
    }

    /// An OK covered a table of it, and no more is asked for.
    pub(crate) fn okay(&mut self, table: usize) {
        if let Some(fate) = self.tables.get_mut(table)
            && *fate == Fate::Due
        {
            *fate = Fate::Okayed;
        }
    }

    /// The next refused table that is not safe yet, and the server's text.
    pub(crate) fn to_keep(&self) -> Option<(usize, &str)> {
        let mut fates = self.tables.iter().enumerate();
        fates.find_map(|(table, fate)| match fate {
            Fate::Refused(reason) => Some((table, reason.as_str())),
            _ => None,
        })
    }

    /// A refused table is safe.
    pub(crate) fn kept(&mut self, table: usize) {
        self.tables[table] = Fate::Kept;
    }

    /// The tables to send, in order.
    pub(crate) fn due(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        let fates = self.tables.iter().enumerate();
        fates.filter_map(|(table, fate)| (*fate == Fate::Due).then_some(table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_culprit_is_kept_and_the_others_are_sent() {
        let mut split = Split::new(Fsn(4), "no".to_owned());
        split.prepare(3);
        assert_eq!(split.due().collect::<Vec<_>>(), [0, 1, 2]);
        split.okay(0);
        split.refuse(1, "column price".to_owned());
        assert_eq!(split.to_keep(), Some((1, "column price")));
        assert_eq!(split.due().collect::<Vec<_>>(), [2]);
        split.kept(1);
        split.okay(1);
        assert_eq!(split.to_keep(), None);
        split.prepare(3);
        assert_eq!(split.due().collect::<Vec<_>>(), [2], "still known");
    }

    #[test]
    fn a_table_alone_is_the_culprit() {
        let mut split = Split::new(Fsn(4), "no".to_owned());
        split.prepare(1);
        assert_eq!(split.to_keep(), Some((0, "no")));
        split.kept(0);
        assert_eq!(split.due().count(), 0);
    }
}
