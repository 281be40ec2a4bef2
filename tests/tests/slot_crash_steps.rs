//! A crash between every two operations of a slot's life: fresh open, append, rotation, trim, the
//! two at once, new dictionary epochs, close with and without frames left, and the reopening after
//! any of them.
//!
//! Every phase is a script on the simulated disk (`engine/src/io/sim/steps`). It runs once to learn
//! its steps, then again for every step and several ways to survive: the process is killed or the
//! power goes just before the step, any part of what was not durable is lost in sectors of 512
//! bytes, and with some of the ways the reopening dies too. Then the slot must open with every
//! frame that was written (kill) or stable (power cut) and with none that was never published,
//! takes more frames, and everything arrives at the server, the stable frames at least once.
//!
//! `FOREBAY_SCALE=n` multiplies the seeds (delays, frame sizes, durability). `FOREBAY_SEED=n` runs
//! that one alone, `FOREBAY_PHASE=name`, `FOREBAY_STEP=n` and `FOREBAY_SURVIVAL=n` narrow it
//! down; with a step the whole script is printed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use forebay::internals::sim::{CrashPoint, Phase, Summary, Trace};
use forebay_tests::seeds::{number, scale};

/// What plain `cargo test` must reach.
const POINTS_MIN: u64 = 10_000;

/// Seeds of a phase. Reopening takes turns with what went before.
fn seeds(phase: Phase) -> u64 {
    match phase {
        Phase::Reopen => 18,
        Phase::RotationRacingTrim => 6,
        _ => 4,
    }
}

/// What was counted in one phase.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    steps: u64,
    points: u64,
    racing: u64,
    summary: Summary,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.steps += other.steps;
        self.points += other.points;
        self.racing += other.racing;
        self.summary += other.summary;
    }

    fn tell(&self) -> String {
        let summary = &self.summary;
        format!(
            "all: steps {} (racing {}), points {}; kills {}, power cuts {}, reopenings that died {}, \
             frames {}, recovered {}, arrived again {}, torn tails {}, rotations {}, trims {}, \
             epochs {} and {} interrupted",
            self.steps,
            self.racing,
            self.points,
            summary.kills,
            summary.power_cuts,
            summary.opens_interrupted,
            summary.frames,
            summary.recovered,
            summary.repeats,
            summary.torn_tails,
            summary.rotations,
            summary.trims,
            summary.epochs,
            summary.epochs_interrupted
        )
    }
}

/// What the environment asks for; everything where it says nothing.
#[derive(Debug)]
struct Wanted {
    phase: Option<String>,
    seed: Option<u64>,
    step: Option<u64>,
    survival: Option<u64>,
}

impl Wanted {
    fn read() -> Self {
        Self {
            phase: std::env::var("FOREBAY_PHASE").ok(),
            seed: number("FOREBAY_SEED"),
            step: number("FOREBAY_STEP"),
            survival: number("FOREBAY_SURVIVAL"),
        }
    }

    fn is_all(&self) -> bool {
        self.phase.is_none()
            && self.seed.is_none()
            && self.step.is_none()
            && self.survival.is_none()
    }

    /// The scripts to run.
    fn scripts(&self) -> Vec<(Phase, u64)> {
        let named = |phase: &Phase| self.phase.as_ref().is_none_or(|name| name == phase.name());
        let phases = Phase::ALL.into_iter().filter(named);
        let with_seeds = |phase| {
            let seeds = match self.seed {
                Some(seed) => seed..seed + 1,
                None => 0..seeds(phase) * scale(),
            };
            seeds.map(move |seed| (phase, seed))
        };
        phases.flat_map(with_seeds).collect()
    }

    fn includes(&self, point: &CrashPoint) -> bool {
        self.step.is_none_or(|step| step == u64::from(point.step))
            && self
                .survival
                .is_none_or(|survival| survival == point.survival)
    }
}

/// Every point of one script; the first that fails ends it and says how to repeat it.
fn run(wanted: &Wanted, phase: Phase, seed: u64) -> Count {
    let trace = phase.trace(seed);
    if wanted.step.is_some() {
        for (number, step) in trace.steps.iter().enumerate() {
            println!("{number:5} {step}");
        }
    }
    let mut count = Count {
        steps: trace.steps.len() as u64,
        racing: trace.racing,
        ..Count::default()
    };
    for point in trace
        .points(phase, seed)
        .filter(|point| wanted.includes(point))
    {
        let outcome = catch_unwind(AssertUnwindSafe(|| point.run(&trace)));
        count.summary += outcome.unwrap_or_else(|_| panic!("{}", story(&point, &trace)));
        count.points += 1;
    }
    count
}

fn story(point: &CrashPoint, trace: &Trace) -> String {
    let CrashPoint {
        phase,
        seed,
        step,
        survival,
    } = point;
    let name = phase.name();
    let before = trace.steps.get(*step as usize);
    let before = before.map_or("nothing", String::as_str);
    format!(
        "phase {name}, seed {seed}, step {step} of {} (before: {before}), survival {survival} \
         failed; repeat it with\n  FOREBAY_PHASE={name} FOREBAY_SEED={seed} FOREBAY_STEP={step} \
         FOREBAY_SURVIVAL={survival} cargo test -p forebay-tests --test slot_crash_steps",
        trace.steps.len()
    )
}

#[test]
fn a_crash_between_any_two_operations_loses_no_stable_frame_and_invents_none() {
    let wanted = Wanted::read();
    let scripts = wanted.scripts();
    assert!(!scripts.is_empty(), "no such phase: {wanted:?}");
    let start = Instant::now();
    let counts = Mutex::new(Phase::ALL.map(|phase| (phase, Count::default())));
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(&(phase, seed)) = scripts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let count = run(&wanted, phase, seed);
            let mut counts = counts.lock().expect("no thread panics holding it");
            let (_, sum) = counts.iter_mut().find(|(p, _)| *p == phase).expect("all");
            sum.add(count);
        }
    };
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get().min(4));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let counts = counts.into_inner().expect("no thread panics holding it");
    let mut total = Count::default();
    for (phase, count) in counts {
        println!(
            "{:24} steps {:5} (racing {}), points {:6}",
            phase.name(),
            count.steps,
            count.racing,
            count.points
        );
        total.add(count);
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{}, in {seconds:.1} s", total.tell());
    if wanted.is_all() {
        assert_hard_enough(&total);
    }
}

/// The crashes hit what can break.
fn assert_hard_enough(total: &Count) {
    assert!(total.points >= POINTS_MIN, "only {} points", total.points);
    assert!(total.racing >= 50, "{} steps of a race", total.racing);
    let summary = &total.summary;
    for (what, count) in [
        ("kills", summary.kills),
        ("power cuts", summary.power_cuts),
        ("interrupted openings", summary.opens_interrupted),
        ("frames recovered", summary.recovered),
        ("frames that arrived again", summary.repeats),
        ("rotations", summary.rotations),
        ("trims", summary.trims),
        ("dictionary epochs", summary.epochs),
    ] {
        assert!(count >= 2_000, "{what}: only {count}");
    }
    assert!(
        summary.epochs_interrupted >= 200,
        "{} epochs interrupted",
        summary.epochs_interrupted
    );
    assert!(
        summary.torn_tails >= 100,
        "{} torn tails",
        summary.torn_tails
    );
}
