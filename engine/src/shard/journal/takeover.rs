//! From an opened or renewed slot, or from nothing, to a journal that takes frames.

use super::segment::Segment;
use super::{Files, Journal, map_error};
use crate::error::Error;
use crate::fsn::Fsn;
use crate::io::SpareFile;
use crate::slot::OpenedSlot;
use crate::steward::Incarnation;

impl Journal {
    /// Goes on with the slot's files, segments and dictionary. With an error, want of memory for
    /// the active segment, everything else is taken over.
    pub(super) fn take_over(
        &mut self,
        slot: OpenedSlot,
        incarnation: Incarnation,
        active_tail: &[u8],
    ) -> Result<(), Error> {
        self.files = Some(Files {
            dir: slot.dir,
            incarnation,
            manifest: slot.manifest,
            watermark: slot.watermark,
            dictionary: slot.dictionary_file,
            dictionary_bytes: slot.dictionary_bytes,
            dictionary_synced: slot.dictionary_bytes,
            dictionary_due: slot.dictionary_bytes,
        });
        self.dictionary = slot.dictionary;
        self.next_generation = slot.next_generation;
        for opened in slot.segments {
            self.allocated += opened.bytes;
            self.chain.push_back(Segment::opened(opened));
        }
        for spare in slot.spares {
            let Some(file) = spare.file else { continue };
            self.allocated += spare.bytes;
            self.spares.push_back(SpareFile {
                name: spare.name,
                generation: spare.generation,
                file,
                bytes: spare.bytes,
                created_micros: spare.created_micros,
            });
        }
        self.published = slot.next;
        self.written = slot.next;
        self.stable = slot.next;
        self.acked = slot.acked;
        let active = self
            .chain
            .back_mut()
            .expect("an opened slot has an active segment");
        let region = self.memory.take(active.bytes).map_err(map_error)?;
        active.resume(region, active_tail);
        Ok(())
    }

    pub(super) fn start_in_memory(&mut self) -> Result<(), Error> {
        let region = self
            .memory
            .take(self.options.segment_bytes)
            .map_err(map_error)?;
        self.chain.push_back(Segment::in_memory(
            Fsn(0),
            self.options.segment_bytes,
            region,
        ));
        self.allocated = self.options.segment_bytes;
        Ok(())
    }
}
