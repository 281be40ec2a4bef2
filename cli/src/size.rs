//! `forebay size`: how large `sf_max_total_bytes` has to be for a rate and an outage.

use std::io::Write;

use clap::Args;

use crate::error::Failure;
use crate::{Outcome, paper};

/// Bytes of a segment where the connect string says nothing.
const SEGMENT_BYTES: u64 = 4 << 20;

/// Computes the cap, `sf_max_total_bytes`, that keeps an outage's rows.
#[derive(Debug, Args)]
pub(crate) struct SizeArgs {
    /// Bytes of frames a second: digits with k, m, g (1,000) or ki, mi, gi (1,024), as 10MB.
    #[arg(long, value_name = "BYTES", value_parser = parse_rate)]
    rate: u64,
    /// How long the server may be away: digits with s, m, h, d, as 5m.
    #[arg(long, value_name = "TIME", value_parser = parse_outage)]
    outage: u64,
    /// The key `sf_max_segment_bytes`.
    #[arg(long, value_name = "BYTES", value_parser = parse_rate, default_value_t = SEGMENT_BYTES)]
    segment: u64,
}

impl SizeArgs {
    pub(crate) fn execute(self, out: &mut impl Write) -> Result<Outcome, Failure> {
        let too_large = || Failure::Option {
            option: "--rate, --outage",
            reason: format!(
                "{} bytes/s for {} s are more than 2^64 bytes",
                self.rate, self.outage
            ),
        };
        let (data, cap) = cap(self.rate, self.outage, self.segment).ok_or_else(too_large)?;
        let mut write = || {
            writeln!(out, "sf_max_total_bytes={cap}")?;
            writeln!(
                out,
                "{cap} bytes ({}) = {} bytes/s * {} s = {data} bytes, up to whole segments of {} \
                 bytes, and 2 more: one partly acked, one spare",
                paper::bytes(cap),
                self.rate,
                self.outage,
                self.segment
            )
        };
        write().map_err(Failure::Output)?;
        Ok(Outcome::Sound)
    }
}

/// Bytes that arrive during the outage, and the cap that holds them.
fn cap(rate: u64, outage_seconds: u64, segment: u64) -> Option<(u64, u64)> {
    let data = rate.checked_mul(outage_seconds)?;
    let segments = data.div_ceil(segment).checked_add(2)?;
    Some((data, segments.checked_mul(segment)?))
}

/// Digits and a unit from `units`, a name and its factor each.
fn parse(text: &str, units: &[(&str, u64)], what: &str) -> Result<u64, String> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| format!("expected {what}"))?;
    let factor = units.iter().find(|(name, _)| *name == unit.trim());
    let (_, factor) = factor.ok_or_else(|| format!("unit {unit:?}: expected {what}"))?;
    let product = number.checked_mul(*factor).filter(|product| *product > 0);
    product.ok_or_else(|| format!("expected {what}, from 1 to 2^64 - 1 in all"))
}

fn parse_rate(text: &str) -> Result<u64, String> {
    let what = "digits and k, m, g, t (1,000) or ki, mi, gi, ti (1,024), with or without B";
    let text = text.trim();
    // "/s" says what a rate is anyway.
    let text = text.strip_suffix("/s").unwrap_or(text);
    let bare = text.strip_suffix(['b', 'B']).unwrap_or(text);
    let units = [
        ("", 1),
        ("k", 1_000),
        ("m", 1_000_000),
        ("g", 1_000_000_000),
        ("t", 1_000_000_000_000),
        ("ki", 1 << 10),
        ("mi", 1 << 20),
        ("gi", 1 << 30),
        ("ti", 1 << 40),
    ];
    parse(bare, &units, what)
}

fn parse_outage(text: &str) -> Result<u64, String> {
    let units = [
        ("s", 1),
        ("", 1),
        ("m", 60),
        ("min", 60),
        ("h", 3600),
        ("d", 86_400),
    ];
    parse(text, &units, "digits and s, m, h or d")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operators_example_comes_out_at_three_gigabytes() {
        let rate = parse_rate("10MB").unwrap();
        let outage = parse_outage("5m").unwrap();
        // 715.26 segments of 4 MiB, so 716 and 2 more.
        let want = (3_000_000_000, 718 * SEGMENT_BYTES);
        assert_eq!(cap(rate, outage, SEGMENT_BYTES), Some(want));
        assert_eq!(cap(u64::MAX, 2, SEGMENT_BYTES), None);
        assert_eq!(cap(u64::MAX, 1, SEGMENT_BYTES), None);
    }

    #[test]
    fn units_are_read_and_nonsense_is_refused() {
        let rates = ["1", "2k", "3KB", "4MiB", "5 gb", "10MB/s"].map(parse_rate);
        let want = [1, 2_000, 3_000, 4 << 20, 5_000_000_000, 10_000_000];
        assert_eq!(rates, want.map(Ok));
        assert_eq!(parse_outage("90s"), Ok(90));
        assert_eq!(parse_outage("2h"), Ok(7_200));
        for wrong in ["", "MB", "-1", "1.5m", "1x", "0", "99999999999t", "1é"] {
            assert!(parse_rate(wrong).is_err(), "{wrong}");
        }
        assert!(parse_outage("5y").is_err());
    }
}
