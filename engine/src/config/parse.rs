//! [`Config::parse`]: one function per group of keys.

use std::path::PathBuf;
use std::time::Duration;

use super::grammar::Params;
use super::orphan_keys::OrphanKeys;
use super::value::{MILLIS_MAX, invalid, number};
use super::{
    Config, DeliveryKeys, Durability, EventKeys, InitialConnect, IntakeKeys, ProducerKeys,
    ShardKeys, StewardKeys, addr, foreign, security_keys,
};
use crate::error::Error;
use crate::slot::NEW_ENTRIES_MAX as SYMBOLS_MAX;
use crate::slot::segment::SEGMENT_BYTES_MIN;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;
/// Longest commit window: a second.
const COMMIT_WINDOW_MICROS_MAX: u64 = 1_000_000;
/// Unit of direct I/O: new segments are whole blocks.
const BLOCK: u64 = 4 * KIB;
/// Half of the most: time enough for a moment at which all is acked.
const SYMBOLS_RESET: u32 = SYMBOLS_MAX / 2;
/// A slot's name still has room for `.unreplayable-63` in a directory entry of 255 bytes.
pub(super) const SENDER_ID_BYTES_MAX: usize = 239;

impl Config {
    /// Reads a connect string such as `ws::addr=127.0.0.1:9000;sf_dir=/var/lib/app;`.
    ///
    /// Nothing is opened or contacted. Keys of query clients are accepted and ignored.
    ///
    /// ```
    /// let config = forebay::config::Config::parse("ws::addr=db-1,db-2:9001;sender_id=quotes;")?;
    /// assert_eq!(config.endpoints[0].port, 9000);
    /// assert_eq!(config.endpoints[1].host, "db-2");
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Config`] with the key at fault: unknown, given twice, out of range, in conflict
    /// with another, or of a feature that this version does not have.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let (schema, mut params) = Params::read(text)?;
        let key = "connect string";
        let tls = match schema.as_str() {
            "ws" => false,
            "wss" => true,
            _ => {
                let reason = format!("unknown schema {schema:?}, expected ws:: or wss::");
                return Err(Error::config(key, reason));
            }
        };
        let params = &mut params;
        let addresses = params.take("addr");
        let addresses = addresses
            .ok_or_else(|| Error::config("addr", "missing, expected host or host:port"))?;
        let endpoints = addr::endpoints(&addresses)?;
        foreign::refuse_unbuilt(params)?;
        let journal = Journal::take(params)?;
        let sync_first = params.has_prefix("reconnect_");
        let (max_buf_bytes, max_name_bytes) = buffer_limits(params)?;
        let producer = ProducerKeys::take(params, journal.sf_dir.is_some())?;
        let delivery = DeliveryKeys::take(params, journal.sf_dir.as_deref())?;
        let intake = IntakeKeys::take(params, journal.sf_dir.is_some())?;
        let shards = ShardKeys::take(params, &journal.sender_id)?;
        let config = Self {
            producer,
            tls,
            endpoints,
            auth: security_keys::auth(params)?,
            security: security_keys::security(params, tls)?,
            auth_timeout: params.millis("auth_timeout_ms", 15_000, 1)?,
            connect_timeout: params.millis("connect_timeout", 15_000, 1)?,
            sf_dir: journal.sf_dir,
            sender_id: journal.sender_id,
            segment_bytes: journal.segment_bytes,
            total_bytes: journal.total_bytes,
            durability: journal.durability,
            sync_interval: journal.sync_interval,
            commit_window: commit_window(params)?,
            commit_window_bytes: params
                .size("commit_window_bytes", BLOCK, u64::MAX)?
                .unwrap_or(256 * KIB),
            append_deadline: params.millis("sf_append_deadline_millis", 30_000, 0)?,
            backoff_initial: params.millis("reconnect_initial_backoff_millis", 100, 1)?,
            backoff_max: params.millis("reconnect_max_backoff_millis", 5_000, 1)?,
            reconnect_max_duration: params.millis("reconnect_max_duration_millis", 300_000, 0)?,
            initial_connect: initial_connect(params, sync_first)?,
            close_flush_timeout: params.millis_or_none("close_flush_timeout_millis", 5_000)?,
            max_buf_bytes,
            max_name_bytes,
            max_frame_rejections: small(params, "max_frame_rejections", 4, 1)?,
            poison_window: params.millis("poison_min_escalation_window_millis", 5_000, 0)?,
            delivery,
            shards,
            spin: Duration::from_micros(u64::from(small(params, "spin_micros", 50, 0)?)),
            idle_spin: idle_spin(params)?,
            intake,
            lock_retry: params.millis("lock_retry_millis", 500, 0)?,
            memory_budget_bytes: params
                .size("memory_budget_bytes", MIB, u64::MAX)?
                .unwrap_or(64 * MIB),
            symbols_max: symbols(params, "symbol_dict_max", SYMBOLS_MAX)?,
            symbols_reset: symbols(params, "symbol_dict_reset_threshold", SYMBOLS_RESET)?,
            orphans: OrphanKeys::take(params)?,
            steward: StewardKeys::take(params)?,
            events: EventKeys::take(params)?,
        };
        foreign::judge_rest(std::mem::take(params))?;
        Ok(config)
    }
}

/// The `sf_` keys, which depend on each other.
struct Journal {
    sf_dir: Option<PathBuf>,
    sender_id: String,
    segment_bytes: u64,
    total_bytes: u64,
    durability: Durability,
    sync_interval: Duration,
}

impl Journal {
    fn take(params: &mut Params) -> Result<Self, Error> {
        let sf_dir = match params.take("sf_dir") {
            Some(path) if path.is_empty() => {
                return Err(invalid(
                    "sf_dir",
                    "",
                    "a directory; leave the key out for memory",
                ));
            }
            path => path.map(PathBuf::from),
        };
        let sender_id = sender_id(params)?;
        let segment_bytes = segment_bytes(params)?;
        let total_bytes = total_bytes(params, sf_dir.is_some(), segment_bytes)?;
        let durability = durability(params)?;
        if durability != Durability::Memory && sf_dir.is_none() {
            let reason = "periodic, flush and append need sf_dir: there is no disk to sync";
            return Err(Error::config("sf_durability", reason));
        }
        let interval = params.take("sf_sync_interval_millis");
        if interval.is_some() && durability != Durability::Periodic {
            let reason = "only sf_durability=periodic has an interval";
            return Err(Error::config("sf_sync_interval_millis", reason));
        }
        let sync_interval = match interval {
            None => 5_000,
            Some(value) => number("sf_sync_interval_millis", &value, 1, MILLIS_MAX)?,
        };
        let sync_interval = Duration::from_millis(sync_interval);
        Ok(Self {
            sf_dir,
            sender_id,
            segment_bytes,
            total_bytes,
            durability,
            sync_interval,
        })
    }
}

fn sender_id(params: &mut Params) -> Result<String, Error> {
    let Some(id) = params.take("sender_id") else {
        return Ok("default".to_owned());
    };
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if id.is_empty() || id.len() > SENDER_ID_BYTES_MAX || !id.bytes().all(allowed) {
        let wanted = format!("1 to {SENDER_ID_BYTES_MAX} of the characters A-Z a-z 0-9 _ -");
        return Err(invalid("sender_id", &id, &wanted));
    }
    Ok(id)
}

fn segment_bytes(params: &mut Params) -> Result<u64, Error> {
    let key = "sf_max_segment_bytes";
    let asked = params.size(key, 1, GIB)?.unwrap_or(4 * MIB);
    if asked < SEGMENT_BYTES_MIN {
        tracing::warn!(
            asked,
            used = SEGMENT_BYTES_MIN,
            "FB-K001 {key} is too small, raised"
        );
        return Ok(SEGMENT_BYTES_MIN);
    }
    Ok(asked - asked % BLOCK)
}

fn total_bytes(params: &mut Params, on_disk: bool, segment_bytes: u64) -> Result<u64, Error> {
    let key = "sf_max_total_bytes";
    let Some(total) = params.size(key, 1, u64::MAX)? else {
        return Ok(if on_disk {
            (10 * GIB).max(2 * segment_bytes)
        } else {
            (128 * MIB).max(5 * segment_bytes)
        });
    };
    check_total(total, segment_bytes)?;
    Ok(total)
}

/// Whether a cap holds the two segments without which nothing rotates.
pub(super) fn check_total(total: u64, segment_bytes: u64) -> Result<(), Error> {
    if total < 2 * segment_bytes {
        let reason = format!(
            "{total} bytes do not hold two segments of {segment_bytes} bytes; raise it or lower \
             sf_max_segment_bytes"
        );
        return Err(Error::config("sf_max_total_bytes", reason));
    }
    Ok(())
}

fn durability(params: &mut Params) -> Result<Durability, Error> {
    let key = "sf_durability";
    let Some(value) = params.take(key) else {
        return Ok(Durability::Memory);
    };
    match value.to_ascii_lowercase().as_str() {
        "memory" => Ok(Durability::Memory),
        "periodic" => Ok(Durability::Periodic),
        "flush" => Ok(Durability::Flush),
        "append" => Ok(Durability::Append),
        _ => Err(invalid(key, &value, "memory, periodic, flush or append")),
    }
}

/// Any explicit `reconnect_*` key turns an unset value into `Sync`, as in the official clients.
fn initial_connect(params: &mut Params, sync_first: bool) -> Result<InitialConnect, Error> {
    let key = "initial_connect_retry";
    let Some(value) = params.take(key) else {
        return Ok(if sync_first {
            InitialConnect::Sync
        } else {
            InitialConnect::Off
        });
    };
    match value.to_ascii_lowercase().as_str() {
        "off" | "false" => Ok(InitialConnect::Off),
        "on" | "true" | "sync" => Ok(InitialConnect::Sync),
        "async" => Ok(InitialConnect::Async),
        _ => Err(invalid(key, &value, "off, on, sync or async")),
    }
}

/// `max_buf_size` and `max_name_len`; `init_buf_size` is only checked.
fn buffer_limits(params: &mut Params) -> Result<(u64, usize), Error> {
    let max = params.number("max_buf_size", 100 * MIB, 1, u64::MAX)?;
    let init = params.number("init_buf_size", 0, 0, u64::MAX)?;
    if init > max {
        let reason = format!("{init} exceeds max_buf_size ({max})");
        return Err(Error::config("init_buf_size", reason));
    }
    let name = small(params, "max_name_len", 127, 1)?;
    Ok((max, usize::try_from(name).unwrap_or(usize::MAX)))
}

fn small(params: &mut Params, key: &str, default: u32, min: u32) -> Result<u32, Error> {
    let value = params.number(key, default.into(), min.into(), u32::MAX.into())?;
    Ok(u32::try_from(value).unwrap_or(u32::MAX))
}

fn symbols(params: &mut Params, key: &str, default: u32) -> Result<u32, Error> {
    let value = params.number(key, default.into(), 1, SYMBOLS_MAX.into())?;
    Ok(u32::try_from(value).unwrap_or(SYMBOLS_MAX))
}

fn commit_window(params: &mut Params) -> Result<Duration, Error> {
    let micros = match params.take("commit_window_micros") {
        None => 0,
        Some(value) => number("commit_window_micros", &value, 0, COMMIT_WINDOW_MICROS_MAX)?,
    };
    Ok(Duration::from_micros(micros))
}

fn idle_spin(params: &mut Params) -> Result<bool, Error> {
    match params.take("idle") {
        None => Ok(false),
        Some(value) if value.eq_ignore_ascii_case("park") => Ok(false),
        Some(value) if value.eq_ignore_ascii_case("spin") => Ok(true),
        Some(value) => Err(invalid("idle", &value, "park or spin")),
    }
}
