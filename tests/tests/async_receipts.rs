//! Receipts as futures: thousands at once under a runtime of one thread, some dropped on the way.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::pin::Pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use forebay::{Error, Receipt, Stage};

mod producing;
use producing::{PATIENCE, connect, free_address, row, scratch, serve, stored, until};

/// A generator of numbers that look like chance, the same every time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % n
    }
}

#[test]
fn ten_thousand_receipts_complete_on_one_thread_while_others_are_dropped() {
    const RECEIPTS: u64 = 10_000;
    let dir = scratch();
    let address = free_address();
    let sink = serve(&dir.path().join("store"), address);
    let engine = connect(
        address,
        &format!("sf_dir={};", dir.path().join("sf").display()),
    );
    let mut producer = engine.producer().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let mut chance = Chance(7);
    let (done, cancelled) = runtime.block_on(async {
        let mut tasks = Vec::new();
        for n in 0..RECEIPTS {
            row(&mut producer, "t", n, "");
            let receipt = producer.publish().expect("room");
            tasks.push(match chance.below(4) {
                // Dropped before it was ever polled, or by a limit of time that it may keep.
                0 => {
                    drop(receipt);
                    tokio::spawn(async { Some(Ok(())) })
                }
                1 => {
                    let limit = Duration::from_micros(chance.below(3000));
                    tokio::spawn(async move { tokio::time::timeout(limit, receipt).await.ok() })
                }
                _ => tokio::spawn(async move { Some(receipt.await) }),
            });
            if chance.below(8) == 0 {
                let victim = usize::try_from(chance.below(tasks.len() as u64)).unwrap();
                tasks[victim].abort();
            }
            if chance.below(64) == 0 {
                tokio::task::yield_now().await;
            }
        }
        let all = async {
            let (mut done, mut cancelled) = (0, 0);
            for task in tasks {
                match task.await {
                    Ok(Some(outcome)) => {
                        outcome.expect("written");
                        done += 1;
                    }
                    Ok(None) => cancelled += 1,
                    Err(error) if error.is_cancelled() => cancelled += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            (done, cancelled)
        };
        tokio::time::timeout(PATIENCE, all).await.expect("all end")
    });
    println!("{done} completed, {cancelled} given up");
    assert_eq!(done + cancelled, RECEIPTS);
    assert!(done > RECEIPTS / 2 && cancelled > 100);
    engine.close().expect("drained");
    sink.stop();
    assert_eq!(
        stored(&dir.path().join("store"), "t"),
        (0..RECEIPTS).collect::<Vec<_>>()
    );
}

/// Notes the names of the threads that wake it.
#[derive(Default)]
struct Noted(Mutex<Vec<String>>);

impl Wake for Noted {
    fn wake(self: Arc<Self>) {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        self.0.lock().unwrap().push(name);
    }
}

fn poll(receipt: &mut Receipt, waker: &Waker) -> Poll<Result<(), Error>> {
    Pin::new(receipt).poll(&mut Context::from_waker(waker))
}

/// A receipt with a waker of its own.
struct Task {
    receipt: Receipt,
    noted: Arc<Noted>,
    waker: Waker,
}

impl Task {
    fn new(receipt: Receipt) -> Self {
        let noted = Arc::new(Noted::default());
        let waker = Waker::from(Arc::clone(&noted));
        Self {
            receipt,
            noted,
            waker,
        }
    }

    fn poll(&mut self) -> Poll<Result<(), Error>> {
        poll(&mut self.receipt, &self.waker)
    }

    /// Clones of the waker that others hold.
    fn held(&self) -> usize {
        Arc::strong_count(&self.noted) - 2
    }
}

#[test]
fn wakers_are_let_go_when_done_when_dropped_and_when_the_engine_ends() {
    let dir = scratch();
    let engine = connect(
        free_address(),
        &format!(
            "sf_dir={};intake=memory;close_flush_timeout_millis=0;sf_durability=memory;",
            dir.path().display()
        ),
    );
    let mut producer = engine.producer().unwrap();
    // Thousands of tasks for few commits: each is polled, woken, polled again.
    let mut tasks = Vec::new();
    for n in 0..5000 {
        row(&mut producer, "t", n, "");
        let mut task = Task::new(producer.publish().expect("room"));
        let pending = task.poll().is_pending();
        tasks.push((task, pending));
    }
    until("woken", || tasks.iter().all(|(task, _)| task.held() == 0));
    let (mut waited, mut by) = (0, Vec::new());
    for (task, pending) in &mut tasks {
        assert!(matches!(task.poll(), Poll::Ready(Ok(()))));
        let woken = std::mem::take(&mut *task.noted.0.lock().unwrap());
        if *pending {
            assert_eq!(woken.len(), 1, "once");
            waited += 1;
        } else {
            // Ready as it looked again after it had registered: the herald may have been faster.
            assert!(woken.len() <= 1, "at most once");
        }
        by.extend(woken);
    }
    assert!(waited > 0, "some were not written at once");
    let others: Vec<_> = by.iter().filter(|name| *name != "forebay-hrd").collect();
    assert!(others.is_empty(), "by nobody else: {others:?}");

    // Dropped while they wait.
    drop(tasks);
    let noted = Arc::new(Noted::default());
    let waker = Waker::from(Arc::clone(&noted));
    let held = || Arc::strong_count(&noted) - 2;
    let mut waiting = Vec::new();
    until("one that waits", || {
        row(&mut producer, "t", 0, "");
        let mut receipt = producer.publish().expect("room");
        let pending = poll(&mut receipt, &waker).is_pending();
        waiting.push(receipt);
        pending
    });
    drop(waiting);
    until("let go", || held() == 0);
    engine.close().expect_err("not acked: there is no server");
    assert_eq!(held(), 0, "nor after the end");
}

#[test]
fn a_receipt_that_waits_when_the_engine_ends_is_told_so() {
    let engine = connect(
        free_address(),
        "close_flush_timeout_millis=0;request_durable_ack=on;",
    );
    let mut producer = engine.producer().unwrap();
    row(&mut producer, "t", 0, "");
    let receipt = producer.publish().expect("room");
    assert_eq!(receipt.reached(Stage::Durable).ok(), Some(false));
    let noted = Arc::new(Noted::default());
    let waker = Waker::from(Arc::clone(&noted));
    // In memory mode a receipt is complete when it is accepted.
    assert!(matches!(
        poll(&mut receipt.clone(), &waker),
        Poll::Ready(Ok(()))
    ));
    let waiter = std::thread::spawn(move || receipt.wait(Stage::Durable, PATIENCE));
    engine.close().expect_err("not acked");
    assert!(matches!(waiter.join().unwrap(), Err(Error::Closed)));
}
