//! `forebay-loadgen sink`: the embedded QWP server as a process.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use crate::signals::StopFlag;
use crate::sink::{Depth, Sink, SinkConfig, Totals};
use clap::Args;
use forebay_wire::upgrade::{UpgradePolicy, advertised_batch_size};

/// How often the flag of the signal handlers is looked at.
const SIGNAL_POLL: Duration = Duration::from_millis(10);

/// Receive QWP as a server does. Prints `listening ADDR` first, and at SIGTERM or SIGINT one line
/// per table and `totals {...}`, a line of JSON.
#[derive(Debug, Args)]
pub(crate) struct SinkArgs {
    /// Address to listen on; port 0 lets the kernel choose.
    #[arg(long, default_value = "127.0.0.1:9000", value_name = "ADDR")]
    listen: SocketAddr,
    /// Look at headers, dictionary and row counts only (the default).
    #[arg(long, conflicts_with_all = ["decode", "store"])]
    count: bool,
    /// Look at every value.
    #[arg(long)]
    decode: bool,
    /// Refuse what the genuine server tolerates but no sender should write.
    #[arg(long)]
    strict: bool,
    /// Write each row to DIR/<table>.ndjson before it is acknowledged.
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// Hold back every answer for this long, microseconds.
    #[arg(long, default_value_t = 0, value_name = "N")]
    ack_delay_us: u64,
    /// Drop each TCP connection after N messages on it.
    #[arg(long, value_name = "N")]
    drop_after: Option<u64>,
    /// Refuse connects for this long after the start, milliseconds.
    #[arg(long, default_value_t = 0, value_name = "N")]
    refuse_for_ms: u64,
    /// Pin the connections' threads to this core.
    #[arg(long, value_name = "CORE")]
    pin_core: Option<usize>,
    /// The server's receive buffer, bytes; the advertised batch size is 14 less.
    #[arg(long, default_value_t = SinkConfig::default().recv_buffer_bytes, value_name = "N")]
    recv_buffer_bytes: usize,
    /// Most bytes of one read.
    #[arg(long, default_value_t = SinkConfig::default().read_bytes, value_name = "N")]
    read_bytes: usize,
    /// Role to tell clients; REPLICA and `PRIMARY_CATCHUP` refuse them.
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
}

impl SinkArgs {
    /// Serves until a signal comes.
    pub(crate) fn execute(self, stop: &StopFlag) -> ExitCode {
        match self.serve(stop) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("forebay-loadgen: sink: {error}");
                ExitCode::FAILURE
            }
        }
    }

    fn serve(self, stop: &StopFlag) -> io::Result<()> {
        let sink = Sink::start(self.config())?;
        let mut out = io::stdout();
        writeln!(out, "listening {}", sink.addr())?;
        out.flush()?;
        while !stop.is_set() {
            thread::sleep(SIGNAL_POLL);
        }
        print_totals(&mut out, &sink.stop())
    }

    fn config(self) -> SinkConfig {
        let upgrade = UpgradePolicy {
            max_batch_size: advertised_batch_size(self.recv_buffer_bytes),
            role: self.role,
            ..UpgradePolicy::default()
        };
        SinkConfig {
            listen: self.listen,
            depth: if self.decode {
                Depth::Decode
            } else {
                Depth::Count
            },
            strict: self.strict,
            store: self.store,
            ack_delay: Duration::from_micros(self.ack_delay_us),
            drop_after: self.drop_after,
            refuse_for: Duration::from_millis(self.refuse_for_ms),
            pin_core: self.pin_core,
            recv_buffer_bytes: self.recv_buffer_bytes,
            read_bytes: self.read_bytes,
            upgrade,
        }
    }
}

/// The output of [`SinkArgs`]: for each table
/// `table NAME: R rows, B blocks, N bytes, T transactions`, then the JSON of [`Totals::to_json`].
fn print_totals(out: &mut impl Write, totals: &Totals) -> io::Result<()> {
    for (name, table) in &totals.tables {
        writeln!(
            out,
            "table {name}: {} rows, {} blocks, {} bytes, {} transactions",
            table.rows, table.blocks, table.bytes, table.transactions
        )?;
    }
    writeln!(out, "totals {}", totals.to_json())?;
    out.flush()
}
