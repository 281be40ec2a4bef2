//! `addr`: a comma list of `host[:port]` (protocol.md section 17).

use std::net::Ipv6Addr;

use super::Endpoint;
use super::value::number;
use crate::error::Error;

const KEY: &str = "addr";
const PORT: u16 = 9000;

/// Reads the list; order is kept, duplicates are refused.
pub(super) fn endpoints(list: &str) -> Result<Vec<Endpoint>, Error> {
    let mut endpoints: Vec<Endpoint> = Vec::new();
    for entry in list.split(',') {
        let endpoint = endpoint(entry.trim())?;
        let twice = |known: &Endpoint| {
            known.port == endpoint.port && known.host.eq_ignore_ascii_case(&endpoint.host)
        };
        if endpoints.iter().any(twice) {
            return Err(refused(entry, "the address is given twice"));
        }
        endpoints.push(endpoint);
    }
    Ok(endpoints)
}

fn refused(entry: &str, why: &str) -> Error {
    Error::config(KEY, format!("invalid address {entry:?}: {why}"))
}

fn endpoint(entry: &str) -> Result<Endpoint, Error> {
    if entry.is_empty() {
        return Err(refused(entry, "expected host or host:port"));
    }
    let (host, port) = match entry.strip_prefix('[') {
        Some(rest) => {
            let Some((host, after)) = rest.split_once(']') else {
                return Err(refused(entry, "the bracket is not closed"));
            };
            if host.parse::<Ipv6Addr>().is_err() {
                return Err(refused(entry, "expected an IPv6 address in the brackets"));
            }
            let port = match after.strip_prefix(':') {
                Some(port) => Some(port),
                None if after.is_empty() => None,
                None => return Err(refused(entry, "expected :port after the bracket")),
            };
            (host, port)
        }
        None => match entry.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err(refused(
                    entry,
                    "an IPv6 address needs brackets: [address]:port",
                ));
            }
            Some((host, port)) => (host, Some(port)),
            None => (entry, None),
        },
    };
    let foreign = |c: char| c.is_whitespace() || matches!(c, '/' | '@' | '[' | ']');
    if host.is_empty() || host.contains(foreign) {
        return Err(refused(entry, "expected a host name or an address literal"));
    }
    let port = match port {
        None => PORT,
        Some(port) => number(KEY, port, 1, u64::from(u16::MAX))
            .ok()
            .and_then(|port| u16::try_from(port).ok())
            .ok_or_else(|| refused(entry, "the port is a number from 1 to 65535"))?,
    };
    Ok(Endpoint {
        host: host.to_owned(),
        port,
    })
}
