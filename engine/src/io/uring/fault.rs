//! A slow disk on demand: `FOREBAY_FAULT_DISK_PAUSE_MICROS`. Inert unless it is set.

use crate::io::sys::monotonic_nanos;

const ENV: &str = "FOREBAY_FAULT_DISK_PAUSE_MICROS";

/// Lets one operation through per pause.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    pause: u64,
    next_at: u64,
}

impl Throttle {
    /// As the environment says.
    pub(super) fn from_env() -> Self {
        let micros = std::env::var(ENV).ok().and_then(|text| text.parse().ok());
        let pause = micros.unwrap_or(0_u64).saturating_mul(1_000);
        Self { pause, next_at: 0 }
    }

    /// Whether an operation has to wait: the caller tries again next turn.
    #[inline]
    pub(super) fn holds(&mut self) -> bool {
        if self.pause == 0 {
            return false;
        }
        let now = monotonic_nanos();
        if now < self.next_at {
            return true;
        }
        self.next_at = now.saturating_add(self.pause);
        false
    }
}
