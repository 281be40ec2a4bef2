//! A disk without room, from the sender's side: what is refused, whether it goes on once there is
//! room, and whether the next process opens the slot while there is none.
//!
//! Two processes, in [`disk`](super::disk): the first sends without a server until it is refused,
//! makes room, sends until it is refused again, and leaves; the disk is filled to the last block;
//! the second opens what was left, with a server. What it has found out so far each says after
//! every step, since either may die of it.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use forebay::Engine;
use questdb::ingress::{AckLevel, Sender};

use super::contender::Contender;
use super::figures::Figures;
use super::job::Who;
use crate::limits::figures::float;

/// Takes the room that is given back.
pub(super) const BALLAST: &str = "ballast";
/// Far more than the disk holds.
const ROWS_MAX: u64 = 100_000_000;
/// How long a sender has to notice that there is room again.
const RESUME_LIMIT: Duration = Duration::from_secs(15);
const DRAIN_LIMIT: Duration = Duration::from_secs(30);

/// The first process. `dir` is the disk.
pub(super) fn send(
    contender: &mut dyn Contender,
    batch: u64,
    dir: &Path,
) -> Result<Figures, Box<dyn Error>> {
    let mut figures = Figures::default();
    let mut row = 0;
    let refusal = fill(contender, &mut row, batch)?;
    eprintln!("disk full after {row} rows: {refusal}");
    figures.set("refused", 1.0);
    figures.set("resumed", 0.0);
    figures.set("accepted_rows", float(row));
    println!("{}", figures.to_json());
    std::fs::remove_file(dir.join(BALLAST))?;
    let begun = Instant::now();
    // The batch that was refused is still with the sender.
    while let Err(refusal) = contender.hand_over(row..row + batch) {
        if begun.elapsed() > RESUME_LIMIT {
            eprintln!("still refused with room: {refusal}");
            return Ok(figures);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    row += batch;
    figures.set("resumed", 1.0);
    figures.set("resume_ms", begun.elapsed().as_secs_f64() * 1e3);
    figures.set("accepted_rows", float(row));
    println!("{}", figures.to_json());
    fill(contender, &mut row, batch)?;
    figures.set("accepted_rows", float(row));
    Ok(figures)
}

/// Batches until one is refused; answers the refusal.
fn fill(
    contender: &mut dyn Contender,
    row: &mut u64,
    batch: u64,
) -> Result<String, Box<dyn Error>> {
    while *row < ROWS_MAX {
        contender.fill(*row..*row + batch)?;
        if let Err(refusal) = contender.hand_over(*row..*row + batch) {
            return Ok(refusal.to_string());
        }
        *row += batch;
    }
    Err("nothing was refused: the disk is not full".into())
}

/// The second process.
pub(super) fn reopen(who: Who, conf: &str) -> Result<Figures, Box<dyn Error>> {
    let begun = Instant::now();
    let mut figures = Figures::default();
    let opened = |figures: &mut Figures| {
        figures.set("opens", 1.0);
        figures.set("open_ms", begun.elapsed().as_secs_f64() * 1e3);
        println!("{}", figures.to_json());
    };
    if who == Who::Ours {
        let engine = Engine::connect(conf)?;
        opened(&mut figures);
        engine.wait_acked(DRAIN_LIMIT)?;
        engine.close()?;
    } else {
        let mut sender = Sender::from_conf(conf)?;
        opened(&mut figures);
        sender.wait(AckLevel::Ok, DRAIN_LIMIT)?;
    }
    figures.set("drained", 1.0);
    Ok(figures)
}
