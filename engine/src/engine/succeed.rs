//! Starting after another number of shards: what it left, who goes first, and who delivers it
//! (decision 0012).

use std::sync::Arc;

use super::Engine;
use super::doorway::Opened;
use super::family::Family;
use crate::config::{Adopt, Config};
use crate::error::Error;
use crate::fsn::Fsn;
use crate::io::sys::RealFs;
use crate::orphan::{self, Stage, Succession, Successor};
use crate::router::gate::lock;

/// What an earlier number of shards left, and the names of its slots.
pub(super) type Plans = (Vec<Stage>, Vec<String>);

/// Notes in the opened slots for how many shards they are now, and fences what may not be sent
/// before something else is delivered.
pub(super) fn plan_succession(
    config: &Config,
    names: &[String],
    opened: &[Opened],
) -> Result<Plans, Error> {
    let Some(sf_dir) = &config.sf_dir else {
        return Ok(Plans::default());
    };
    let mut family = Family::look(&RealFs, sf_dir, &config.sender_id, names.to_vec())?;
    for (shard, opened) in (0..).zip(opened) {
        family.opened(&RealFs, shard, opened.frames)?;
    }
    let strangers = family.strangers();
    let mut filled = Vec::new();
    // All slots are looked at for that, which mostly nobody needs.
    if !strangers.is_empty() {
        let found = orphan::scan(&RealFs, sf_dir, names);
        let found = found.map_err(|source| Error::disk("list", sf_dir, 0, source))?;
        let names = found.into_iter().map(|orphan| orphan.name);
        filled.extend(names.filter(|name| strangers.contains(name)));
    }
    let mut stages = family.stages(&filled);
    match config.shards.adopt {
        Adopt::Before if !stages.is_empty() => {
            for opened in opened {
                opened.door.gate.set_fence(Fsn(0));
            }
        }
        Adopt::Before => {}
        // One after the other all the same, but nobody waits for it.
        Adopt::Background => {
            for stage in &mut stages {
                stage.own.clear();
            }
            stages.retain(|stage| !stage.left.is_empty());
        }
    }
    Ok((stages, strangers))
}

impl Engine {
    /// Delivers what an earlier number of shards left.
    pub(super) fn succeed(&self, stages: Vec<Stage>) -> Result<(), Error> {
        let Some(sf_dir) = self.config.sf_dir.as_ref().filter(|_| !stages.is_empty()) else {
            return Ok(());
        };
        let successor = Successor::spawn(Succession {
            config: self.config.clone(),
            sf_dir: sf_dir.clone(),
            hall: Arc::clone(&self.hall),
            gates: self
                .doors
                .iter()
                .map(|door| Arc::clone(&door.gate))
                .collect(),
            stages,
        })?;
        if let Some(running) = lock(&self.running).as_mut() {
            running.successor = Some(successor);
        }
        Ok(())
    }
}
