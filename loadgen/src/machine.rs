//! The machine that figures are of.

use std::fs::read_to_string;

/// One line: processor, cores, memory, kernel, load.
pub fn describe() -> String {
    let read = |path: &str| read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let model = model
        .and_then(|line| line.split(": ").nth(1))
        .unwrap_or("unknown processor");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let meminfo = read("/proc/meminfo");
    let kib = meminfo.split_ascii_whitespace().nth(1);
    let gib = kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) >> 20;
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    let load = load.split_ascii_whitespace().next().unwrap_or("?");
    format!(
        "{model}, {cores} cores, {gib} GiB, Linux {}, load before the start {load}",
        kernel.trim()
    )
}

#[cfg(test)]
mod tests {
    use super::describe;

    #[test]
    fn the_machine_is_named() {
        let text = describe();
        assert!(
            text.contains(" cores, ") && text.contains("Linux "),
            "{text}"
        );
    }
}
