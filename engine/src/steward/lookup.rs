//! What a connection attempt needs first: the addresses of a name and the text of a secret.
//!
//! Both may hang (a resolver for half a minute, a file on a dead mount for ever), so every look-up
//! has a thread of its own. The thread that hands them out never blocks; when too many hang, it
//! answers that instead of starting another one.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::config::Secret;
use crate::io::sys::{block_signals, name_thread, read_bounded};
use crate::io::{Asked, Found};

/// Look-ups that may run (or hang) at the same time.
const LOOKUPS_MAX: usize = 4;
/// A token or password is at most this long.
const SECRET_BYTES_MAX: u64 = 64 << 10;
const THREAD: &str = "forebay-dns";

/// Turns a host name and a port into addresses.
pub(crate) type Resolver = Arc<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// The resolver of the operating system.
pub(crate) fn system() -> Resolver {
    Arc::new(|host, port| (host, port).to_socket_addrs().map(Iterator::collect))
}

/// Hands out look-ups, one thread each.
pub(super) struct Lookups {
    resolver: Resolver,
    running: Arc<AtomicUsize>,
}

impl Lookups {
    pub(super) fn new(resolver: Resolver) -> Self {
        let running = Arc::new(AtomicUsize::new(0));
        Self { resolver, running }
    }

    /// Starts a look-up; `answer` is called with its outcome, here or on another thread.
    pub(super) fn start(&self, asked: Asked, answer: impl Fn(Found) + Clone + Send + 'static) {
        if self.running.load(Ordering::Acquire) >= LOOKUPS_MAX {
            let reason = format!("{LOOKUPS_MAX} earlier look-ups still wait for their answers");
            return answer(failed(asked, &io::Error::new(ErrorKind::TimedOut, reason)));
        }
        self.running.fetch_add(1, Ordering::AcqRel);
        let (resolver, running) = (Arc::clone(&self.resolver), Arc::clone(&self.running));
        let (request, reply) = (asked.clone(), answer.clone());
        let thread = std::thread::Builder::new().name(THREAD.to_owned());
        let started = thread.spawn(move || {
            name_thread(THREAD);
            block_signals();
            let found = perform(&request, &resolver);
            running.fetch_sub(1, Ordering::AcqRel);
            reply(found);
        });
        if let Err(error) = started {
            self.running.fetch_sub(1, Ordering::AcqRel);
            answer(failed(asked, &error));
        }
    }
}

/// The answer to a look-up that could not be made.
pub(super) fn failed(asked: Asked, error: &io::Error) -> Found {
    let again = || io::Error::new(error.kind(), error.to_string());
    Found {
        secret: asked.secret.as_ref().map(|_| Err(again())),
        addresses: Err(again()),
        asked,
    }
}

/// Resolves the name and reads the secret.
pub(super) fn perform(asked: &Asked, resolver: &Resolver) -> Found {
    let addresses = match resolver(&asked.host, asked.port) {
        Ok(addresses) if addresses.is_empty() => {
            let reason = "the name has no address";
            Err(io::Error::new(ErrorKind::NotFound, reason))
        }
        other => other,
    };
    Found {
        addresses,
        secret: asked.secret.as_deref().map(read_secret),
        asked: asked.clone(),
    }
}

/// The text of a secret file without the line breaks at its end. Errors never quote it.
fn read_secret(path: &Path) -> io::Result<Secret> {
    let invalid = |reason: &str| io::Error::new(ErrorKind::InvalidData, reason);
    let bytes = read_bounded(path, SECRET_BYTES_MAX)?;
    let text = String::from_utf8(bytes).map_err(|_| invalid("not UTF-8 text"))?;
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() {
        return Err(invalid("the file is empty"));
    }
    if text.chars().any(char::is_control) {
        return Err(invalid("more than one line, or control characters"));
    }
    Ok(Secret(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(host: &str, secret: Option<&Path>) -> Asked {
        Asked {
            attempt: 1,
            host: host.to_owned(),
            port: 9,
            secret: secret.map(Path::to_path_buf),
        }
    }

    #[test]
    fn secrets_lose_their_last_line_breaks_and_nothing_else() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("token");
        let read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("a written file");
            read_secret(&path).map(|secret| secret.0)
        };
        assert_eq!(read(b"t0k3n\r\n\n").expect("good"), "t0k3n");
        assert_eq!(read(b" a b ").expect("good"), " a b ");
        assert_eq!(read(&vec![b'x'; 65_536]).expect("good").len(), 65_536);
        for bad in [
            b"".as_slice(),
            b"\n",
            b"s3cret\nb\n",
            b"s3cret\xff",
            &vec![b'x'; 65_537],
        ] {
            let error = read(bad).expect_err("refused").to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
        std::fs::remove_file(&path).expect("removed");
        let error = read_secret(&path).expect_err("missing");
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn hung_lookups_block_neither_each_other_nor_the_next() {
        let (release, hung) = std::sync::mpsc::sync_channel::<()>(0);
        let hung = std::sync::Mutex::new(hung);
        let resolver: Resolver = Arc::new(move |host, port| {
            if host == "hangs" {
                let _ = hung.lock().expect("not poisoned").recv();
            }
            Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))])
        });
        let lookups = Lookups::new(resolver);
        let (sender, answers) = std::sync::mpsc::channel();
        let start = |host: &str| {
            let sender = sender.clone();
            lookups.start(asked(host, None), move |found| {
                let _ = sender.send(found);
            });
        };
        for _ in 1..LOOKUPS_MAX {
            start("hangs");
        }
        start("answers");
        let found = answers.recv().expect("an answer");
        assert_eq!(found.asked.host, "answers");
        assert!(found.addresses.is_ok());
        start("hangs");
        start("too many");
        let found = answers.recv().expect("an answer");
        assert_eq!(found.asked.host, "too many");
        let error = found.addresses.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        drop(release);
        for _ in 0..LOOKUPS_MAX {
            let found = answers.recv().expect("an answer");
            assert_eq!(found.asked.host, "hangs");
        }
        start("again");
        assert!(answers.recv().expect("an answer").addresses.is_ok());
    }
}
