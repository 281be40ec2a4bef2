//! The real shard, slot and producer code on a simulated disk, network and clock, with crashes.
#[test]
fn kills() {
    let start = std::time::Instant::now();
    let n: u64 = std::env::var("N").ok().and_then(|n| n.parse().ok()).unwrap_or(20);
    let from: u64 = std::env::var("FROM").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let mode = std::env::var("MODE").unwrap_or_default();
    let mut total = forebay::internals::sim::Summary::default();
    let mut bad = 0;
    for seed in from..from+n {
        let run = match mode.as_str() { "p" => forebay::internals::sim::run_power_cuts, "f" => forebay::internals::sim::run_faults, _ => forebay::internals::sim::run_kills };
        match std::panic::catch_unwind(|| run(seed)) {
            Ok(s) => total += s,
            Err(_) => { bad += 1; println!("^^^ seed {seed}"); }
        }
    }
    println!("{total}\n{bad} bad, {:?}", start.elapsed());
}
