//! The confirm log: which batches reached a stage, told to a checker outside this process.
//!
//! One line is one decimal batch number: every batch up to it has reached the stage. Lines only
//! grow, and each is fsynced before the next batch is looked at, so what the log says holds after
//! a kill. A kill can leave a last line without its newline; readers ignore it.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use forebay::{Receipt, Stage};

use crate::error::Error;

/// A stage that a log can confirm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfirmStage {
    /// In its segment: survives process death.
    Written,
    /// Synced: survives power loss.
    Stable,
    /// Confirmed by the server.
    Acked,
}

impl ConfirmStage {
    /// The engine's name for it.
    pub fn stage(self) -> Stage {
        match self {
            Self::Written => Stage::Written,
            Self::Stable => Stage::Stable,
            Self::Acked => Stage::Acked,
        }
    }
}

impl FromStr for ConfirmStage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "written" => Ok(Self::Written),
            "stable" => Ok(Self::Stable),
            "acked" => Ok(Self::Acked),
            _ => Err(format!(
                "unknown stage {text:?}; known are written, stable, acked"
            )),
        }
    }
}

/// What can be asked whether it reached a stage. [`Receipt`] is the one; tests have another.
pub trait Reached {
    /// Whether the stage is reached.
    ///
    /// # Errors
    /// The engine's, when the stage can no longer be reached.
    fn reached(&self, stage: Stage) -> Result<bool, forebay::Error>;
}

impl Reached for Receipt {
    fn reached(&self, stage: Stage) -> Result<bool, forebay::Error> {
        Receipt::reached(self, stage)
    }
}

/// An open log with the batches that have not reached its stage.
#[derive(Debug)]
pub struct ConfirmLog<R = Receipt> {
    path: PathBuf,
    file: File,
    stage: Stage,
    waiting: VecDeque<(u64, R)>,
    confirmed: Option<u64>,
}

impl<R: Reached> ConfirmLog<R> {
    /// Opens the log for appending and creates it if need be. A last line cut short by a kill is
    /// removed first, so that the next one starts on its own.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn open(path: &Path, stage: ConfirmStage) -> Result<Self, Error> {
        let fail = |op| move |source| Error::io(op, path, source);
        let whole_bytes = read_if_there(path)?
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |newline| newline as u64 + 1);
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .map_err(fail("open"))?;
        file.set_len(whole_bytes).map_err(fail("truncate"))?;
        file.sync_all().map_err(fail("fsync"))?;
        Ok(Self {
            path: path.to_path_buf(),
            file,
            stage: stage.stage(),
            waiting: VecDeque::new(),
            confirmed: None,
        })
    }

    /// Adds a published batch. Numbers grow.
    pub fn push(&mut self, batch: u64, receipt: R) {
        debug_assert!(self.waiting.back().is_none_or(|(last, _)| *last < batch));
        self.waiting.push_back((batch, receipt));
    }

    /// Logs the highest batch such that it and all before it reached the stage, if that is news.
    ///
    /// # Errors
    /// [`Error::Io`] for the log, [`Error::Engine`] for a batch that can no longer get there.
    pub fn poll(&mut self) -> Result<(), Error> {
        let mut news = None;
        while let Some((batch, receipt)) = self.waiting.front() {
            match receipt.reached(self.stage) {
                Ok(true) => news = Some(*batch),
                Ok(false) => break,
                Err(error) => {
                    self.write(news)?;
                    return Err(error.into());
                }
            }
            self.waiting.pop_front();
        }
        self.write(news)
    }

    fn write(&mut self, news: Option<u64>) -> Result<(), Error> {
        let Some(batch) = news else { return Ok(()) };
        self.file
            .write_all(format!("{batch}\n").as_bytes())
            .map_err(|source| Error::io("append to", &self.path, source))?;
        self.file
            .sync_data()
            .map_err(|source| Error::io("fsync", &self.path, source))?;
        self.confirmed = Some(batch);
        Ok(())
    }

    /// The last batch that this process logged.
    pub fn confirmed(&self) -> Option<u64> {
        self.confirmed
    }

    /// Batches that have not reached the stage.
    pub fn waiting_count(&self) -> usize {
        self.waiting.len()
    }
}

/// The last batch that the log at `path` confirms; 0 if there is no log or nothing in it.
///
/// # Errors
/// [`Error::Io`], or [`Error::Config`] for a line that is no batch number.
pub fn last_confirmed(path: &Path) -> Result<u64, Error> {
    let bytes = read_if_there(path)?;
    let mut last = 0;
    let lines = bytes.split_inclusive(|&byte| byte == b'\n');
    for (index, line) in lines.enumerate() {
        let Some(digits) = line.strip_suffix(b"\n") else {
            break;
        };
        let text = String::from_utf8_lossy(digits);
        last = text.parse().map_err(|_| {
            let place = format!("{} line {}", path.display(), index + 1);
            Error::config(
                "--resume",
                format!("{place}: {text:?} is not a batch number"),
            )
        })?;
    }
    Ok(last)
}

fn read_if_there(path: &Path) -> Result<Vec<u8>, Error> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::io("read", path, error)),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use forebay::Stage;

    use super::{ConfirmLog, ConfirmStage, Reached, last_confirmed};

    #[derive(Clone)]
    struct Fake(Rc<Cell<Result<bool, ()>>>);

    impl Fake {
        fn new() -> Self {
            Self(Rc::new(Cell::new(Ok(false))))
        }
    }

    impl Reached for Fake {
        fn reached(&self, stage: Stage) -> Result<bool, forebay::Error> {
            assert_eq!(stage, Stage::Acked);
            self.0.get().map_err(|()| forebay::Error::Closed)
        }
    }

    #[test]
    fn the_log_holds_the_highest_batch_before_the_first_that_waits() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = ConfirmLog::open(&path, ConfirmStage::Acked).unwrap();
        let receipts = [Fake::new(), Fake::new(), Fake::new(), Fake::new()];
        for (number, receipt) in (1..).zip(&receipts) {
            log.push(number, receipt.clone());
        }
        log.poll().unwrap();
        assert_eq!(last_confirmed(&path).unwrap(), 0);
        for reached in [0, 1, 3] {
            receipts[reached].0.set(Ok(true));
        }
        log.poll().unwrap();
        log.poll().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "2\n");
        assert_eq!((log.confirmed(), log.waiting_count()), (Some(2), 2));
        receipts[2].0.set(Ok(true));
        receipts[3].0.set(Err(()));
        assert!(log.poll().is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "2\n3\n");
        assert_eq!(last_confirmed(&path).unwrap(), 3);
    }

    #[test]
    fn a_line_cut_short_by_a_kill_is_ignored_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, "7\n12\n9").unwrap();
        assert_eq!(last_confirmed(&path).unwrap(), 12);
        let mut log = ConfirmLog::open(&path, ConfirmStage::Acked).unwrap();
        let receipt = Fake::new();
        receipt.0.set(Ok(true));
        log.push(13, receipt);
        log.poll().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "7\n12\n13\n");
    }

    #[test]
    fn a_file_that_is_no_confirm_log_is_refused_by_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, "1\nsymbol,side\n").unwrap();
        let error = last_confirmed(&path).unwrap_err().to_string();
        assert!(
            error.contains("line 2") && error.contains("symbol,side"),
            "{error}"
        );
    }

    #[test]
    fn stages_parse() {
        assert_eq!("written".parse(), Ok(ConfirmStage::Written));
        assert_eq!("stable".parse(), Ok(ConfirmStage::Stable));
        assert_eq!("acked".parse(), Ok(ConfirmStage::Acked));
        assert!(
            "accepted"
                .parse::<ConfirmStage>()
                .unwrap_err()
                .contains("accepted")
        );
    }
}
