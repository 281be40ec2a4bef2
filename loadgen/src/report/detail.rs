//! What was run, and what it used besides CPU time.

use forebay::Stats;
use serde_json::{Value, json};

use super::{grouped, round};
use crate::allocations::Tally;
use crate::conf::Promise;
use crate::series::Sample;
use crate::session::Session;
use crate::usage::Usage;

/// The part of a report that says what the figures are of.
#[derive(Debug, Clone, Default)]
pub struct Detail {
    /// Call, stage, durability and load in one line.
    pub title: String,
    /// What the calls promise; not known without a session.
    pub promise: Option<Promise>,
    /// Settings by name.
    pub configuration: Vec<(String, String)>,
    /// The engine's counters when the clock started: what the warm-up did is not counted.
    pub before: Stats,
    /// Memory, disk and switches.
    pub usage: Option<Usage>,
    /// Requests for memory in steady state, where they are counted.
    pub allocations: Option<Tally>,
    /// Percent of a core that the shard used while nothing was sent.
    pub idle_cpu_percent: Option<f64>,
    /// The run over time.
    pub samples: Vec<Sample>,
}

impl Detail {
    /// What is known of any session.
    pub fn of(session: &Session) -> Self {
        let promise = session.promise();
        let connect_string = session.connect_string();
        Self {
            title: format!(
                "publish() to {}, sf_durability={}",
                promise.publish_stage, promise.durability
            ),
            promise: Some(promise),
            configuration: vec![("connect string".to_owned(), connect_string)],
            ..Self::default()
        }
    }

    /// What follows the names `publish` and `flush`: the stages at which they return.
    pub(super) fn stages(&self) -> (String, String) {
        let Some(promise) = &self.promise else {
            return (String::new(), String::new());
        };
        let to = |stage| format!(" to {stage}");
        (to(promise.publish_stage), to(promise.flush_stage))
    }

    /// Lines of the table.
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        if let Some(usage) = &self.usage {
            lines.push((
                "peak memory",
                format!("{} KiB", grouped(usage.peak_rss_kib)),
            ));
            lines.push((
                "written to disk",
                format!("{} bytes", grouped(usage.disk_write_bytes)),
            ));
            let switches = usage.switches;
            lines.push(("context switches, voluntary", grouped(switches.voluntary)));
            lines.push((
                "context switches, involuntary",
                grouped(switches.involuntary),
            ));
        }
        if let Some(Tally {
            producer,
            shard,
            frames,
        }) = self.allocations
        {
            let text = |count: u64| format!("{} in {} frames", grouped(count), grouped(frames));
            lines.push(("allocations, producers", text(producer)));
            lines.push(("allocations, shard", text(shard)));
        }
        if let Some(percent) = self.idle_cpu_percent {
            lines.push(("CPU of the idle shard", format!("{percent:.1} % of a core")));
        }
        lines
    }

    /// Keys of the report's JSON; docs/loadgen.md has their meaning.
    pub(super) fn json(&self) -> Value {
        let promise = self.promise.as_ref();
        let usage = self.usage.as_ref();
        let configuration = self.configuration.iter();
        let configuration: serde_json::Map<String, Value> = configuration
            .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
            .collect();
        json!({
            "durability": promise.map(|promise| promise.durability.as_str()),
            "publish_stage": promise.map(|promise| promise.publish_stage),
            "flush_stage": promise.map(|promise| promise.flush_stage),
            "configuration": configuration,
            "peak_memory_kib": usage.map(|usage| usage.peak_rss_kib),
            "disk_write_bytes": usage.map(|usage| usage.disk_write_bytes),
            "switches_voluntary": usage.map(|usage| usage.switches.voluntary),
            "switches_involuntary": usage.map(|usage| usage.switches.involuntary),
            "allocations": self.allocations.map(|tally| json!({
                "producer": tally.producer,
                "shard": tally.shard,
                "frames": tally.frames,
            })),
            "idle_cpu_percent": self.idle_cpu_percent.map(round),
        })
    }
}
