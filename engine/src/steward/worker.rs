//! The steward's thread: takes one task after the other until it is to end, or dies.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use super::backlog::{Backlog, WorkerId};
use super::fault::WorkerFaults;
use super::perform::perform;
use super::supervisor::Notice;
use crate::io::sys::{block_signals, name_thread};
use crate::io::{Fs, Reply, Request};

const THREAD: &str = "forebay-stw";

/// One worker.
pub(super) struct Worker<F> {
    pub(super) id: WorkerId,
    pub(super) fs: F,
    pub(super) backlog: Arc<Backlog>,
    pub(super) notices: SyncSender<Notice>,
    pub(super) faults: WorkerFaults,
}

impl<F: Fs + 'static> Worker<F> {
    /// Starts the thread. However it ends, the supervisor hears of it.
    pub(super) fn start(self) -> io::Result<()> {
        let thread = std::thread::Builder::new().name(THREAD.to_owned());
        thread.spawn(move || self.live()).map(drop)
    }

    fn live(mut self) {
        name_thread(THREAD);
        block_signals();
        let outcome = catch_unwind(AssertUnwindSafe(|| self.work()));
        self.backlog.ended(self.id);
        let cause = match &outcome {
            Ok(()) => "it ended".to_owned(),
            Err(panic) => format!("it panicked: {}", text_of(panic.as_ref())),
        };
        // The supervisor is gone only when the engine is.
        let _ = self.notices.send(Notice::Ended(self.id, cause));
    }

    fn work(&mut self) {
        if self.faults.dies_at_start() {
            return;
        }
        while let Some(task) = self.backlog.take(self.id) {
            self.faults.before();
            let mut between: Box<dyn FnMut() -> io::Result<()>> =
                if matches!(task.request, Request::Remove { .. }) {
                    Box::new(|| self.open_and_close())
                } else {
                    Box::new(|| self.do_short_ones())
                };
            let reply = perform(&self.fs, task.request, task.begun, &mut *between);
            drop(between);
            self.faults.after();
            self.finish(reply);
        }
    }

    /// Between two pieces of a spare: whatever else waits.
    fn do_short_ones(&self) -> io::Result<()> {
        while let Some(task) = self.backlog.take_short(self.id) {
            let mut between = || self.open_and_close();
            let reply = perform(&self.fs, task.request, task.begun, &mut between);
            self.finish(reply);
        }
        if self.backlog.is_stopping() {
            return Err(io::Error::other("the engine stops"));
        }
        Ok(())
    }

    /// Between two removals, each of which takes milliseconds: files that somebody waits to read, and
    /// those that were read before them.
    #[expect(clippy::unnecessary_wraps, reason = "the shape of Between")]
    fn open_and_close(&self) -> io::Result<()> {
        while let Some(task) = self.backlog.take_file(self.id) {
            let mut never = || Ok(());
            let reply = perform(&self.fs, task.request, task.begun, &mut never);
            self.finish(reply);
        }
        Ok(())
    }

    fn finish(&self, reply: Reply) {
        if let Some(change) = self.backlog.finish(self.id, reply) {
            let _ = self.notices.try_send(Notice::Strain(change));
        }
    }
}

/// What a panic said.
pub(crate) fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no text")
}
