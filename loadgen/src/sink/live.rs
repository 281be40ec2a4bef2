//! What can change while a sink runs: the script, the policy of upgrades, how durable
//! acknowledgements come, and whether the sink listens.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use forebay_wire::upgrade::UpgradePolicy;

use super::SinkConfig;
use super::schema::Schema;
use super::script::{Action, DurableManners, Rule, Script};
use super::totals::Counters;

/// A script that is in force.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) rules: Vec<Rule>,
    /// Since when; times of [`super::When::At`] count from here.
    pub(super) since: Instant,
    /// Tells scripts apart.
    pub(super) generation: u64,
    left: Vec<AtomicU64>,
}

impl Running {
    fn new(script: Script, generation: u64) -> Arc<Self> {
        let left = script.rules.iter();
        let left = left.map(|rule| AtomicU64::new(rule.times.unwrap_or(u64::MAX)));
        Arc::new(Self {
            left: left.collect(),
            rules: script.rules,
            since: Instant::now(),
            generation,
        })
    }

    /// Takes one of the times that rule `at` may act; false when none is left.
    pub(super) fn fire(&self, at: usize) -> bool {
        let take = |left: u64| match left {
            u64::MAX => Some(left),
            left => left.checked_sub(1),
        };
        let left = self.left.get(at);
        left.is_some_and(|left| left.fetch_update(Relaxed, Relaxed, take).is_ok())
    }
}

#[derive(Debug)]
pub(super) struct Live {
    pub(super) started: Instant,
    pub(super) addr: OnceLock<SocketAddr>,
    /// Used if the sink is typed.
    pub(super) schema: Schema,
    script: Mutex<Arc<Running>>,
    policy: Mutex<UpgradePolicy>,
    durable: Mutex<DurableManners>,
    /// Names of tables that were made anew, in order.
    recreated: Mutex<Vec<Arc<str>>>,
    refuse_until: Mutex<Instant>,
    stop_listening: AtomicBool,
}

impl Live {
    pub(super) fn new(config: &SinkConfig) -> Self {
        let started = Instant::now();
        Self {
            started,
            addr: OnceLock::new(),
            schema: Schema::default(),
            script: Mutex::new(Running::new(config.script.clone().unwrap_or_default(), 0)),
            policy: Mutex::new(config.upgrade.clone()),
            durable: Mutex::default(),
            recreated: Mutex::default(),
            refuse_until: Mutex::new(started + config.refuse_for),
            stop_listening: AtomicBool::new(false),
        }
    }

    pub(super) fn script(&self) -> Arc<Running> {
        Arc::clone(&lock(&self.script))
    }

    pub(super) fn set_script(&self, script: Script) {
        let mut running = lock(&self.script);
        *running = Running::new(script, running.generation + 1);
    }

    pub(super) fn policy(&self) -> UpgradePolicy {
        lock(&self.policy).clone()
    }

    /// Whether the role takes no writes.
    pub(super) fn refuses_writes(&self) -> bool {
        lock(&self.policy).refusing_role().is_some()
    }

    pub(super) fn durable(&self) -> DurableManners {
        *lock(&self.durable)
    }

    /// Tables that were made anew since the first `seen` of them.
    pub(super) fn recreated_since(&self, seen: usize) -> Vec<Arc<str>> {
        lock(&self.recreated)[seen..].to_vec()
    }

    /// Does an action that is about the sink; others do nothing here.
    pub(super) fn perform(&self, action: &Action, counters: &Counters) {
        match action {
            Action::Durable(manners) => *lock(&self.durable) = *manners,
            Action::RecreateTable(name) => {
                let table = counters.table(name);
                table.restart();
                self.schema.forget(name);
                lock(&self.recreated).push(Arc::clone(&table.name));
            }
            Action::Role(role) => lock(&self.policy).role.clone_from(role),
            Action::Authorization(value) => lock(&self.policy).authorization.clone_from(value),
            Action::StopListening(time) => self.stop_listening(*time),
            _ => {}
        }
    }

    fn stop_listening(&self, time: Duration) {
        *lock(&self.refuse_until) = Instant::now() + time;
        self.stop_listening.store(true, SeqCst);
        if let Some(addr) = self.addr.get() {
            // Wakes the acceptor; if it is not listening, it looks at the time by itself.
            drop(TcpStream::connect_timeout(addr, Duration::from_secs(1)));
        }
    }

    /// Whether the listener has to go; asked at each accept.
    pub(super) fn take_stop(&self) -> bool {
        self.stop_listening.swap(false, SeqCst)
    }

    pub(super) fn is_refusing(&self) -> bool {
        Instant::now() < *lock(&self.refuse_until)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
