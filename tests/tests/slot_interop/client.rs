//! `slot_client` as a child process: commands in, lines out, and SIGKILL.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_mins(3);

/// Who writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Ours,
    Official,
}

impl Side {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Ours => Self::Official,
            Self::Official => Self::Ours,
        }
    }
}

/// A running client; killed on drop.
pub(crate) struct Client {
    child: Child,
    lines: Receiver<String>,
    side: Side,
    /// The last command.
    asked: String,
    /// Last row that it said is in the slot.
    pub(crate) accepted: Option<u64>,
}

impl Client {
    /// Starts it and waits until it holds the slot.
    pub(crate) fn open(side: Side, conf: &str) -> Self {
        let mut client = Self::start(side, conf);
        client.expect("open");
        client
    }

    /// Starts it.
    pub(crate) fn start(side: Side, conf: &str) -> Self {
        let name = match side {
            Side::Ours => "ours",
            Side::Official => "official",
        };
        let mut child = Command::new(env!("CARGO_BIN_EXE_slot_client"))
            .args([name, conf])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary is built");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let (said, lines) = channel();
        thread::spawn(move || {
            let whole = stdout.lines().map_while(Result::ok);
            // Nobody may listen any more: the rest is of no interest then.
            for line in whole {
                let _ = said.send(line);
            }
        });
        Self {
            child,
            lines,
            side,
            asked: "open".to_owned(),
            accepted: None,
        }
    }

    /// Sends a command.
    pub(crate) fn command(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().expect("still open");
        writeln!(stdin, "{line}").expect("it listens");
        line.clone_into(&mut self.asked);
    }

    /// Waits for this line, noting accepted rows on the way.
    pub(crate) fn expect(&mut self, wanted: &str) {
        loop {
            let line = self.line();
            let accepted = line.strip_prefix("accepted ");
            if let Some(number) = accepted {
                self.accepted = Some(number.parse().expect("a row number"));
            }
            if line == wanted {
                return;
            }
            assert!(accepted.is_some(), "{line:?} instead of {wanted:?}");
        }
    }

    /// Waits until `row`, or one behind it, is in the slot.
    pub(crate) fn expect_accepted(&mut self, row: u64) {
        while self.accepted.is_none_or(|accepted| accepted < row) {
            let line = self.line();
            let number = line.strip_prefix("accepted ");
            self.accepted = number.map(|number| number.parse().expect("a row number"));
            assert!(number.is_some(), "{line:?} instead of accepted {row}");
        }
    }

    fn line(&mut self) -> String {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => panic!(
                "{:?}: no answer within {PATIENCE:?} to {:?}",
                self.side, self.asked
            ),
            Err(RecvTimeoutError::Disconnected) => panic!("it ended: {}", self.stderr()),
        }
    }

    fn stderr(&mut self) -> String {
        let mut text = String::new();
        let stderr = self.child.stderr.as_mut().expect("piped");
        stderr.read_to_string(&mut text).expect("readable");
        text
    }

    /// Ends its input and waits until it has left the slot.
    pub(crate) fn leave(mut self) {
        drop(self.child.stdin.take());
        "leave".clone_into(&mut self.asked);
        self.expect("left");
        let status = self.child.wait().expect("waited for");
        assert!(status.success(), "{status}: {}", self.stderr());
    }

    /// Ends its input, which makes it leave, and kills it after `delay` if it has not left by then.
    pub(crate) fn kill_leaving(mut self, delay: Duration) {
        drop(self.child.stdin.take());
        thread::sleep(delay);
        self.child.kill().expect("killed");
        self.child.wait().expect("waited for");
    }

    /// SIGKILL; returns the last row that it said is in the slot.
    pub(crate) fn kill(mut self) -> Option<u64> {
        assert!(
            self.child.try_wait().expect("asked").is_none(),
            "it ended by itself: {}",
            self.stderr()
        );
        self.child.kill().expect("killed");
        self.child.wait().expect("waited for");
        // What it said before it died.
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            if let Some(number) = line.strip_prefix("accepted ") {
                self.accepted = Some(number.parse().expect("a row number"));
            }
        }
        self.accepted
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // It may have ended already: then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
