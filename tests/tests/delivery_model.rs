//! The sender's state machine against a naive model: random scripts of what a server may say and
//! what may happen to a connection, with every cursor, verdict and pause compared after each step.
//!
//! The model keeps whole histories and works everything out from the start, with the rules of
//! protocol.md sections 12 and 13 written down once more. `FOREBAY_SCALE=n` runs n times 10,000
//! scripts (CI: 10).

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::collections::HashMap;

use forebay::internals::delivery::{Cut, Next, Talk};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

const MS: u64 = 1_000_000;
const INITIAL: u64 = 10 * MS;
const MAX: u64 = 80 * MS;
const STRIKES: u32 = 3;
const WINDOW: u64 = 100 * MS;
const PING: u64 = 50 * MS;
const STALL: u64 = 200 * MS;
const CONNECT: &str = "ws::addr=a;reconnect_initial_backoff_millis=10;\
    reconnect_max_backoff_millis=80;max_frame_rejections=3;\
    poison_min_escalation_window_millis=100;ping_interval_millis=50;\
    ack_progress_timeout_millis=200;durable_ack_keepalive_interval_millis=0;";

/// One step of a script.
#[derive(Debug, Clone)]
enum Step {
    Wait(u64),
    CatchUp,
    Frames(u8),
    Ok(i64, Vec<(String, i64)>),
    /// A cumulative OK for this share of what was sent, of 255.
    OkShare(u8, Vec<(String, i64)>),
    Durable(Vec<(String, i64)>),
    End(Cut, u64),
    Rounds(bool, u64),
}

fn tables() -> impl Strategy<Value = Vec<(String, i64)>> {
    let table = prop_oneof![Just("a"), Just("b"), Just("c")].prop_map(str::to_owned);
    prop::collection::hash_map(table, 0..12i64, 0..3).prop_map(|map| map.into_iter().collect())
}

fn cut() -> impl Strategy<Value = Cut> {
    let status = prop_oneof![
        8 => prop_oneof![Just(0x06u8), Just(0x09), Just(0x0a), Just(0x0d), Just(0x7f)],
        2 => Just(0x0cu8),
        1 => prop_oneof![Just(0x03u8), Just(0x05), Just(0x08)],
    ];
    let code = prop_oneof![
        Just(None),
        Just(Some(1000)),
        Just(Some(1001)),
        Just(Some(1002)),
        Just(Some(1009)),
        Just(Some(3000)),
    ];
    prop_oneof![
        3 => Just(Cut::Lost),
        1 => Just(Cut::Blocked),
        3 => code.prop_map(Cut::Close),
        1 => Just(Cut::Malformed),
        6 => (status, -1..20i64).prop_map(|(status, seq)| Cut::Refused(status, seq)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..60 * MS).prop_map(Step::Wait),
        1 => Just(Step::CatchUp),
        6 => (1..5u8).prop_map(Step::Frames),
        2 => (-2..40i64, tables()).prop_map(|(seq, tables)| Step::Ok(seq, tables)),
        5 => (any::<u8>(), tables()).prop_map(|(share, tables)| Step::OkShare(share, tables)),
        3 => tables().prop_map(Step::Durable),
        4 => (cut(), any::<u64>()).prop_map(|(cut, random)| Step::End(cut, random)),
        1 => (any::<bool>(), any::<u64>()).prop_map(|(role, random)| Step::Rounds(role, random)),
    ]
}

/// A transaction that an OK asked for: table, life of the table, number.
type Asked = (String, u32, i64);

/// Everything that ever happened, and the rules.
#[derive(Default)]
struct Model {
    durable: bool,
    acked: u64,
    okayed: u64,
    // --- this connection ---
    /// The frame that each message carries.
    messages: Vec<Option<u64>>,
    next: u64,
    okayed_here: u64,
    progressed: bool,
    /// What each OK confirmed and asked for.
    oks: Vec<(u64, Vec<Asked>)>,
    /// Per table: life, last number of an OK, durable number.
    lives: HashMap<String, (u32, Option<i64>, Option<i64>)>,
    // --- strikes: when, and for which frame ---
    strikes: Vec<(u64, u64)>,
    rounds: u32,
    idle: u32,
    blocked: u32,
    // --- liveness ---
    stretch: u32,
    heard: u64,
    asked: Option<u64>,
    waiting_since: Option<u64>,
}

impl Model {
    fn open(&mut self, now: u64) {
        self.messages.clear();
        self.next = self.acked;
        self.okayed_here = self.acked;
        self.progressed = false;
        self.oks.clear();
        self.lives.clear();
        self.rounds = 0;
        (self.heard, self.asked, self.waiting_since) = (now, None, None);
    }

    fn frame(&mut self, now: u64) -> u64 {
        self.messages.push(Some(self.next));
        self.next += 1;
        self.waiting_since.get_or_insert(now);
        self.next - 1
    }

    fn heard(&mut self, now: u64) {
        (self.heard, self.asked) = (now, None);
    }

    fn live_again(&mut self, table: &str, number: i64, by_ok: bool) -> u32 {
        let life = self.lives.entry(table.to_owned()).or_default();
        let before = if by_ok { life.1 } else { life.2 };
        if before.is_some_and(|before| number < before) {
            *life = (life.0 + 1, None, None);
        }
        if by_ok {
            life.1 = Some(number);
        } else {
            life.2 = Some(number);
        }
        life.0
    }

    fn ok(&mut self, seq: i64, tables: &[(String, i64)], now: u64) {
        self.heard(now);
        let covered = self
            .messages
            .iter()
            .zip(0i64..)
            .filter(|(_, number)| *number <= seq)
            .filter_map(|(frame, _)| *frame)
            .max();
        let Some(end) = covered
            .map(|frame| frame + 1)
            .filter(|end| *end > self.okayed_here)
        else {
            return;
        };
        self.okayed_here = end;
        if self.strikes.iter().map(|(_, frame)| *frame).max() < Some(end) {
            self.strikes.clear();
        }
        self.waiting_since = (self.next > end).then_some(now);
        self.stretch = 0;
        if end > self.okayed {
            self.okayed = end;
            self.progress();
        }
        if self.durable {
            let asked = tables
                .iter()
                .map(|(table, number)| {
                    (
                        table.clone(),
                        self.live_again(table, *number, true),
                        *number,
                    )
                })
                .collect();
            self.oks.push((end, asked));
            self.settle();
        } else {
            self.acked = self.acked.max(end);
        }
    }

    fn durable(&mut self, tables: &[(String, i64)], now: u64) {
        self.heard(now);
        if self.durable {
            for (table, number) in tables {
                self.live_again(table, *number, false);
            }
            self.settle();
        }
    }

    /// Goes through all OKs of the connection, but never takes one back.
    fn settle(&mut self) {
        let lives = &self.lives;
        let done = |(table, life, number): &Asked| {
            let (now, _, durable) = lives[table];
            durable.is_some_and(|durable| life < &now || durable >= *number)
        };
        let count = self
            .oks
            .iter()
            .take_while(|(_, asked)| asked.iter().all(done))
            .count();
        let end = self.oks.drain(..count).map(|(end, _)| end).next_back();
        if let Some(end) = end.filter(|end| *end > self.acked) {
            self.acked = end;
            self.progress();
        }
    }

    fn progress(&mut self) {
        self.progressed = true;
        (self.rounds, self.idle, self.blocked) = (0, 0, 0);
    }

    fn pause(nth: u32, random: u64) -> u64 {
        let mut base = INITIAL;
        for _ in 1..nth {
            base = (base * 2).min(MAX);
        }
        base + random % base
    }

    fn lost(&mut self, random: u64) -> Next {
        if self.progressed {
            self.idle = 0;
            return Next::Pause(0);
        }
        self.idle += 1;
        Next::Pause(if self.idle == 1 {
            0
        } else {
            Self::pause(self.idle - 1, random)
        })
    }

    fn strike(&mut self, frame: u64, random: u64, now: u64) -> Next {
        self.strikes.push((now, frame));
        let count = u32::try_from(self.strikes.len()).unwrap();
        if count >= STRIKES && now - self.strikes[0].0 >= WINDOW {
            let frame = self.strikes.iter().map(|(_, frame)| *frame).max().unwrap();
            return Next::Escalate(frame, count);
        }
        Next::Pause(Self::pause(count, random))
    }

    fn end(&mut self, cut: Cut, random: u64, now: u64) -> Next {
        match cut {
            Cut::Lost | Cut::Close(Some(1000 | 1001)) => self.lost(random),
            Cut::Close(_) | Cut::Malformed if self.messages.is_empty() => self.lost(random),
            Cut::Close(_) | Cut::Malformed => self.strike(self.okayed_here, random, now),
            Cut::Blocked => {
                self.blocked += 1;
                Next::Pause(Self::pause(self.blocked, random))
            }
            Cut::Refused(status, seq) => {
                let last = i64::try_from(self.messages.len()).unwrap() - 1;
                let index = usize::try_from(seq.min(last)).ok();
                let named = index.and_then(|index| self.messages[index]);
                if named.is_some_and(|frame| frame < self.okayed_here) {
                    return self.lost(random);
                }
                match status {
                    0x03 | 0x05 | 0x08 => Next::Terminal,
                    0x0c => self.lost(random),
                    _ => self.strike(named.unwrap_or(self.okayed_here), random, now),
                }
            }
        }
    }

    fn round(&mut self, by_role: bool, random: u64) -> u64 {
        if by_role {
            self.rounds = 0;
            return INITIAL;
        }
        self.rounds += 1;
        Self::pause(self.rounds, random)
    }

    fn check(&mut self, now: u64) -> Option<char> {
        let scale = 1 << self.stretch;
        if self
            .waiting_since
            .is_some_and(|since| now - since >= STALL * scale)
        {
            return Some('t');
        }
        match self.asked {
            Some(asked) if now - asked >= PING * scale => {
                self.stretch = (self.stretch + 1).min(6);
                Some('s')
            }
            None if now - self.heard >= PING * scale => {
                self.asked = Some(now);
                Some('p')
            }
            _ => None,
        }
    }
}

/// One step on both sides; `false` when the script is over.
fn play(talk: &mut Talk, model: &mut Model, now: &mut u64, step: &Step) -> bool {
    match step {
        Step::Wait(nanos) => {
            *now += nanos;
            let due = talk.check(*now);
            assert_eq!(due, model.check(*now), "check at {now}");
            if matches!(due, Some('s' | 't')) {
                return end(talk, model, now, Cut::Lost, *nanos);
            }
        }
        Step::CatchUp => {
            talk.sent_catch_up();
            model.messages.push(None);
        }
        Step::Frames(count) => {
            for _ in 0..*count {
                assert_eq!(talk.sent_frame(*now), model.frame(*now), "frame sent");
            }
        }
        Step::Ok(seq, tables) => {
            talk.ok(*seq, tables, *now);
            model.ok(*seq, tables, *now);
        }
        Step::OkShare(share, tables) => {
            let messages = model.messages.len() * usize::from(*share) / 255;
            let seq = i64::try_from(messages).unwrap() - 1;
            talk.ok(seq, tables, *now);
            model.ok(seq, tables, *now);
        }
        Step::Durable(tables) => {
            talk.durable_ack(tables, *now);
            model.durable(tables, *now);
        }
        Step::End(cut, random) => return end(talk, model, now, *cut, *random),
        Step::Rounds(by_role, random) => {
            // A round fails between two connections only.
            if !end(talk, model, now, Cut::Lost, *random) {
                return false;
            }
            let pause = talk.round_failed(*by_role, *random);
            assert_eq!(pause, model.round(*by_role, *random), "failed round");
            *now += pause;
            talk.opened(*now);
            model.open(*now);
        }
    }
    true
}

fn end(talk: &mut Talk, model: &mut Model, now: &mut u64, cut: Cut, random: u64) -> bool {
    let next = talk.ended(cut, random, *now);
    assert_eq!(next, model.end(cut, random, *now), "{cut:?} at {now}");
    let Next::Pause(pause) = next else {
        return false;
    };
    *now += pause;
    talk.opened(*now);
    model.open(*now);
    true
}

fn run(durable: bool, steps: &[Step]) {
    let more = if durable {
        "request_durable_ack=on;"
    } else {
        ""
    };
    let mut talk = Talk::new(&format!("{CONNECT}{more}"), 100);
    let mut model = Model {
        durable,
        acked: 100,
        okayed: 100,
        ..Model::default()
    };
    let mut now = 1_000 * MS;
    talk.opened(now);
    model.open(now);
    for (index, step) in steps.iter().enumerate() {
        if !play(&mut talk, &mut model, &mut now, step) {
            return;
        }
        let cursors = (talk.acked(), talk.okayed(), talk.is_outstanding());
        let expected = (model.acked, model.okayed, model.okayed_here < model.next);
        assert_eq!(cursors, expected, "after step {index}: {step:?}");
        assert!(talk.acked() <= talk.okayed());
    }
}

#[test]
fn the_conversation_does_what_a_naive_model_does() {
    let scale = std::env::var("FOREBAY_SCALE").map_or(1, |n| n.parse().expect("a number"));
    let config = Config {
        cases: 10_000 * scale,
        failure_persistence: None,
        ..Config::default()
    };
    let scripts = (any::<bool>(), prop::collection::vec(step(), 1..60));
    TestRunner::new(config)
        .run(&scripts, |(durable, steps)| {
            run(durable, &steps);
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}
