//! SIGTERM and SIGINT as a flag: whoever produces looks at it between batches and stops.
//!
//! The handlers only store to an atomic. A second signal while the first is still being obeyed
//! ends the process at once, so that a hanging close can be cut short from the keyboard.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};

/// Exit status after a second signal: 128 + SIGINT, as shells report it.
const EXIT_SECOND_SIGNAL: i32 = 130;

/// Set once the process was asked to stop. Clones share the flag.
#[derive(Debug, Clone, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// A flag that no signal sets; [`StopFlag::set`] does.
    pub fn new() -> Self {
        Self::default()
    }

    /// A flag set by SIGTERM and SIGINT. Called once, at the start of a command.
    ///
    /// # Errors
    /// The kernel's refusal to install a handler.
    pub fn on_signals() -> io::Result<Self> {
        let flag = Self::new();
        for signal in [SIGTERM, SIGINT] {
            // Registered first, so it runs first: it fires only if an earlier signal set the flag.
            signal_hook::flag::register_conditional_shutdown(
                signal,
                EXIT_SECOND_SIGNAL,
                Arc::clone(&flag.0),
            )?;
            signal_hook::flag::register(signal, Arc::clone(&flag.0))?;
        }
        Ok(flag)
    }

    /// Asks for a stop.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether a stop was asked for.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::StopFlag;

    #[test]
    fn clones_share_the_flag() {
        let flag = StopFlag::new();
        let other = flag.clone();
        assert!(!other.is_set());
        flag.set();
        assert!(other.is_set());
    }

    #[test]
    fn a_signal_sets_the_flag() {
        let flag = StopFlag::on_signals().unwrap();
        signal_hook::low_level::raise(signal_hook::consts::SIGTERM).unwrap();
        assert!(flag.is_set());
    }
}
