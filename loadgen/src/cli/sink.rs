//! `forebay-loadgen sink`: the embedded QWP server as a process.

use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use crate::signals::StopFlag;
use crate::sink::{
    Depth, RecordLimits, Script, Sink, SinkConfig, TlsIdentity, Totals, basic_authorization,
};
use clap::Args;
use forebay_wire::upgrade::{DurableTier, UpgradePolicy, advertised_batch_size};

/// How often the flag of the signal handlers is looked at.
const SIGNAL_POLL: Duration = Duration::from_millis(10);

/// Receive QWP as a server does. Prints `listening ADDR` first, and at SIGTERM or SIGINT one line
/// per table and `totals {...}`, a line of JSON.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
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
    /// Keep the types of columns, refuse what cannot be converted.
    #[arg(long)]
    typed: bool,
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
    /// Answer after every N messages of a read, and after the read; 1 answers each message.
    #[arg(long, default_value_t = SinkConfig::default().ok_every, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..))]
    ok_every: u64,
    /// Role to tell clients; REPLICA and `PRIMARY_CATCHUP` refuse them.
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Do what this fault script says (docs/loadgen.md).
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Speak TLS with this certificate chain (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Refuse clients without this bearer token.
    #[arg(long, value_name = "TOKEN", conflicts_with = "auth_basic")]
    auth_token: Option<String>,
    /// Refuse clients without these Basic credentials.
    #[arg(long, value_name = "USER:PASSWORD")]
    auth_basic: Option<String>,
    /// Grant durable acknowledgements to clients that ask for this tier: `true`, `local`,
    /// `replicated` or `local,replicated`.
    #[arg(long, value_name = "TIER", value_parser = durable_tier)]
    durable: Option<DurableTier>,
    /// Write what each connection did to this file at the end, as JSON.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

fn durable_tier(text: &str) -> Result<DurableTier, String> {
    DurableTier::from_ask(text).ok_or_else(|| "no tier of durable acknowledgement".to_owned())
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
        let record = self.record.clone();
        let mut sink = Sink::start(self.config()?)?;
        let mut out = io::stdout();
        writeln!(out, "listening {}", sink.addr())?;
        out.flush()?;
        while !stop.is_set() {
            thread::sleep(SIGNAL_POLL);
        }
        sink.end();
        if let Some(path) = record {
            let text = format!("{}\n", sink.records().to_json());
            fs::write(&path, text).map_err(|e| at(&path, &e))?;
        }
        print_totals(&mut out, &sink.totals())
    }

    fn config(self) -> io::Result<SinkConfig> {
        let script = self.script.as_deref().map(read_script).transpose()?;
        let tls = match (&self.tls_cert, &self.tls_key) {
            (Some(cert), Some(key)) => Some(TlsIdentity::from_files(cert, key)?),
            _ => None,
        };
        let authorization = match (&self.auth_token, &self.auth_basic) {
            (Some(token), _) => Some(format!("Bearer {token}")),
            (None, Some(pair)) => Some(basic_authorization(pair)),
            (None, None) => None,
        };
        let upgrade = UpgradePolicy {
            max_batch_size: advertised_batch_size(self.recv_buffer_bytes),
            role: self.role,
            durable: self.durable,
            authorization,
            ..UpgradePolicy::default()
        };
        Ok(SinkConfig {
            listen: self.listen,
            depth: if self.decode {
                Depth::Decode
            } else {
                Depth::Count
            },
            strict: self.strict,
            typed: self.typed,
            store: self.store,
            ack_delay: Duration::from_micros(self.ack_delay_us),
            drop_after: self.drop_after,
            refuse_for: Duration::from_millis(self.refuse_for_ms),
            pin_core: self.pin_core,
            recv_buffer_bytes: self.recv_buffer_bytes,
            read_bytes: self.read_bytes,
            ok_every: self.ok_every,
            upgrade,
            script,
            tls,
            record: self.record.map(|_| RecordLimits {
                payload_bytes_max: 0,
                ..RecordLimits::default()
            }),
            watch: None,
        })
    }
}

fn read_script(path: &Path) -> io::Result<Script> {
    let text = fs::read_to_string(path).map_err(|e| at(path, &e))?;
    text.parse().map_err(|e| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{}: {e}", path.display()),
        )
    })
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
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
