//! The server of a measurement: `forebay-loadgen sink --count` in a process of its own.
//!
//! The process is this program once more, with the same sink behind it. It ends when its input
//! does, so none outlives the measurement, whatever becomes of that.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;

use forebay_loadgen::sink::{Sink, SinkConfig};
use serde_json::Value;

/// Where the server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seat {
    /// On the last core that is allowed where somebody makes rows, on the first, which nobody else
    /// needs, where a backlog is delivered: a single shard of ours is on the last by default.
    Spare,
    /// On the last core that is allowed.
    Last,
    /// On this core.
    Core(usize),
    /// Wherever the kernel puts it.
    Any,
}

impl Seat {
    /// The core, in a measurement in which somebody `makes_rows`; `None` where the kernel decides.
    pub(super) fn core(self, makes_rows: bool) -> Option<usize> {
        let allowed = || core_affinity::get_core_ids().unwrap_or_default();
        let core = match self {
            Self::Any => None,
            Self::Core(core) => return Some(core),
            Self::Spare if !makes_rows => allowed().first().copied(),
            Self::Spare | Self::Last => allowed().last().copied(),
        };
        core.map(|core| core.id)
    }
}

impl FromStr for Seat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "spare" => Ok(Self::Spare),
            "last" => Ok(Self::Last),
            "any" => Ok(Self::Any),
            number => number
                .parse()
                .map(Self::Core)
                .map_err(|_| format!("{text}: expected spare, last, any or the number of a core")),
        }
    }
}

/// What the child does.
pub(super) fn serve(ok_every: u64, core: Option<usize>) -> Result<(), Box<dyn Error>> {
    let sink = Sink::start(SinkConfig {
        ok_every,
        pin_core: core,
        ..SinkConfig::default()
    })?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", sink.addr())?;
    out.flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    writeln!(out, "{}", sink.stop().to_json())?;
    Ok(())
}

/// A running server.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    pub(super) address: String,
}

impl Server {
    pub(super) fn start(ok_every: u64, core: Option<usize>) -> Result<Self, Box<dyn Error>> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["versus-sink", &ok_every.to_string()])
            .args(core.map(|core| core.to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut out = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut address = String::new();
        out.read_line(&mut address)?;
        let address = address.trim().to_owned();
        Ok(Self {
            child,
            out,
            address,
        })
    }

    /// Ends it; answers rows and bytes of messages that it counted.
    pub(super) fn stop(mut self) -> Result<(u64, u64), Box<dyn Error>> {
        drop(self.child.stdin.take());
        let mut said = String::new();
        self.out.read_to_string(&mut said)?;
        self.child.wait()?;
        let totals: Value = serde_json::from_str(&said)?;
        let number = |name: &str| totals[name].as_u64();
        let counted = number("rows").zip(number("message_bytes"));
        counted.ok_or_else(|| format!("the server said {said}").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_a_rule_or_the_number_of_a_core() {
        assert_eq!("spare".parse(), Ok(Seat::Spare));
        assert_eq!("last".parse(), Ok(Seat::Last));
        assert_eq!("any".parse(), Ok(Seat::Any));
        assert_eq!("3".parse(), Ok(Seat::Core(3)));
        let refused = "first".parse::<Seat>().expect_err("not a seat");
        assert!(
            refused.contains("first") && refused.contains("any"),
            "{refused}"
        );
        let allowed = core_affinity::get_core_ids().expect("known");
        let (first, last) = (allowed.first().expect("one"), allowed.last().expect("one"));
        for makes_rows in [true, false] {
            assert_eq!(Seat::Any.core(makes_rows), None);
            assert_eq!(Seat::Core(1).core(makes_rows), Some(1));
            assert_eq!(Seat::Last.core(makes_rows), Some(last.id));
        }
        assert_eq!(Seat::Spare.core(true), Some(last.id));
        assert_eq!(Seat::Spare.core(false), Some(first.id));
    }
}
