//! Connect strings: what is accepted is within its bounds, and no secret is ever shown.
#![no_main]

use forebay::Error;
use forebay::config::{Auth, Config};
use libfuzzer_sys::fuzz_target;

/// Occurs in an input only by a chance of 1 in 2^80.
const SECRET: &str = "q7Zk2wXv9p";

fn check(config: &Config) {
    assert!(!config.endpoints.is_empty());
    for (index, endpoint) in config.endpoints.iter().enumerate() {
        assert!(endpoint.port > 0 && !endpoint.host.is_empty());
        assert!(!config.endpoints[..index].contains(endpoint));
    }
    assert!(config.segment_bytes >= 64 << 10 && config.segment_bytes.is_multiple_of(4096));
    assert!(config.total_bytes >= config.segment_bytes);
    assert!(config.intake.ring_bytes.is_power_of_two() && config.intake.ring_bytes >= 4096);
    assert!(!config.auth_timeout.is_zero() && !config.connect_timeout.is_zero());
    assert!(!config.sync_interval.is_zero() && !config.backoff_initial.is_zero());
    assert!(config.max_frame_rejections > 0 && config.memory_budget_bytes >= 1 << 20);
    assert!(config.sf_dir.is_some() || config.durability == forebay::config::Durability::Memory);
    let id = &config.sender_id;
    assert!(!id.is_empty() && !id.contains('/') && id != "." && id != "..");
}

fn parse(text: &str) -> Option<Config> {
    match Config::parse(text) {
        Ok(config) => {
            check(&config);
            assert_eq!(Config::parse(text).ok().as_ref(), Some(&config));
            Some(config)
        }
        Err(error) => {
            assert!(matches!(error, Error::Config { .. }), "{error:?}");
            assert!(!error.to_string().is_empty());
            assert!(
                !format!("{error} {error:?}").contains(SECRET),
                "the secret is shown"
            );
            None
        }
    }
}

fuzz_target!(|text: &str| {
    if text.contains(SECRET) {
        return;
    }
    parse(text);
    let Some((schema, params)) = text.split_once("::") else {
        return;
    };
    // In front, so that the text cannot make the secret part of another key's value.
    let with = |keys: &str| parse(&format!("{schema}::{keys}{SECRET};{params}"));
    for credentials in [
        "token=",
        "username=u;password=",
        "pass=",
        "tls_roots_password=",
    ] {
        let Some(config) = with(credentials) else {
            continue;
        };
        assert!(credentials.starts_with("tls") || config.auth != Auth::Anonymous);
        let shown = format!("{config:?}");
        assert!(!shown.contains(SECRET), "the secret is shown");
    }
});
