//! The connect string as the load generator handles it.
//!
//! The engine alone judges a connect string. Two things are done to it here: the string of the
//! embedded case is composed, and `close_flush_timeout_millis` is taken over, because the wait for
//! the last acknowledgements has to be done by someone who can show progress, confirm batches and
//! read the figures once they are final.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

const CLOSE_KEY: &str = "close_flush_timeout_millis";
/// The engine's default for that key.
const CLOSE_DEFAULT: Duration = Duration::from_secs(5);

/// A connect string whose closing wait is done by the load generator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conf {
    /// What the engine is opened with.
    pub(crate) connect_string: String,
    /// How long to wait for acknowledgements before closing; `None` does not wait.
    pub(crate) close_timeout: Option<Duration>,
}

impl Conf {
    /// Takes the closing wait out of `connect_string`. A string that does not parse, or a value
    /// that is no number, is left as it is: the engine says what is wrong with it.
    pub(crate) fn new(connect_string: &str) -> Self {
        let unchanged = |close_timeout| Self {
            connect_string: connect_string.to_owned(),
            close_timeout: Some(close_timeout),
        };
        let Some((schema, pairs)) = connect_string.split_once("::") else {
            return unchanged(CLOSE_DEFAULT);
        };
        let pairs = split_pairs(pairs);
        let prefix = format!("{CLOSE_KEY}=");
        let mut values = pairs
            .iter()
            .filter_map(|pair| pair.strip_prefix(prefix.as_str()));
        let close_timeout = match (values.next().map(str::parse::<i64>), values.next()) {
            (None, _) => Some(CLOSE_DEFAULT),
            (Some(Ok(millis)), None) => u64::try_from(millis)
                .ok()
                .filter(|&ms| ms > 0)
                .map(Duration::from_millis),
            (Some(_), _) => return unchanged(CLOSE_DEFAULT),
        };
        let others = pairs.iter().filter(|pair| !pair.starts_with(&prefix));
        let mut rebuilt = format!("{schema}::");
        for pair in others {
            rebuilt.push_str(pair);
            rebuilt.push(';');
        }
        rebuilt.push_str(&prefix);
        rebuilt.push_str("0;");
        Self {
            connect_string: rebuilt,
            close_timeout,
        }
    }
}

/// The value of a key in a connect string, as it stands there.
pub(crate) fn value<'a>(connect_string: &'a str, key: &str) -> Option<&'a str> {
    let (_, pairs) = connect_string.split_once("::")?;
    let mut pairs = split_pairs(pairs).into_iter();
    pairs.find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
}

/// The connect string with the values of credentials left out.
pub(crate) fn without_secrets(connect_string: &str) -> String {
    let Some((schema, pairs)) = connect_string.split_once("::") else {
        return String::new();
    };
    let mut shown = format!("{schema}::");
    for pair in split_pairs(pairs) {
        let key = pair.split_once('=').map_or(pair, |(key, _)| key);
        let secret = matches!(key, "password" | "pass" | "token" | "tls_roots_password");
        shown.push_str(if secret { key } else { pair });
        shown.push_str(if secret { "=...;" } else { ";" });
    }
    shown
}

/// What is promised when a call returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    /// `sf_durability`.
    pub durability: String,
    /// The stage at which `flush` returns.
    pub flush_stage: &'static str,
    /// The stage at which `publish` returns.
    pub publish_stage: &'static str,
}

/// What a connect string promises (docs/durability.md).
pub(crate) fn promise(connect_string: &str) -> Promise {
    let durability = value(connect_string, "sf_durability").unwrap_or("memory");
    let on_disk = value(connect_string, "sf_dir").is_some();
    // Unset, the rings are in files wherever there is a slot on disk.
    let intake_in_memory = value(connect_string, "intake") == Some("memory");
    let flush_stage = match durability {
        "flush" | "append" => "stable",
        _ if on_disk && intake_in_memory => "written",
        _ => "accepted",
    };
    Promise {
        durability: durability.to_owned(),
        flush_stage,
        publish_stage: if durability == "append" {
            "stable"
        } else {
            "accepted"
        },
    }
}

/// `key=value` pairs without the semicolon that ends each; `;;` inside a value stays.
fn split_pairs(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let mut pairs = Vec::new();
    let (mut from, mut at) = (0, 0);
    while at < bytes.len() {
        if bytes[at] != b';' {
            at += 1;
        } else if bytes.get(at + 1) == Some(&b';') {
            at += 2;
        } else {
            pairs.push(&text[from..at]);
            at += 1;
            from = at;
        }
    }
    if from < bytes.len() {
        pairs.push(&text[from..]);
    }
    pairs
}

/// The connect string of the embedded case: a sink at `addr`, a slot below `sf_dir`.
pub(crate) fn embedded(addr: SocketAddr, sf_dir: &Path, shards: Option<u64>) -> String {
    let dir = sf_dir.to_string_lossy().replace(';', ";;");
    let shards = shards.map_or_else(String::new, |shards| format!("shards={shards};"));
    format!(
        "ws::addr={addr};sf_dir={dir};sender_id=loadgen;sf_max_segment_bytes=64m;\
         initial_connect_retry=async;{shards}{CLOSE_KEY}=60000;"
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::{Conf, embedded, promise, value, without_secrets};

    fn parts(text: &str) -> (String, Option<u64>) {
        let conf = Conf::new(text);
        let millis = conf
            .close_timeout
            .map(|wait| u64::try_from(wait.as_millis()).unwrap());
        (conf.connect_string, millis)
    }

    #[test]
    fn the_closing_wait_is_taken_over() {
        let expected = "ws::addr=h:1;sf_dir=/a;;b;close_flush_timeout_millis=0;".to_owned();
        assert_eq!(
            parts("ws::addr=h:1;sf_dir=/a;;b;"),
            (expected.clone(), Some(5_000))
        );
        assert_eq!(
            parts("ws::addr=h:1;close_flush_timeout_millis=250;sf_dir=/a;;b"),
            (expected.clone(), Some(250))
        );
        for no_wait in ["0", "-1"] {
            let text = format!("ws::addr=h:1;sf_dir=/a;;b;close_flush_timeout_millis={no_wait};");
            assert_eq!(parts(&text), (expected.clone(), None));
        }
    }

    #[test]
    fn the_stage_of_a_call_follows_from_the_connect_string() {
        let stages = |keys: &str| {
            let promise = promise(&format!("ws::addr=h:1;{keys}"));
            (promise.flush_stage, promise.publish_stage)
        };
        assert_eq!(stages("sf_dir=/a;"), ("accepted", "accepted"));
        assert_eq!(stages("sf_dir=/a;intake=memory;"), ("written", "accepted"));
        assert_eq!(stages(""), ("accepted", "accepted"));
        assert_eq!(stages("sf_dir=/a;intake=file;"), ("accepted", "accepted"));
        assert_eq!(
            stages("sf_dir=/a;sf_durability=flush;"),
            ("stable", "accepted")
        );
        assert_eq!(
            stages("sf_dir=/a;sf_durability=append;intake=file;"),
            ("stable", "stable")
        );
        assert_eq!(value("ws::addr=h;sf_dir=/a", "sf"), None);
    }

    #[test]
    fn credentials_are_not_shown() {
        let shown = without_secrets("ws::addr=h:1;user=u;password=a;;b;token=t;sf_dir=/a;");
        assert_eq!(
            shown,
            "ws::addr=h:1;user=u;password=...;token=...;sf_dir=/a;"
        );
    }

    #[test]
    fn what_the_engine_will_refuse_reaches_it_unchanged() {
        for bad in [
            "not a connect string",
            "ws::addr=h:1;close_flush_timeout_millis=soon;",
            "ws::addr=h:1;close_flush_timeout_millis=1;close_flush_timeout_millis=2;",
        ] {
            assert_eq!(parts(bad), (bad.to_owned(), Some(5_000)));
        }
    }

    #[test]
    fn the_embedded_string_names_the_sink_and_the_slot_and_the_shards_asked_for() {
        let addr = ([127, 0, 0, 1], 9_000).into();
        let one = embedded(addr, Path::new("/tmp/a;b"), None);
        assert_eq!(
            one,
            "ws::addr=127.0.0.1:9000;sf_dir=/tmp/a;;b;sender_id=loadgen;\
             sf_max_segment_bytes=64m;initial_connect_retry=async;\
             close_flush_timeout_millis=60000;"
        );
        let three = embedded(addr, Path::new("/tmp"), Some(3));
        assert!(three.contains(";shards=3;"), "{three}");
        let conf = Conf::new(&one);
        assert_eq!(conf.close_timeout, Some(Duration::from_mins(1)));
    }
}
