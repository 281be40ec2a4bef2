//! What the handlers of the application are told.

use std::sync::{Arc, Mutex};

use forebay::{Category, ConnectionChange, Engine, Policy, SenderError};

use crate::case::{Answer, BAD, Fate, ROWS};
use crate::peer::Peer;

/// What the handlers of the application were told.
#[derive(Debug, Default)]
pub(crate) struct Told {
    errors: Arc<Mutex<Vec<SenderError>>>,
    connections: Arc<Mutex<Vec<ConnectionChange>>>,
}

impl Told {
    pub(crate) fn connect(&self, conf: &str) -> Engine {
        let (errors, connections) = (Arc::clone(&self.errors), Arc::clone(&self.connections));
        Engine::builder(conf)
            .on_error(move |error| errors.lock().unwrap().push(error.clone()))
            .on_connection(move |event| connections.lock().unwrap().push(event.change.clone()))
            .connect()
            .expect("async")
    }
}

/// Category of a status, and whether the script's refusal of it is an error of the server.
pub(crate) fn category(status: u8) -> Category {
    match status {
        0x03 => Category::SchemaMismatch,
        0x05 => Category::ParseError,
        0x06 => Category::InternalError,
        0x08 => Category::SecurityError,
        0x09 => Category::WriteError,
        0x0c => Category::NotWritable,
        0x0d => Category::DictionaryGap,
        _ => Category::Unknown,
    }
}

/// After close: every refusal was told with its status, number and frame; a terminal error last and
/// once; nothing else was an error; the first connection, and why it ended.
pub(crate) fn check_told(told: &Told, answer: &Answer, fate: Fate, peer: &Peer, what: &str) {
    let mut errors = told.errors.lock().unwrap().clone();
    let terminal = errors.pop_if(|error| error.policy == Policy::Terminal);
    assert_eq!(
        terminal.is_some(),
        fate == Fate::Terminal,
        "{what}: {errors:?}"
    );
    if let Some(terminal) = terminal {
        assert_eq!(terminal.endpoint, peer.addr().to_string(), "{what}");
        let at_once = terminal.status.is_some();
        let expected = match answer {
            Answer::Status(status) if at_once => category(*status),
            Answer::Upgrade(..) => Category::SecurityError,
            _ => Category::ProtocolViolation,
        };
        assert_eq!(terminal.category, expected, "{what}");
        let last = if at_once { BAD } else { ROWS - 1 };
        assert_eq!(terminal.frames, Some((BAD, last)), "{what}");
    }
    for error in &errors {
        let Answer::Status(status) = answer else {
            panic!("{what}: {error:?}");
        };
        assert_eq!(error.status, Some(*status), "{what}");
        assert_eq!(error.category, category(*status), "{what}");
        let policies = [Policy::Retriable, Policy::RetriableOther];
        assert!(policies.contains(&error.policy), "{what}: {error:?}");
        assert_eq!(error.message, "refused by the script", "{what}");
        assert_eq!(error.frames, Some((BAD, BAD)), "{what}");
        assert!(error.wire_seq.is_some(), "{what}");
    }
    if matches!(answer, Answer::Status(_)) && fate != Fate::Terminal {
        assert!(!errors.is_empty(), "{what}: a refusal is told");
    }
    let events = told.connections.lock().unwrap();
    let endpoint = peer.addr().to_string();
    let connected = ConnectionChange::Connected { endpoint };
    assert_eq!(events[0], connected, "{what}");
    let again = events.iter();
    let again = again.filter(|e| matches!(e, ConnectionChange::Reconnected { .. }));
    let served = peer.heard().iter().filter(|h| !h.sent.is_empty()).count();
    assert!(again.count() + 1 >= served, "{what}: {events:?}");
    if let Answer::Upgrade(status, _) = answer {
        let text = status.to_string();
        let failed = |event: &&ConnectionChange| match event {
            ConnectionChange::AttemptFailed { cause, .. }
            | ConnectionChange::AllUnreachable { cause, .. }
            | ConnectionChange::AuthFailed { cause, .. } => {
                cause.contains(&text) || cause.contains("role")
            }
            _ => false,
        };
        let count = events.iter().filter(failed).count();
        assert!(count >= 1, "{what}: {events:?}");
    }
}
