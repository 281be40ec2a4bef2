//! An engine with handlers: what is not a key of the connect string.

use crate::config::Config;
use crate::engine::{Engine, Outfit};
use crate::error::Error;
use crate::observe::{ConnectionEvent, DrainerEvent, Handlers, Progress, SenderError};
use crate::slot::RecoveryProgress;

/// Sets up an [`Engine`] with handlers for its events.
///
/// Handlers run on one thread of their own, `forebay-ntf`, one call at a time and in the order of
/// the events. They may take their time: meanwhile the oldest waiting events are dropped and
/// counted ([`Stats::errors_dropped`](crate::Stats::errors_dropped)). A handler replaces the log
/// lines of its events; when it panics, its event is logged. `close` waits for a handler at most
/// one second.
///
/// ```no_run
/// use forebay::{Engine, Policy};
///
/// # fn main() -> Result<(), forebay::Error> {
/// let engine = Engine::builder("ws::addr=localhost:9000;initial_connect_retry=async;")
///     .on_error(|error| {
///         if error.policy == Policy::Terminal {
///             eprintln!("page somebody: {}", error.message);
///         }
///     })
///     .on_progress(|progress| println!("acked below {}", progress.acked))
///     .connect()?;
/// # engine.close() }
/// ```
#[derive(Debug)]
#[must_use = "nothing happens before connect()"]
pub struct EngineBuilder {
    connect_string: String,
    handlers: Handlers,
    recovery: RecoveryProgress,
}

impl EngineBuilder {
    pub(crate) fn new(connect_string: &str) -> Self {
        Self {
            connect_string: connect_string.to_owned(),
            handlers: Handlers::default(),
            recovery: RecoveryProgress::new(),
        }
    }

    /// Called with every error of the delivery or the journal, instead of a log line. The terminal
    /// one comes once, when the engine refuses rows already.
    pub fn on_error(mut self, handler: impl FnMut(&SenderError) + Send + 'static) -> Self {
        self.handlers.error = Some(Box::new(handler));
        self
    }

    /// Called with every change of the connection, instead of a log line.
    pub fn on_connection(mut self, handler: impl FnMut(&ConnectionEvent) + Send + 'static) -> Self {
        self.handlers.connection = Some(Box::new(handler));
        self
    }

    /// Called when frames were published or acked, about every 50 ms at most.
    pub fn on_progress(mut self, handler: impl FnMut(&Progress) + Send + 'static) -> Self {
        self.handlers.progress = Some(Box::new(handler));
        self
    }

    /// Lets another thread watch how far [`connect`](Self::connect) has come with the slot:
    /// recovering a large backlog takes as long as reading it from the disk.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), forebay::Error> {
    /// use std::time::Duration;
    /// use forebay::{Engine, RecoveryProgress};
    ///
    /// let progress = RecoveryProgress::new();
    /// let builder = Engine::builder("ws::addr=localhost:9000;sf_dir=/var/lib/ticks;")
    ///     .watch_recovery(&progress);
    /// let connect = std::thread::spawn(move || builder.connect());
    /// while !connect.is_finished() {
    ///     println!("{} of {} bytes", progress.bytes_scanned(), progress.bytes_total());
    ///     std::thread::sleep(Duration::from_secs(1));
    /// }
    /// let engine = connect.join().expect("no panic")?;
    /// # drop(engine); Ok(()) }
    /// ```
    pub fn watch_recovery(mut self, progress: &RecoveryProgress) -> Self {
        self.recovery = progress.clone();
        self
    }

    /// Called with every step of the background drainers (`drain_orphans`), instead of a log line.
    /// They tell no connection events.
    pub fn on_drainer(mut self, handler: impl FnMut(&DrainerEvent) + Send + 'static) -> Self {
        self.handlers.drainer = Some(Box::new(handler));
        self
    }

    /// As [`Engine::connect`].
    pub fn connect(self) -> Result<Engine, Error> {
        let outfit = Outfit {
            handlers: self.handlers,
            progress: self.recovery,
            ..Outfit::default()
        };
        Engine::start(Config::parse(&self.connect_string)?, outfit)
    }
}
