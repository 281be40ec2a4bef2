//! The text form of a script, a rule a line. The grammar is in docs/loadgen.md.

use std::str::FromStr;
use std::time::Duration;

use super::action::DurableManners;
use super::words::split;
use super::{Action, Malformed, Numbers, Rule, Script, When};

/// A line of a script that is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the script: {reason}")]
pub struct ScriptError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
}

impl FromStr for Script {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        let mut rules = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let parsed = split(line).and_then(|words| {
                if words.is_empty() {
                    Ok(None)
                } else {
                    rule(&words).map(Some)
                }
            });
            rules.extend(parsed.map_err(|reason| ScriptError {
                line: at + 1,
                reason,
            })?);
        }
        Ok(Self { rules })
    }
}

/// `[conn NUMBERS] [MOMENT] [times N] -> ACTION`
fn rule(words: &[String]) -> Result<Rule, String> {
    let Some(arrow) = words.iter().position(|word| word == "->") else {
        return Err("no `->` between moment and action".to_owned());
    };
    let (before, after) = (&words[..arrow], &words[arrow + 1..]);
    let action = action(&mut Words(after.iter()))?;
    let mut moment = None;
    let mut rule = Rule::new(When::Start, action);
    let mut words = Words(before.iter());
    while let Some(word) = words.0.next() {
        let when = match word.as_str() {
            "conn" => {
                rule.conn = numbers(words.need("connections")?)?;
                continue;
            }
            "times" => {
                rule.times = Some(number(words.need("a count")?)?);
                continue;
            }
            "upgrade" => When::Upgrade,
            "start" => When::Start,
            "message" => When::Message(numbers(words.need("message numbers")?)?),
            "table" => When::Table(words.need("a table")?.to_owned()),
            "applied" => When::Applied(numbers(words.need("message numbers")?)?),
            "acked" => When::Acked(number(words.need("a message number")?)?),
            "after" => When::After(duration(words.need("a time")?)?),
            "at" => When::At(duration(words.need("a time")?)?),
            other => return Err(format!("unknown word `{other}` before the action")),
        };
        if moment.replace(when).is_some() {
            return Err("more than one moment".to_owned());
        }
    }
    let upgrades = rule.action.phase() == super::Phase::Upgrade;
    rule.when = moment.unwrap_or(if upgrades { When::Upgrade } else { When::Start });
    if !rule.action.fits(&rule.when) {
        return Err("the action cannot happen at that moment".to_owned());
    }
    Ok(rule)
}

fn action(words: &mut Words<'_>) -> Result<Action, String> {
    let name = words.need("an action")?;
    let action = match name {
        "http" | "header" | "no-header" | "no-grant" | "wrong-accept" | "cap" | "half-response" => {
            at_upgrade(name, words)?
        }
        "hold" | "skip" | "delay" | "pause" | "slow-read" => of_pace(name, words)?,
        "durable" | "recreate-table" | "role" | "stop-listening" | "authorization" => {
            of_sink(name, words)?
        }
        "close" => Action::Close {
            code: narrow(words.need("a close code")?)?,
            reason: words.rest(),
        },
        "rst" => Action::Rst,
        "eof" => Action::Eof,
        "half-open" => Action::HalfOpen,
        "nack" => Action::Nack {
            status: narrow(words.need("a status byte")?)?,
            text: words.rest(),
        },
        "duplicate-ok" => Action::DuplicateOk,
        "ok-ahead" => Action::OkAhead(number(words.need("a count")?)?),
        "answer" => Action::Answer(hex(words.need("bytes in hexadecimal")?)?),
        "raw" => Action::Raw(hex(words.need("bytes in hexadecimal")?)?),
        "malformed" => {
            let kind = words.need("a kind")?;
            let known = Malformed::from_name(kind);
            Action::Malformed(known.ok_or_else(|| format!("no malformed answer `{kind}`"))?)
        }
        "ping" => Action::Ping,
        "no-pongs" => Action::NoPongs,
        "no-close-echo" => Action::NoCloseEcho,
        other => return Err(format!("unknown action `{other}`")),
    };
    match words.0.next() {
        Some(word) => Err(format!("`{word}` is too much for `{name}`")),
        None => Ok(action),
    }
}

fn at_upgrade(name: &str, words: &mut Words<'_>) -> Result<Action, String> {
    let set = |name: &str, value: Option<&str>| Action::Header {
        name: name.to_owned(),
        value: value.map(str::to_owned),
    };
    Ok(match name {
        "http" => Action::Http {
            status: narrow(words.need("a status")?)?,
            headers: words
                .0
                .by_ref()
                .map(|word| header(word))
                .collect::<Result<_, _>>()?,
        },
        "header" => {
            let (name, value) = header(words.need("a header")?)?;
            set(&name, Some(&value))
        }
        "no-header" => set(words.need("a header's name")?, None),
        "no-grant" => set("X-QWP-Durable-Ack", None),
        "wrong-accept" => set("Sec-WebSocket-Accept", Some("AAAAAAAAAAAAAAAAAAAAAAAAAAA=")),
        "cap" => match words.need("a size or `none`")? {
            "none" => Action::Cap(None),
            size => Action::Cap(Some(number(size)?)),
        },
        _ => Action::HalfResponse,
    })
}

fn of_pace(name: &str, words: &mut Words<'_>) -> Result<Action, String> {
    Ok(match name {
        "hold" => Action::Hold(duration(words.need("a time")?)?),
        "skip" => Action::Skip(number(words.need("a count")?)?),
        "delay" => Action::Delay(duration(words.need("a time")?)?),
        "pause" => Action::Pause(duration(words.need("a time")?)?),
        _ => Action::SlowRead {
            bytes: narrow(words.need("bytes of a read")?)?,
            period: duration(words.need("a time")?)?,
        },
    })
}

fn of_sink(name: &str, words: &mut Words<'_>) -> Result<Action, String> {
    Ok(match name {
        "durable" => {
            let mut manners = DurableManners::default();
            match words.need("`never`, `delay TIME` or `lag N`")? {
                "never" => manners.never = true,
                "delay" => manners.delay = duration(words.need("a time")?)?,
                "lag" => manners.lag = number(words.need("a count")?)?,
                other => return Err(format!("unknown durable manner `{other}`")),
            }
            Action::Durable(manners)
        }
        "recreate-table" => Action::RecreateTable(words.need("a table")?.to_owned()),
        "role" => Action::Role(none_or(words.need("a role or `none`")?)),
        "stop-listening" => Action::StopListening(duration(words.need("a time")?)?),
        _ => Action::Authorization(none_or(words.need("a header's value or `none`")?)),
    })
}

/// The words that are left.
struct Words<'w>(std::slice::Iter<'w, String>);

impl<'w> Words<'w> {
    fn need(&mut self, what: &str) -> Result<&'w str, String> {
        let word = self.0.next();
        word.map(String::as_str)
            .ok_or_else(|| format!("{what} is missing"))
    }

    /// All that is left as one text.
    fn rest(&mut self) -> String {
        let words: Vec<&str> = self.0.by_ref().map(String::as_str).collect();
        words.join(" ")
    }
}

fn none_or(word: &str) -> Option<String> {
    (word != "none").then(|| word.to_owned())
}

fn header(word: &str) -> Result<(String, String), String> {
    let (name, value) = word
        .split_once(':')
        .ok_or_else(|| format!("`{word}` is no header (\"Name: value\", in quotes)"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// `5`, `2..4` (both in it), `2..`, `*`, each with `/STEP`.
fn numbers(word: &str) -> Result<Numbers, String> {
    let (range, step) = word.split_once('/').unwrap_or((word, "1"));
    let numbers = match range.split_once("..") {
        _ if range == "*" => Numbers::ALL,
        None => Numbers::one(number(range)?),
        Some((from, "")) => Numbers::from(number(from)?),
        Some((from, to)) => Numbers::range(number(from)?, number(to)?),
    };
    match number(step)? {
        0 => Err(format!("`{word}` has a step of 0")),
        step => Ok(numbers.every(step)),
    }
}

/// Decimal, or hexadecimal with `0x`.
fn number(word: &str) -> Result<u64, String> {
    let parsed = match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => word.parse(),
    };
    parsed.map_err(|_| format!("`{word}` is no number"))
}

fn narrow<T: TryFrom<u64>>(word: &str) -> Result<T, String> {
    T::try_from(number(word)?).map_err(|_| format!("`{word}` is too large"))
}

/// A number with `us`, `ms` or `s`.
fn duration(word: &str) -> Result<Duration, String> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let count = number(digits)?;
    match &word[digits.len()..] {
        "us" => Ok(Duration::from_micros(count)),
        "ms" => Ok(Duration::from_millis(count)),
        "s" => Ok(Duration::from_secs(count)),
        _ => Err(format!("`{word}` is no time (us, ms, s)")),
    }
}

fn hex(word: &str) -> Result<Vec<u8>, String> {
    let wrong = || format!("`{word}` is not hexadecimal");
    if !word.len().is_multiple_of(2) || !word.is_ascii() {
        return Err(wrong());
    }
    (0..word.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&word[at..at + 2], 16).map_err(|_| wrong()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Rule {
        let script: Script = text.parse().unwrap();
        script.rules[0].clone()
    }

    #[test]
    fn a_line_is_connections_a_moment_a_count_and_an_action() {
        let rule = parse("conn 2..8/3 upgrade times 4 -> http 503 \"Retry-After: 1\"");
        assert_eq!(rule.conn, Numbers::range(2, 8).every(3));
        assert_eq!((rule.when, rule.times), (When::Upgrade, Some(4)));
        let headers = vec![("Retry-After".into(), "1".into())];
        assert_eq!(
            rule.action,
            Action::Http {
                status: 503,
                headers
            }
        );
        let rule = parse("table trades -> nack 0x09 disk full # now");
        let text = "disk full".to_owned();
        assert_eq!(rule.action, Action::Nack { status: 9, text });
        assert_eq!(rule.when, When::Table("trades".into()));
        let rule = parse("at 2s -> stop-listening 300ms");
        let stop = Action::StopListening(Duration::from_millis(300));
        assert_eq!(
            (rule.when, rule.action),
            (When::At(Duration::from_secs(2)), stop)
        );
        assert_eq!(parse("-> cap none").when, When::Upgrade);
        assert_eq!(parse("-> delay 5us").when, When::Start);
        assert_eq!(
            parse("message 1.. -> raw 00ff").action,
            Action::Raw(vec![0, 255])
        );
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        for (text, reason) in [
            ("rst", "no `->` between moment and action"),
            ("-> explode", "unknown action `explode`"),
            ("message -> rst", "message numbers is missing"),
            ("start after 1ms -> rst", "more than one moment"),
            ("-> rst now", "`now` is too much for `rst`"),
            (
                "upgrade -> nack 3",
                "the action cannot happen at that moment",
            ),
            (
                "message 1 -> cap 5",
                "the action cannot happen at that moment",
            ),
            ("-> nack 300", "`300` is too large"),
            ("-> hold 5", "`5` is no time (us, ms, s)"),
            ("-> raw 0", "`0` is not hexadecimal"),
            ("message 0..9/0 -> rst", "`0..9/0` has a step of 0"),
        ] {
            let error = format!("# first\n{text}").parse::<Script>().unwrap_err();
            assert_eq!((error.line, error.reason.as_str()), (2, reason), "{text}");
        }
    }
}
