//! Puts the calling thread on one core.

use core_affinity::CoreId;

use crate::error::Error;

/// Pins the calling thread, and every thread it starts from now on, to `core`.
///
/// # Errors
/// [`Error::Config`] when the kernel refuses: no such core, or not in this process's set.
pub(crate) fn pin_current(core: usize) -> Result<(), Error> {
    if core_affinity::set_for_current(CoreId { id: core }) {
        return Ok(());
    }
    let allowed: Vec<String> = core_affinity::get_core_ids()
        .unwrap_or_default()
        .iter()
        .map(|allowed| allowed.id.to_string())
        .collect();
    let reason = format!(
        "core {core} is not available; allowed are {}",
        allowed.join(", ")
    );
    Err(Error::config("--pin", reason))
}

#[cfg(test)]
mod tests {
    use super::pin_current;

    #[test]
    fn a_core_that_does_not_exist_is_refused_with_those_that_do() {
        let error = pin_current(1_000).unwrap_err().to_string();
        assert!(
            error.contains("--pin") && error.contains("allowed are"),
            "{error}"
        );
    }
}
