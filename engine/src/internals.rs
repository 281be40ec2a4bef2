//! Inner parts for this workspace's tests, benches and tools. No promise of stability.

pub use crate::delivery::view as delivery;
#[cfg(feature = "uring")]
pub use crate::io::instant::InstantLoop;
pub use crate::io::sys::fork;
#[cfg(feature = "uring")]
pub use crate::orphan::tool as orphans;

/// The intake ring.
pub mod ring {
    use std::io;
    use std::path::Path;

    pub use crate::router::ring::{Reader, Writer};

    use crate::io::Fs;
    use crate::io::OpenMode;
    use crate::io::sys::RealFs;
    use crate::router::region::{FRONT_BYTES, Region};
    use crate::router::ring::over;

    /// A ring of `capacity` bytes in memory of this process.
    pub fn ring(capacity: usize) -> io::Result<(Writer, Reader)> {
        Region::private(capacity).map(over)
    }

    /// A ring of `capacity` bytes in the new file `path`: its entries are checksummed and stamped.
    pub fn file_ring(path: &Path, capacity: usize) -> io::Result<(Writer, Reader)> {
        let file = RealFs.open(path, OpenMode::CreateNew)?;
        RealFs.write_at(&file, &vec![0; FRONT_BYTES + capacity], 0)?;
        let memory = RealFs.map(&file, FRONT_BYTES + capacity)?;
        memory.populate();
        Ok(over(Region::shared(memory)))
    }
}

/// The doorbell of a shard, and the order that it rests on.
pub mod door {
    use std::io;
    use std::time::Duration;

    pub use crate::io::sys::set_halves;

    use crate::io::sys::EventFd;
    use crate::router::doorbell::Doorbell;

    /// A doorbell with the bell that shards sleep on.
    #[derive(Debug)]
    pub struct Door(Doorbell<EventFd>);

    impl Door {
        /// One whose shard is awake.
        pub fn new() -> io::Result<Self> {
            EventFd::new().map(|bell| Self(Doorbell::new(bell)))
        }

        /// Tells the shard that there is work.
        #[inline]
        pub fn knock(&self) {
            self.0.knock();
        }

        /// Announces that the shard is about to sleep.
        pub fn park(&self) {
            self.0.park();
        }

        /// Sleeps until a ring, for `limit` at most.
        pub fn sleep(&self, limit: Duration) {
            self.0.bell().wait(limit);
        }

        /// The shard is running again.
        pub fn unpark(&self) {
            self.0.unpark();
        }
    }
}
#[cfg(feature = "uring")]
pub use crate::engine::settle;
pub use crate::intake::view as intake;
pub use crate::slot::view as slot;

/// The real shard on a simulated disk, network and clock.
#[cfg(feature = "uring")]
pub mod sim {
    pub use crate::io::sim::{
        CrashPoint, Phase, Summary, Trace, acked_ahead_of_the_disk, run_faults, run_kills,
        run_panics, run_power_cuts, run_power_cuts_in, run_with_wall_steps, watermark_file_ahead,
    };
}

/// Writing and reading single records of a slot's files, for the fuzz targets.
pub mod codec {
    use crate::slot::view::Record;
    use crate::slot::{chunk, record};

    const fn kind(manifest: bool) -> record::Kind {
        if manifest {
            record::Kind::Manifest
        } else {
            record::Kind::Watermark
        }
    }

    /// The 64 bytes of a record of a manifest or else a watermark file.
    pub fn record_bytes(fields: Record, manifest: bool) -> [u8; record::RECORD_LEN] {
        let fields = record::Record {
            generation: fields.generation,
            first: fields.first,
            second: fields.second,
        };
        fields.to_bytes(kind(manifest))
    }

    /// The record that counts in a whole file, of the present form or an older one.
    pub fn current_record(file: &[u8], manifest: bool) -> Option<Record> {
        let kind = kind(manifest);
        let found = if file.len() as u64 == record::DUAL_BYTES {
            record::current(file, kind)
        } else {
            record::older(file, kind)
        };
        found.map(|record| Record {
            generation: record.generation,
            first: record.first,
            second: record.second,
        })
    }

    /// The file header of a dictionary, then one chunk of `count` entries.
    pub fn dictionary_bytes(count: u32, entries: &[u8]) -> Vec<u8> {
        let mut out = chunk::HEADER.to_vec();
        if count > 0 {
            chunk::push(count, entries, &mut out);
        }
        out
    }
}

/// Structures of the shard's hot path, one by one, for benches.
pub mod hot {
    use crate::delivery::Window;
    use crate::fsn::Fsn;
    use crate::slot::{Dictionary, NEW_ENTRIES_MAX};

    /// The CRC of a frame with this payload.
    ///
    /// # Panics
    /// With 4 GiB and more.
    pub fn frame_crc(payload: &[u8]) -> u32 {
        let bytes = u32::try_from(payload.len()).expect("below 4 GiB");
        crate::slot::frame::crc(bytes, payload)
    }

    /// The symbols of a slot.
    #[derive(Debug, Default)]
    pub struct Symbols(Dictionary);

    impl Symbols {
        /// The id of a symbol, given now if it is new; `None` when there are no more.
        #[inline]
        pub fn id(&mut self, symbol: &str) -> Option<u32> {
            self.0
                .intern_within(symbol, NEW_ENTRIES_MAX)
                .ok()
                .map(|(id, _)| id)
        }
    }

    /// Message numbers of a connection.
    #[derive(Debug)]
    pub struct Sent(Window);

    impl Sent {
        /// A connection that begins with frame `first`, after `catch_up` messages without one.
        pub fn new(first: u64, catch_up: usize) -> Self {
            let mut window = Window::new(Fsn(first));
            for _ in 0..catch_up {
                window.sent_catch_up();
            }
            Self(window)
        }

        /// A frame was sent.
        #[inline]
        pub fn frame(&mut self) {
            self.0.sent_frame();
        }

        /// The first frame that an OK for message `seq` leaves open.
        #[inline]
        pub fn confirmed(&self, seq: i64) -> Option<u64> {
            self.0.confirmed(seq).map(|fsn| fsn.0)
        }
    }
}
