//! Turning a running sink's knobs, for tests: the same as actions of a script, at a moment of the
//! test's own.

use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::script::{Action, DurableManners, Script};
use super::{Records, Sink};

/// The `Authorization` value of Basic credentials, given as `user:password`.
pub fn basic_authorization(user_and_password: &str) -> String {
    format!("Basic {}", STANDARD.encode(user_and_password))
}

impl Sink {
    /// What was recorded so far; empty unless [`super::SinkConfig::record`] is set.
    pub fn records(&self) -> Records {
        let log = self.shared.log.as_ref();
        log.map(|log| log.look(Records::clone)).unwrap_or_default()
    }

    /// Waits until the records are as wanted; false when they are not within `patience`. The
    /// question is asked every few milliseconds, and connections wait meanwhile.
    pub fn wait_for(&self, patience: Duration, wanted: impl Fn(&Records) -> bool) -> bool {
        let start = Instant::now();
        loop {
            let log = self.shared.log.as_ref();
            if log.is_some_and(|log| log.look(&wanted)) {
                return true;
            }
            if start.elapsed() >= patience {
                return false;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Puts another script in force, for live connections as well. Counts of `times`, and times
    /// of `at`, begin anew. The sink must have been started with a script, be it an empty one.
    pub fn set_script(&self, script: Script) {
        self.shared.live.set_script(script);
    }

    /// Changes the node's role ([`Action::Role`]). Live connections of a sink that was started
    /// without a script do not notice.
    pub fn set_role(&self, role: Option<&str>) {
        self.perform(&Action::Role(role.map(str::to_owned)));
    }

    /// Changes the `Authorization` value that upgrades must have: `Basic ...` or `Bearer ...`.
    pub fn set_authorization(&self, value: Option<&str>) {
        self.perform(&Action::Authorization(value.map(str::to_owned)));
    }

    /// Changes how durable acknowledgements come.
    pub fn set_durable(&self, manners: DurableManners) {
        self.perform(&Action::Durable(manners));
    }

    /// Drops a table and makes it anew: its transactions start at 1 again.
    pub fn recreate_table(&self, name: &str) {
        self.perform(&Action::RecreateTable(name.to_owned()));
    }

    /// Stops listening for so long; connections that exist stay.
    pub fn stop_listening(&self, time: Duration) {
        self.perform(&Action::StopListening(time));
    }

    fn perform(&self, action: &Action) {
        self.shared.live.perform(action, &self.shared.counters);
    }
}
