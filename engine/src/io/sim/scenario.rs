//! What a run is like: sizes, durability, delays and faults, drawn by the seed.

use super::net::NetManners;
use super::random::Rng;
use super::server::ServerManners;
use super::storage::DiskManners;
use super::world::Manners;
use crate::config::Config;

/// What may go wrong in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Processes are killed.
    Kills,
    /// The power is cut, or processes are killed.
    PowerCuts,
    /// Processes are killed, and the disk fails now and then.
    Faults,
    /// Shards panic; besides the power is cut, or processes are killed.
    Panics,
}

/// Sizes and durability of a run; chance draws the mode unless one is asked for.
pub(crate) fn config(rng: &mut Rng, mode: Option<&str>) -> Config {
    // The second is no literal for the configuration, and needs no look-up from the resolver.
    let host = ["127.0.0.1", "127.1"][rng.index(2)];
    let total = rng.between(2, 10) * 64;
    let spin = [0, 5, 50][rng.index(3)];
    let durability = match rng.below(10) {
        0..4 => "memory",
        4..7 => "flush",
        7 => "append",
        _ => "periodic",
    };
    let durability = match mode.unwrap_or(durability) {
        "periodic" => "periodic;sf_sync_interval_millis=20",
        other => other,
    };
    let window = [0, 0, 100, 500][rng.index(4)];
    let durable = if rng.percent(30) { "on" } else { "off" };
    // The largest batch brings about 100 symbols.
    let (symbols_max, symbols_reset) = [
        (1_000_000, 500_000),
        (1_000_000, 15),
        (1_000_000, 60),
        (300, 200),
        (300, 300),
    ][rng.index(5)];
    let text = format!(
        "ws::addr={host}:9000;sf_dir=/sf;sender_id=sim;sf_max_segment_bytes=64k;\
         sf_max_total_bytes={total}k;sf_durability={durability};commit_window_micros={window};\
         commit_window_bytes=16k;initial_connect_retry=async;\
         spin_micros={spin};intake_ring_bytes=131072;max_frame_rejections=1000000;\
         ping_interval_millis=100;ack_progress_timeout_millis=3000;\
         durable_ack_keepalive_interval_millis=5;request_durable_ack={durable};\
         symbol_dict_max={symbols_max};symbol_dict_reset_threshold={symbols_reset};"
    );
    Config::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// How the world of a run behaves.
pub(crate) fn manners(kind: Kind, rng: &mut Rng) -> Manners {
    let faults = kind == Kind::Faults || kind == Kind::Panics && rng.percent(30);
    Manners {
        disk: DiskManners {
            write_nanos: [30_000, 300_000, 3_000_000][rng.index(3)],
            sync_nanos: [100_000, 1_000_000, 6_000_000][rng.index(3)],
            slow_percent: [0, 3][rng.index(2)],
            queue_full_percent: [0, 5][rng.index(2)],
            short_percent: if faults { 5 } else { 0 },
            broken_per_myriad: if faults { [0, 0, 20][rng.index(3)] } else { 0 },
        },
        full_percent: if faults { 30 } else { 0 },
        net: NetManners {
            delay_nanos: [30_000, 300_000, 5_000_000][rng.index(3)],
            hang_percent: [0, 5][rng.index(2)],
            break_percent: [0, 30, 70][rng.index(3)],
            vanish_percent: [0, 60][rng.index(2)],
            break_nanos: [5_000_000, 200_000_000][rng.index(2)],
            outages: [
                None,
                Some((80_000_000, 40_000_000)),
                Some((20_000_000, 400_000_000)),
            ][rng.index(3)],
            server: ServerManners {
                ack_nanos: [50_000, 1_000_000, 20_000_000][rng.index(3)],
                silent_percent: [0, 0, 30, 100][rng.index(4)],
                refused_per_myriad: [0, 50][rng.index(2)],
                ping_percent: 5,
                durable_nanos: [1_000_000, 100_000_000][rng.index(2)],
            },
        },
    }
}

/// A world without faults.
pub(crate) fn healthy() -> Manners {
    Manners {
        disk: DiskManners {
            write_nanos: 100_000,
            sync_nanos: 300_000,
            slow_percent: 0,
            queue_full_percent: 0,
            short_percent: 0,
            broken_per_myriad: 0,
        },
        full_percent: 0,
        net: NetManners {
            delay_nanos: 100_000,
            hang_percent: 0,
            break_percent: 0,
            vanish_percent: 0,
            break_nanos: 1,
            outages: None,
            server: ServerManners {
                ack_nanos: 200_000,
                silent_percent: 0,
                refused_per_myriad: 0,
                ping_percent: 1,
                durable_nanos: 1_000_000,
            },
        },
    }
}

/// A world without faults for short scripts: nothing takes long, and what overtakes what depends on
/// the seed.
pub(crate) fn scripted(rng: &mut Rng) -> Manners {
    let mut manners = healthy();
    manners.disk.write_nanos = [5_000, 40_000, 150_000][rng.index(3)];
    manners.disk.sync_nanos = [20_000, 100_000, 300_000][rng.index(3)];
    manners.disk.queue_full_percent = [0, 5][rng.index(2)];
    manners.net.delay_nanos = [5_000, 50_000][rng.index(2)];
    manners.net.server.ack_nanos = [20_000, 200_000][rng.index(2)];
    manners
}
