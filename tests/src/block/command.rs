//! Commands of the system, each within a limit.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Limit of every command.
pub(super) const PATIENCE: Duration = Duration::from_mins(3);

/// Runs a command to its end within [`PATIENCE`]; its stdout, or what went wrong.
pub(super) fn run(words: &[&str]) -> Result<String, String> {
    let command = words.join(" ");
    let mut child = Command::new(words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{command}: {error}"))?;
    let deadline = Instant::now() + PATIENCE;
    while child
        .try_wait()
        .map_err(|error| error.to_string())?
        .is_none()
    {
        if Instant::now() > deadline {
            // It may hang in the kernel: nobody waits for it.
            let _ = child.kill();
            return Err(format!("{command}: not done within {PATIENCE:?}"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let output = child
        .wait_with_output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command}: {}: {stderr}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Looks every millisecond until `is_so` holds; false after `limit`.
#[must_use]
pub fn wait_until(limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if is_so() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
