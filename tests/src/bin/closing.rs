//! A program that embeds the engine as its documentation says: it publishes, obeys SIGTERM by
//! closing, and says as its last line how that ended.
//!
//! ```text
//! closing CONNECT_STRING FRAMES
//! ```

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use forebay::{Engine, TimestampNanos};
use forebay_loadgen::signals::StopFlag;

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [conf, frames] = arguments.as_slice() else {
        return Err("closing CONNECT_STRING FRAMES".into());
    };
    let stop = StopFlag::on_signals()?;
    let engine = Engine::connect(conf)?;
    let mut producer = engine.producer()?;
    for n in 0..frames.parse()? {
        producer.table("t")?.column_i64("n", n)?;
        producer.at(TimestampNanos(n + 1))?;
        producer.publish()?;
    }
    producer.flush()?;
    println!("ready");
    while !stop.is_set() {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(producer);
    Ok(engine.close()?)
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => {
            println!("all is confirmed");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}
