//! The keys of the conversation with the server: durable acknowledgements, probes, policies.

use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_wire::upgrade::DurableTier;

use super::grammar::Params;
use super::value::invalid;
use crate::error::Error;
use crate::observe::Policy;

/// What is done about an error answer, by its category: the `on_*_error` keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policies {
    /// `on_schema_error`: status 03 (terminal). [`Policy::Abandoned`] is `dead_letter`.
    pub schema: Policy,
    /// `on_parse_error`: status 05 (terminal).
    pub parse: Policy,
    /// `on_internal_error`: status 06 (retriable).
    pub internal: Policy,
    /// `on_security_error`: status 08 (terminal).
    pub security: Policy,
    /// `on_write_error`: status 09 (retriable).
    pub write: Policy,
}

impl Default for Policies {
    fn default() -> Self {
        Self {
            schema: Policy::Terminal,
            parse: Policy::Terminal,
            internal: Policy::Retriable,
            security: Policy::Terminal,
            write: Policy::Retriable,
        }
    }
}

/// How the server is spoken with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryKeys {
    /// `request_durable_ack`: `None` is off, and an OK is enough.
    pub durable_ack: Option<DurableTier>,
    /// `durable_ack_keepalive_interval_millis`; `None` sends no PING for durable acknowledgements.
    pub durable_keepalive: Option<Duration>,
    /// `ping_interval_millis`: silence after which the server is asked by a PING, and again until
    /// the connection is given up; `None` never asks.
    pub ping_interval: Option<Duration>,
    /// `ack_progress_timeout_millis`: how long a server that answers may confirm nothing of what it
    /// has before the connection is given up; `None` waits for ever.
    pub ack_progress_timeout: Option<Duration>,
    /// The `on_*_error` keys.
    pub policies: Policies,
    /// `rejected_dir`: where refused tables are kept with `on_schema_error=dead_letter`; `None`
    /// without it. `<sf_dir>/.rejected` unless set.
    pub rejected_dir: Option<PathBuf>,
    /// `rejected_max_bytes`: most bytes of files there, 1 GiB unless set. Beyond it a refusal is
    /// terminal.
    pub rejected_max_bytes: u64,
}

impl DeliveryKeys {
    pub(super) fn take(params: &mut Params, sf_dir: Option<&Path>) -> Result<Self, Error> {
        let policies = policies(params)?;
        let rejected_max_bytes = params.size("rejected_max_bytes", 1, u64::MAX)?;
        Ok(Self {
            rejected_dir: rejected_dir(params, policies, sf_dir)?,
            rejected_max_bytes: rejected_max_bytes.unwrap_or(1 << 30),
            durable_ack: durable_ack(params)?,
            durable_keepalive: params
                .millis_or_none("durable_ack_keepalive_interval_millis", 200)?,
            ping_interval: params.millis_or_none("ping_interval_millis", 15_000)?,
            ack_progress_timeout: params.millis_or_none("ack_progress_timeout_millis", 60_000)?,
            policies,
        })
    }
}

fn durable_ack(params: &mut Params) -> Result<Option<DurableTier>, Error> {
    let key = "request_durable_ack";
    let Some(value) = params.take(key) else {
        return Ok(None);
    };
    match value.to_ascii_lowercase().as_str() {
        "off" | "false" => Ok(None),
        "on" | "true" => Ok(Some(DurableTier::On)),
        "local" => Ok(Some(DurableTier::Local)),
        "replicated" => Ok(Some(DurableTier::Replicated)),
        "local,replicated" | "replicated,local" => Ok(Some(DurableTier::LocalAndReplicated)),
        _ => Err(invalid(
            key,
            &value,
            "off, on, replicated, local or local,replicated",
        )),
    }
}

fn rejected_dir(
    params: &mut Params,
    policies: Policies,
    sf_dir: Option<&Path>,
) -> Result<Option<PathBuf>, Error> {
    let key = "rejected_dir";
    let dir = match params.take(key) {
        Some(dir) if dir.is_empty() => return Err(invalid(key, "", "a directory")),
        Some(dir) => Some(PathBuf::from(dir)),
        None => sf_dir.map(|dir| dir.join(".rejected")),
    };
    if policies.schema != Policy::Abandoned {
        return Ok(None);
    }
    if dir.is_none() {
        let reason = "missing: on_schema_error=dead_letter without sf_dir needs a directory";
        return Err(Error::config(key, reason));
    }
    Ok(dir)
}

/// `on_server_error` speaks for every category that has no key of its own set.
fn policies(params: &mut Params) -> Result<Policies, Error> {
    let all = error_policy(params, "on_server_error")?;
    let mut policies = Policies::default();
    for (key, policy) in [
        ("on_schema_error", &mut policies.schema),
        ("on_parse_error", &mut policies.parse),
        ("on_internal_error", &mut policies.internal),
        ("on_security_error", &mut policies.security),
        ("on_write_error", &mut policies.write),
    ] {
        *policy = error_policy(params, key)?.or(all).unwrap_or(*policy);
    }
    Ok(policies)
}

fn error_policy(params: &mut Params, key: &str) -> Result<Option<Policy>, Error> {
    let Some(value) = params.take(key) else {
        return Ok(None);
    };
    match value.to_ascii_lowercase().as_str() {
        "auto" => Ok(None),
        "terminal" => Ok(Some(Policy::Terminal)),
        "retriable" => Ok(Some(Policy::Retriable)),
        "retriable_other" => Ok(Some(Policy::RetriableOther)),
        "dead_letter" if key == "on_schema_error" => Ok(Some(Policy::Abandoned)),
        _ => Err(invalid(
            key,
            &value,
            "auto, terminal, retriable or retriable_other",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn keys(rest: &str) -> DeliveryKeys {
        let text = format!("ws::addr=a;{rest}");
        Config::parse(&text)
            .unwrap_or_else(|error| panic!("{text}: {error}"))
            .delivery
    }

    #[test]
    fn the_tiers_of_durable_acknowledgements() {
        for (value, tier) in [
            ("off", None),
            ("False", None),
            ("ON", Some(DurableTier::On)),
            ("true", Some(DurableTier::On)),
            ("local", Some(DurableTier::Local)),
            ("Replicated", Some(DurableTier::Replicated)),
            ("local,replicated", Some(DurableTier::LocalAndReplicated)),
            ("replicated,local", Some(DurableTier::LocalAndReplicated)),
        ] {
            let keys = keys(&format!("request_durable_ack={value}"));
            assert_eq!(keys.durable_ack, tier, "{value}");
        }
        assert_eq!(keys("").durable_ack, None);
    }

    #[test]
    fn probes_may_be_switched_off() {
        let millis = |n| Some(Duration::from_millis(n));
        let probes = |value: &str| {
            let keys = keys(&format!(
                "ping_interval_millis={value};ack_progress_timeout_millis={value};\
                 durable_ack_keepalive_interval_millis={value}"
            ));
            [
                keys.ping_interval,
                keys.ack_progress_timeout,
                keys.durable_keepalive,
            ]
        };
        assert_eq!(probes("7"), [millis(7); 3]);
        assert_eq!(probes("0"), [None; 3]);
        assert_eq!(probes("-1"), [None; 3]);
        let default = keys("");
        assert_eq!(default.ping_interval, millis(15_000));
        assert_eq!(default.durable_keepalive, millis(200));
    }

    #[test]
    fn dead_letters_need_a_place() {
        let dir = |rest: &str| keys(rest).rejected_dir;
        let dead = "on_schema_error=dead_letter;";
        assert_eq!(dir("sf_dir=/d;"), None);
        let own = dir(&format!("{dead}sf_dir=/d;"));
        assert_eq!(own, Some(PathBuf::from("/d/.rejected")));
        let given = dir(&format!("{dead}rejected_dir=/r;"));
        assert_eq!(given, Some(PathBuf::from("/r")));
        let error = Config::parse(&format!("ws::addr=a;{dead}")).expect_err("nowhere");
        assert!(error.to_string().contains("rejected_dir"), "{error}");
        let other = "ws::addr=a;on_write_error=dead_letter;";
        Config::parse(other).expect_err("for schema errors only");
    }

    #[test]
    fn one_key_speaks_for_all_that_are_not_set() {
        let policies = |rest: &str| keys(rest).policies;
        assert_eq!(policies("on_server_error=auto"), Policies::default());
        let all = policies("on_server_error=Retriable;on_schema_error=terminal");
        assert_eq!(all.schema, Policy::Terminal);
        assert_eq!(
            [all.parse, all.internal, all.security, all.write],
            [Policy::Retriable; 4]
        );
        let one = policies("on_write_error=retriable_other");
        assert_eq!(one.write, Policy::RetriableOther);
        assert_eq!(one.schema, Policy::Terminal);
    }
}
