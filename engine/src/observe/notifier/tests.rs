//! Handlers that misbehave, order, folding, levels.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::mpsc::{channel, sync_channel};
use std::time::Instant;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Metadata, Subscriber};

use super::super::event::{Category, ConnectionChange, Event};
use super::super::fold::WINDOW;
use super::*;
use crate::config::EventKeys;
use crate::io::sys::EventFd;
use crate::router::gate::{Terminal, lock};
use crate::router::hall::Hall;

fn gate(errors: usize) -> Arc<Gate> {
    let bell = EventFd::new().expect("a descriptor");
    let connections = 64;
    let hall = Hall::new(EventKeys {
        errors,
        connections,
    });
    Arc::new(Gate::of(Arc::new(hall), 0, bell))
}

fn error(policy: Policy, text: &str) -> SenderError {
    SenderError::new(Category::WriteError, policy, text.to_owned())
}

fn lost(cause: &str) -> ConnectionEvent {
    let change = ConnectionChange::Disconnected {
        endpoint: "db:9000".to_owned(),
        cause: cause.to_owned(),
    };
    ConnectionEvent { shard: 1, change }
}

/// Collects log lines of the test's own thread.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<(Level, String)>>>);

impl Visit for Lines {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let mut lines = lock(&self.0);
        let line = &mut lines.last_mut().expect("an event begins with its line").1;
        let _ = write!(line, " {}={value:?}", field.name());
    }
}

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        lock(&self.0).push((*event.metadata().level(), String::new()));
        event.record(&mut self.clone());
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// What `work` logs.
fn logged(work: impl FnOnce()) -> Vec<(Level, String)> {
    let lines = Lines::default();
    tracing::subscriber::with_default(lines.clone(), work);
    std::mem::take(&mut *lock(&lines.0))
}

#[test]
fn a_handler_that_panics_is_counted_and_its_event_is_logged() {
    let gate = gate(16);
    let handlers = Handlers {
        error: Some(Box::new(|_| panic!("a bug of the application"))),
        connection: Some(Box::new(|_| panic!("another"))),
        ..Handlers::default()
    };
    let mut desk = Desk::new(Arc::clone(&gate.hall), vec![Arc::clone(&gate)], handlers);
    let lines = logged(|| {
        for n in 0..3 {
            desk.handle_error(Arc::new(error(Policy::Abandoned, &format!("e{n}"))), n);
        }
        desk.handle_change(lost("reset"), 3);
    });
    let stats = gate.hall.stats();
    assert_eq!(stats.handler_panics, 4);
    assert_eq!(
        (stats.errors_delivered, stats.connection_events_delivered),
        (3, 1)
    );
    // One line for each panic; of the three alike events the first at once.
    let with = |id: &str| lines.iter().filter(|line| line.1.contains(id)).count();
    assert_eq!(
        (with("FB-E006"), with("FB-E002"), with("FB-N004")),
        (4, 1, 1)
    );
}

#[test]
fn the_repeats_of_one_shard_do_not_hide_what_happens_to_another() {
    let gate = gate(16);
    let handlers = Handlers::default();
    let mut desk = Desk::new(Arc::clone(&gate.hall), vec![Arc::clone(&gate)], handlers);
    let lines = logged(|| {
        for (n, shard) in (0..).zip([1, 1, 2, 1, 2]) {
            desk.handle_change(ConnectionEvent { shard, ..lost("x") }, n);
            let mut error = error(Policy::Retriable, "x");
            error.shard = shard;
            desk.handle_error(Arc::new(error), n);
        }
    });
    for id in ["FB-N004", "FB-E003"] {
        let of_id = lines.iter().filter(|line| line.1.contains(id));
        let shards: Vec<_> = of_id.map(|line| line.1.contains("shard=2")).collect();
        assert_eq!(shards, [false, true], "{id}: {lines:?}");
    }
}

#[test]
fn a_dictionary_at_80_percent_is_told_once() {
    let gate = gate(16);
    gate.set_symbols_max(1000);
    let mut desk = Desk::new(
        Arc::clone(&gate.hall),
        vec![Arc::clone(&gate)],
        Handlers::default(),
    );
    let mut now = 0;
    let mut warnings = |symbols: u64| {
        gate.counters.symbols.set(symbols);
        now += nanos(TICK);
        let lines = logged(|| desk.tick(now));
        let told = |line: &&(Level, String)| line.1.contains("FB-E007") && line.0 == Level::WARN;
        lines.iter().filter(told).count()
    };
    let told = [0, 799, 800, 801, 1000, 0, 900].map(&mut warnings);
    assert_eq!(told, [0, 0, 1, 0, 0, 0, 1]);
}

#[test]
fn a_handler_that_blocks_holds_up_neither_the_shard_nor_the_close() {
    let gate = gate(16);
    let (entered, in_handler) = channel();
    let (release, released) = sync_channel::<()>(0);
    let handlers = Handlers {
        error: Some(Box::new(move |_| {
            let _ = entered.send(());
            let _ = released.recv();
        })),
        ..Handlers::default()
    };
    let notifier =
        Notifier::spawn(&gate.hall, vec![Arc::clone(&gate)], handlers).expect("a thread");
    gate.hall
        .events
        .push(Event::Error(error(Policy::Retriable, "first")));
    in_handler.recv().expect("the handler is called");
    let start = Instant::now();
    for n in 0..10_000 {
        gate.hall
            .events
            .push(Event::Error(error(Policy::Retriable, &n.to_string())));
    }
    assert!(start.elapsed() < Duration::from_secs(30), "pushes wait");
    assert_eq!(gate.hall.stats().errors_dropped, 10_000 - 16);
    let start = Instant::now();
    drop(notifier);
    let waited = start.elapsed();
    assert!(
        waited >= STOP_LIMIT && waited < 30 * STOP_LIMIT,
        "waited {waited:?}"
    );
    drop(release);
}

#[test]
fn handlers_hear_every_event_in_order_and_are_done_when_the_close_returns() {
    let gate = gate(1024);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (errors, changes) = (Arc::clone(&heard), Arc::clone(&heard));
    let handlers = Handlers {
        error: Some(Box::new(move |error| {
            lock(&errors).push(error.message.clone());
        })),
        connection: Some(Box::new(move |event| match &event.change {
            ConnectionChange::Disconnected { cause, .. } => lock(&changes).push(cause.clone()),
            other => panic!("{other:?}"),
        })),
        ..Handlers::default()
    };
    let notifier =
        Notifier::spawn(&gate.hall, vec![Arc::clone(&gate)], handlers).expect("a thread");
    let expected: Vec<_> = (0..100).map(|n| n.to_string()).collect();
    for (n, text) in expected.iter().enumerate() {
        gate.hall.events.push(if n % 3 == 0 {
            Event::Connection(lost(text))
        } else {
            Event::Error(error(Policy::Retriable, text))
        });
    }
    drop(notifier);
    assert_eq!(*lock(&heard), expected);
}

#[test]
fn a_terminal_error_is_told_once_and_never_before_it_is_latched() {
    let gate = gate(16);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (told, asked) = (Arc::clone(&seen), Arc::clone(&gate));
    let handlers = Handlers {
        error: Some(Box::new(move |error| {
            lock(&told).push((error.message.clone(), asked.terminal().is_some()));
        })),
        ..Handlers::default()
    };
    let notifier =
        Notifier::spawn(&gate.hall, vec![Arc::clone(&gate)], handlers).expect("a thread");
    for reason in ["first", "second"] {
        let terminal = Terminal {
            endpoint: "db:9000".to_owned(),
            reason: reason.to_owned(),
        };
        gate.fail_as(Category::ProtocolViolation, terminal);
    }
    drop(notifier);
    assert_eq!(*lock(&seen), [("first".to_owned(), true)]);
}

#[test]
fn progress_is_told_when_it_changes() {
    let gate = gate(16);
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let handlers = Handlers {
        progress: Some(Box::new(move |progress| lock(&tell).push(*progress))),
        ..Handlers::default()
    };
    let mut desk = Desk::new(Arc::clone(&gate.hall), vec![Arc::clone(&gate)], handlers);
    desk.tell_progress();
    gate.counters.fsn_next.set(7);
    desk.tell_progress();
    desk.tell_progress();
    gate.counters.fsn_acked.set(7);
    desk.finish();
    let progress = |published, acked| Progress { published, acked };
    assert_eq!(*lock(&told), [progress(7, 0), progress(7, 7)]);
}

#[test]
fn the_log_has_the_level_of_the_contract_and_one_line_for_repeats() {
    let gate = gate(16);
    let mut desk = Desk::new(
        Arc::clone(&gate.hall),
        vec![Arc::clone(&gate)],
        Handlers::default(),
    );
    let lines = logged(|| {
        for n in 0..50 {
            desk.handle_error(Arc::new(error(Policy::Retriable, &format!("e{n}"))), n);
            desk.handle_change(lost(&format!("c{n}")), n);
        }
        desk.handle_error(Arc::new(error(Policy::Abandoned, "gone")), 50);
        gate.fail_as(Category::Fault, Terminal::local("over".to_owned()));
        let notice = std::iter::from_fn(|| gate.hall.events.take()).last();
        desk.handle(notice.expect("told"), 50);
        desk.next_tick = 0;
        desk.tick(WINDOW + 50);
        desk.finish();
    });
    let have: Vec<_> = lines
        .iter()
        .map(|(level, line)| (*level, &line[line.find("FB-").expect("an id")..][..7]))
        .collect();
    let expected = [
        (Level::WARN, "FB-E003"),
        (Level::INFO, "FB-N004"),
        (Level::ERROR, "FB-E002"),
        (Level::ERROR, "FB-E001"),
        (Level::WARN, "FB-E003"),
        (Level::INFO, "FB-N004"),
    ];
    assert_eq!(have, expected, "{lines:#?}");
    assert!(lines[4].1.contains("repeats=49") && lines[4].1.contains("e49"));
    assert!(lines[5].1.contains("repeats=49") && lines[5].1.contains("c49"));
}
