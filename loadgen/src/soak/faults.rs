//! What can happen, and the choice.

use std::time::Duration;

use crate::random::Random;

/// One thing that goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// SIGKILL, and a new writer.
    Kill,
    /// The writer closes and a new one starts.
    Restart,
    /// The server cuts all connections.
    Cut,
    /// Nobody listens for so long, and the connections are cut.
    Down(Duration),
    /// The server misbehaves by this script for a while.
    Script(&'static str),
    /// Nothing goes wrong.
    Peace,
}

/// `times` keep each from lasting for ever; the connection after it is a good one.
const SCRIPTS: [&str; 14] = [
    "message 20.. times 1 -> nack 0x09 \"soak\"",
    "message 5.. times 2 -> nack 0x06 \"soak\"",
    "message 3.. times 1 -> nack 0x7f \"soak\"",
    "message 10.. times 1 -> close 1011 soak",
    "message 10.. times 2 -> close 1000 soak",
    "message 7.. times 1 -> rst",
    "message 7.. times 2 -> eof",
    "applied 9.. times 1 -> rst",
    "message 4.. times 1 -> half-open",
    "message 4.. times 3 -> hold 400ms",
    "message 4.. times 2 -> skip 30",
    "message 6.. times 1 -> malformed trailing",
    "upgrade times 3 -> http 503",
    "table soak_1 times 2 -> nack 0x03 \"soak\"",
];

/// Chooses the next fault.
pub(crate) fn choose(random: &mut Random) -> Fault {
    match random.below(20) {
        0..=3 => Fault::Kill,
        4 | 5 => Fault::Restart,
        6..=8 => Fault::Cut,
        9 | 10 => Fault::Down(Duration::from_millis(50 + random.below(2000))),
        11 | 12 => Fault::Peace,
        _ => {
            let count = SCRIPTS.len() as u64;
            let place = usize::try_from(random.below(count)).unwrap_or(0);
            Fault::Script(SCRIPTS[place])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SCRIPTS;
    use crate::sink::Script;

    #[test]
    fn every_script_parses() {
        for script in SCRIPTS {
            script
                .parse::<Script>()
                .unwrap_or_else(|error| panic!("{script}: {error}"));
        }
    }
}
