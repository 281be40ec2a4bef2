//! Changing a running engine.

use super::Engine;
use crate::config::Changes;
use crate::error::Error;
use crate::router::gate::Gate;

impl Engine {
    /// Changes settings while producers publish, or wait for room. The keys and values are those of
    /// the connect string; these can be changed:
    ///
    /// | key | from when on |
    /// |---|---|
    /// | `sf_max_total_bytes` | at once, for each shard: a raised cap ends waits for room, a lower one holds when enough is acked |
    /// | `sf_append_deadline_millis` | for calls that begin afterwards |
    /// | `addr` | at once: a connection to a server that is not in the list any more is closed, and what it has not confirmed is sent to another. Drainers of orphaned slots keep the list they began with |
    ///
    /// Nothing is written down: the next [`connect`](Self::connect) has what its string says.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), forebay::Error> {
    /// # let engine = forebay::Engine::connect("ws::addr=localhost:9000;sf_dir=/var/lib/ticks;")?;
    /// // The server is away for longer than was planned for.
    /// engine.reconfigure("sf_max_total_bytes=50g;")?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Config`] with the key at fault, nothing is changed then; what ended the engine, if
    /// every shard has ended.
    pub fn reconfigure(&self, changes: &str) -> Result<(), Error> {
        self.home.check()?;
        let refusals: Vec<Error> = self.gates().filter_map(Gate::refusal).collect();
        if refusals.len() == self.doors.len()
            && let Some(error) = refusals.into_iter().next()
        {
            return Err(error);
        }
        let changes = Changes::parse(changes, &self.config)?;
        tracing::info!(?changes, "FB-C010 reconfigured");
        for gate in self.gates() {
            gate.reconfigure(changes.clone());
        }
        Ok(())
    }

    /// The present `sf_max_total_bytes`.
    pub(super) fn total_bytes(&self) -> u64 {
        let changed = self.gates().find_map(Gate::total_bytes);
        changed.unwrap_or(self.config.total_bytes)
    }
}
