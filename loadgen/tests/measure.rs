//! The load generator as a measuring instrument: what it sends, what it counts, what it writes.

use std::time::Duration;

use forebay_loadgen::allocations::Counting;
use forebay_loadgen::feed::Way;
use forebay_loadgen::report::{Report, merge};
use forebay_loadgen::run::{RunOptions, run};
use forebay_loadgen::session::SessionOptions;
use forebay_loadgen::signals::StopFlag;
use forebay_loadgen::sweep::{SweepOptions, sweep};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn small(way: Way) -> RunOptions {
    RunOptions {
        rows: 3_000,
        batch_rows: 100,
        warm_rows: 1_000,
        way,
        session: SessionOptions {
            // Where files lie on a disk, which a directory for temporary files may not.
            dir: Some(env!("CARGO_TARGET_TMPDIR").into()),
            ..SessionOptions::default()
        },
        ..RunOptions::default()
    }
}

fn measure(options: &RunOptions) -> Report {
    run(options, &StopFlag::new()).expect("it runs")
}

#[test]
fn every_way_delivers_its_rows_and_the_warm_up_is_in_no_figure() {
    for way in [Way::Row, Way::Prepared, Way::Chunk] {
        for flush_each in [false, true] {
            let report = measure(&RunOptions {
                flush_each,
                ..small(way)
            });
            let json = report.json();
            let name = format!("{way:?} {flush_each} {json:#}");
            assert_eq!(report.exit_code(), 0, "{name}");
            assert_eq!(
                (report.rows_sent, report.rows_acked()),
                (3_000, 3_000),
                "{name}"
            );
            assert_eq!(json["sink"]["rows"], 4_000, "{name}");
            assert_eq!(json["frames_published"], 30, "{name}");
            let calls = if flush_each { "flush_ns" } else { "publish_ns" };
            assert_eq!(json[calls]["count"], 30, "{name}");
            assert_eq!(json["accept_to_acked_ns"]["count"], 30, "{name}");
            assert!(json["peak_memory_kib"].as_u64() > Some(1_000), "{name}");
            assert!(json["disk_write_bytes"].as_u64() > Some(0), "{name}");
        }
    }
}

/// What the shard asks for is its executor's, by time: the bench `append` looks at it alone.
#[test]
fn frames_in_steady_state_ask_for_no_memory_on_the_producer() {
    for way in [Way::Row, Way::Prepared, Way::Chunk] {
        let report = measure(&RunOptions {
            rows: 100_000,
            ..small(way)
        });
        let asked = report.detail.allocations.expect("it is counted here");
        assert_eq!(asked.frames, 900, "{way:?}: the first tenth is left out");
        assert!(asked.producer < 90, "{way:?}: {asked:?}");
        let json = report.json();
        assert_eq!(json["allocations"]["shard"], asked.shard, "{json:#}");
    }
}

#[test]
fn batches_go_to_the_tables_in_turns_with_as_many_symbols_as_asked_for() {
    let report = measure(&RunOptions {
        tables_count: 3,
        symbols_count: 5,
        producers_count: 2,
        warm_rows: 0,
        ..small(Way::Prepared)
    });
    let sink = report.json()["sink"].clone();
    let tables = sink["tables"].as_object().expect("tables");
    let rows: Vec<_> = tables
        .iter()
        .map(|(name, of)| (name.as_str(), of["rows"].as_u64()))
        .collect();
    let third = Some(1_000);
    assert_eq!(
        rows,
        [("quotes", third), ("quotes_1", third), ("quotes_2", third)]
    );
    assert_eq!(sink["symbols"], 7, "five names and two sides");
}

#[test]
fn the_title_names_call_stage_durability_and_pace() {
    let report = measure(&RunOptions {
        flush_each: true,
        rows_per_second: Some(30_000.0),
        burst_rows: 1_000,
        idle: Duration::from_secs(1),
        ..small(Way::Row)
    });
    let title = "flush() to accepted, sf_durability=memory: rows by name, batches of 100, \
                 open loop, 30000 rows/s in bursts of 1000";
    assert_eq!(report.detail.title, title);
    assert!(report.table().starts_with(&format!("run: {title}\n")));
    assert!(
        report.total_time >= Duration::from_millis(60),
        "{:?}",
        report.total_time
    );
    let idle = report.detail.idle_cpu_percent.expect("it was watched");
    // Shards of tests beside count too: how little an idle one takes is told elsewhere.
    assert!(idle.is_finite() && idle >= 0.0, "{idle}");
}

#[test]
fn a_log_and_a_page_hold_what_the_report_does() {
    let dir = tempfile::tempdir().expect("a directory");
    let (log, page) = (dir.path().join("run.hlog"), dir.path().join("run.html"));
    // Long enough for samples over time.
    let report = measure(&RunOptions {
        rows_per_second: Some(30_000.0),
        ..small(Way::Row)
    });
    report.write_hlog(&log).expect("written");
    report.write_html(&page).expect("written");
    let merged = merge(&[&log, &log]).expect("a log");
    // Whether something became stable depends on what the run's last moment met.
    let tags = merged.by_tag().keys().map(String::as_str);
    let tags: Vec<_> = tags.filter(|tag| *tag != "accept_to_stable").collect();
    let expected = [
        "accept_to_acked",
        "accept_to_written",
        "flush_to_accepted",
        "publish_to_accepted",
        "publish_to_accepted_the_call_alone",
    ];
    assert_eq!(tags, expected);
    assert!(merged.table().contains(" 60 "), "{}", merged.table());
    let html = std::fs::read_to_string(&page).expect("read");
    for part in [
        &report.detail.title,
        "accept to acked",
        "sf_max_segment_bytes=64m",
        "p99.99",
    ] {
        assert!(html.contains(part), "{part} is missing");
    }
    assert!(
        html.matches("<svg").count() == 4,
        "curves, stages, throughput, unacked"
    );
    for foreign in ["<script", "src=", "href=", "@import", "url("] {
        assert!(
            !html.contains(foreign),
            "{foreign} would need more than the file"
        );
    }
}

#[test]
fn a_sweep_ends_at_the_first_rate_that_is_not_kept() {
    let options = SweepOptions {
        load: RunOptions {
            warm_rows: 0,
            ..small(Way::Row)
        },
        from: 10_000.0,
        factor: 2_000.0,
        length: Duration::from_millis(100),
        p99_limit: Duration::from_millis(20),
    };
    let swept = sweep(&options, &StopFlag::new()).expect("it runs");
    let last = swept.steps.last().expect("a step");
    assert!(!last.kept && swept.steps.len() <= 2, "{}", swept.table());
    if swept.steps.len() == 2 {
        assert_eq!(swept.knee(), Some(10_000.0));
    }
    let refused = sweep(
        &SweepOptions {
            factor: 1.0,
            ..options
        },
        &StopFlag::new(),
    );
    assert!(
        refused
            .expect_err("no growth")
            .to_string()
            .contains("--factor")
    );
}
