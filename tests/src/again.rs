//! A test that has a process of its own, because variables of the environment hold for all of it:
//! an ignored one, for which another test starts the program again.

use std::process::Command;

const END: &str = "the child came to its end";

/// Says that the test ran, and not that none had its name: the last line of the ignored one.
pub fn came_to_its_end() {
    println!("{END}");
}

/// Runs the ignored test of that name with these variables; panics with what it printed if it fails.
pub fn with(name: &str, variables: &[(&str, &str)]) {
    let program = std::env::current_exe().expect("this program has a path");
    let child = Command::new(program)
        .args(["--ignored", "--exact", name, "--nocapture"])
        .envs(variables.iter().copied())
        .output()
        .expect("it ran a moment ago");
    let told = String::from_utf8_lossy(&child.stdout);
    let cause = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{told}{cause}");
    assert!(told.contains(END), "{told}");
}
