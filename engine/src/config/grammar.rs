//! The outer grammar: `schema::key=value;key=value;` (protocol.md section 17).
//!
//! The crate `questdb-confstr` reads it. It refuses every repeated key, while `addr` may be given
//! several times; so the values of repeated `addr` keys are joined with commas before it looks.

use std::borrow::Cow;
use std::collections::BTreeMap;

use questdb_confstr::{ErrorKind, parse_conf_str};

use super::keys::is_listed;
use crate::error::Error;

/// The keys of a connect string that nobody has asked for yet.
#[derive(Default)]
pub(super) struct Params(BTreeMap<String, String>);

impl Params {
    /// Reads a connect string: the schema, in lower case, and the keys.
    pub(super) fn read(text: &str) -> Result<(String, Self), Error> {
        let parsed = parse_conf_str(&join_addr(text)).map_err(|error| match error.kind() {
            ErrorKind::DuplicateKey(key) => Error::config(key.clone(), "the key is given twice"),
            // The texts of this crate name at most one character, never a value.
            _ => Error::config("connect string", error.to_string()),
        })?;
        let keys = parsed
            .params()
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()));
        Ok((parsed.service().to_ascii_lowercase(), Self(keys.collect())))
    }

    /// Takes the value of a key out.
    pub(super) fn take(&mut self, key: &str) -> Option<String> {
        debug_assert!(
            is_listed(key),
            "{key} is taken: list it in config/keys.rs and in docs/configuration.md"
        );
        self.0.remove(key)
    }

    /// Whether a key that starts like this is given and not taken yet.
    pub(super) fn has_prefix(&self, prefix: &str) -> bool {
        self.0
            .range(prefix.to_owned()..)
            .next()
            .is_some_and(|(key, _)| key.starts_with(prefix))
    }

    /// The keys that are left, in alphabetical order.
    pub(super) fn rest(self) -> impl Iterator<Item = (String, String)> {
        self.0.into_iter()
    }
}

/// Gives all values of repeated `addr` keys to the first one.
fn join_addr(text: &str) -> Cow<'_, str> {
    let Some((schema, params)) = text.split_once("::") else {
        return Cow::Borrowed(text);
    };
    let params = split_params(params);
    let values: Vec<&str> = params
        .iter()
        .filter_map(|param| param.strip_prefix("addr="))
        .collect();
    if values.len() < 2 {
        return Cow::Borrowed(text);
    }
    let joined = format!("addr={}", values.join(","));
    let mut addr = Some(joined.as_str());
    let kept = params.iter().filter_map(|param| {
        if param.starts_with("addr=") {
            addr.take()
        } else {
            Some(*param)
        }
    });
    Cow::Owned(format!("{schema}::{}", kept.collect::<Vec<_>>().join(";")))
}

/// Splits at every `;` that is not doubled.
fn split_params(text: &str) -> Vec<&str> {
    let mut params = Vec::new();
    let (mut from, mut at) = (0, 0);
    let bytes = text.as_bytes();
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b';', Some(b';')) => at += 2,
            (b';', _) => {
                params.push(&text[from..at]);
                at += 1;
                from = at;
            }
            _ => at += 1,
        }
    }
    params.push(&text[from..]);
    params
}
