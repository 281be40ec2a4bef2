//! What a sink is told at its start.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::records::RecordLimits;
use super::script::Script;
use super::tls::TlsIdentity;
use super::watch::Watch;
use forebay_wire::server::SessionConfig;
use forebay_wire::upgrade::{RECV_BUFFER_BYTES_DEFAULT, UpgradePolicy};

/// How far a sink looks into messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// Headers, dictionary and row counts; sections are checked to be there.
    #[default]
    Count,
    /// Also every value, and every symbol id against the dictionary.
    Decode,
}

/// Settings of a sink.
#[derive(Clone, Debug)]
pub struct SinkConfig {
    /// Where to listen; port 0 lets the kernel choose.
    pub listen: SocketAddr,
    /// How far to look into messages. Storing, and typed columns, decode in any case.
    pub depth: Depth,
    /// Refuse what the genuine server tolerates but no sender should write.
    pub strict: bool,
    /// Remember the types of columns and refuse what cannot be converted to them with
    /// `SCHEMA_MISMATCH`.
    pub typed: bool,
    /// Directory for `<table>.ndjson`; created if missing.
    pub store: Option<PathBuf>,
    /// Time by which all answers are held back, in their order.
    pub ack_delay: Duration,
    /// Messages after which each connection is dropped.
    pub drop_after: Option<u64>,
    /// Time after the start during which connects are refused.
    pub refuse_for: Duration,
    /// Core that every connection's thread is pinned to.
    pub pin_core: Option<usize>,
    /// Receive buffer of the protocol, bytes: larger frames are refused with CLOSE 1009.
    pub recv_buffer_bytes: usize,
    /// Most bytes of one read from a socket. Over loopback 1 MiB took 13 ns of CPU time a row of 44
    /// bytes where 64 KiB took 20 (`sink::measure`).
    pub read_bytes: usize,
    /// Messages of one read after which an OK is sent before the others are looked at; an OK is
    /// sent after every read in any case. 1 answers every message.
    pub ok_every: u64,
    /// Role, credentials, advertised batch size and fixed answers of the upgrade.
    pub upgrade: UpgradePolicy,
    /// Faults. With an empty one the sink is a faithful server whose knobs can be turned while it
    /// runs ([`super::Sink::set_script`], [`super::Sink::set_role`]).
    pub script: Option<Script>,
    /// Certificate and key to speak TLS with.
    pub tls: Option<TlsIdentity>,
    /// What to remember of connections ([`super::Sink::records`]).
    pub record: Option<RecordLimits>,
    /// Is shown every block that was applied.
    pub watch: Option<Watch>,
}

impl Default for SinkConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            depth: Depth::Count,
            strict: false,
            typed: false,
            store: None,
            ack_delay: Duration::ZERO,
            drop_after: None,
            refuse_for: Duration::ZERO,
            pin_core: None,
            recv_buffer_bytes: RECV_BUFFER_BYTES_DEFAULT,
            read_bytes: 1024 * 1024,
            ok_every: SessionConfig::default().ok_every,
            upgrade: UpgradePolicy::default(),
            script: None,
            tls: None,
            record: None,
            watch: None,
        }
    }
}

impl SinkConfig {
    /// A sink for tests: it decodes, remembers its connections, and does what the script says.
    pub fn scripted(script: Script) -> Self {
        Self {
            depth: Depth::Decode,
            script: Some(script),
            record: Some(RecordLimits::default()),
            ..Self::default()
        }
    }

    /// Whether connections take the way of `scripted`.
    pub(super) fn is_scripted(&self) -> bool {
        self.script.is_some()
            || self.tls.is_some()
            || self.record.is_some()
            || self.upgrade.durable.is_some()
    }

    /// Whether every value is looked at.
    pub(super) fn decodes(&self) -> bool {
        self.depth == Depth::Decode || self.store.is_some() || self.typed || self.watch.is_some()
    }
}
