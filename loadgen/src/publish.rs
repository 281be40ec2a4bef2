//! Publishing with patience, and never by accident.

use std::time::Duration;

use forebay::{Error, Producer};

use crate::signals::StopFlag;

/// Pause after a refusal, for connect strings whose `sf_append_deadline_millis` is 0.
const PAUSE: Duration = Duration::from_millis(1);

/// A producer that sends what it was told to publish and nothing else.
///
/// Dropping a [`Producer`] publishes the rows it still holds. Here those are a batch that was
/// given up, half of one, or a whole one that the next process will send again under its number:
/// they are forgotten instead.
#[derive(Debug)]
pub struct WholeBatches(Producer);

impl WholeBatches {
    /// Takes over a producer without rows.
    pub fn new(producer: Producer) -> Self {
        Self(producer)
    }

    /// The producer.
    pub fn get(&mut self) -> &mut Producer {
        &mut self.0
    }

    /// Calls `send`, which publishes or flushes, until the engine takes the batch.
    ///
    /// A refusal for lack of room is told once on stderr and tried again for as long as it takes;
    /// the rows stay with the producer meanwhile. `None` when a stop was asked for first.
    ///
    /// # Errors
    /// Every other error of the engine.
    pub fn patiently<T>(
        &mut self,
        stop: &StopFlag,
        mut send: impl FnMut(&mut Producer) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let mut told = false;
        loop {
            match send(self.get()) {
                Ok(taken) => return Ok(Some(taken)),
                Err(error @ Error::Backpressure { .. }) => {
                    if stop.is_set() {
                        return Ok(None);
                    }
                    if !told {
                        eprintln!("forebay-loadgen: {error}. Trying on until there is room");
                        told = true;
                    }
                    std::thread::sleep(PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for WholeBatches {
    fn drop(&mut self) {
        self.0.clear();
    }
}
