//! Whatever a slot holds, the tool ends by itself, within its memory, and changes nothing.

#![allow(clippy::unwrap_used, reason = "a panic here is a failed test")]

mod support;

use std::fs;
use std::process::Command;

use support::{Random, contents, corpus, forebay, segment, slot_of};

/// Damaged copies of each slot; `FOREBAY_SCALE=n` multiplies them.
const COPIES: usize = 10;
/// Most address space of the tool in the memory test, KiB: far below what the files ask for.
const ADDRESS_SPACE_KIB: u32 = 256 * 1024;

/// Changes a few bytes, mostly where something is decided, or the length.
fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    match random.below(8) {
        0 => bytes.truncate(random.below(bytes.len())),
        1 => bytes.resize(
            bytes.len() + 1 + random.below(5000),
            u8::try_from(random.below(2)).unwrap(),
        ),
        _ => {
            for _ in 0..=random.below(6) {
                // The first bytes and those behind 4,096 hold headers and records.
                let from = if random.below(3) == 0 { 4096 } else { 0 };
                let reach = if random.below(4) == 0 { 60_000 } else { 200 };
                let at = from + random.below(reach);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = match random.below(4) {
                        0 => 0,
                        1 => 0xff,
                        2 => 0x7f,
                        _ => *byte ^ (1 << random.below(8)),
                    };
                }
            }
        }
    }
}

#[test]
fn damaged_copies_of_every_slot_never_panic_and_stay_as_they_are() {
    let (_scratch, slots) = corpus();
    let root = tempfile::tempdir().unwrap();
    let scale = std::env::var("FOREBAY_SCALE").map_or(1, |scale| scale.parse().unwrap());
    let mut random = Random(0x5EED_F04E_BA11_0001);
    let (mut copies, mut seen) = (0, [0; 3]);
    for slot in &slots {
        let files = contents(&slot.dir);
        for _ in 0..COPIES * scale {
            let mut files = files.clone();
            for _ in 0..=random.below(2) {
                let at = random.below(files.len());
                if random.below(12) == 0 {
                    files.remove(at);
                } else {
                    damage(&mut files[at].1, &mut random);
                }
            }
            let dir = slot_of(root.path(), "slot", &files);
            let commands: [&[&str]; 6] = [
                &["verify"],
                &["inspect"],
                &["inspect", "--json", "--symbols"],
                &["dump"],
                &["dump", "--rows"],
                &["dump", "--raw", "--fsn", "1.."],
            ];
            for command in commands {
                let ran = forebay(command, &dir);
                if command[0] == "verify" {
                    seen[usize::from(ran.status)] += 1;
                } else if command == ["inspect", "--json", "--symbols"] && ran.status == 0 {
                    ran.json();
                } else if command.len() < 3 && command[0] == "dump" {
                    ran.lines();
                }
            }
            files.sort();
            assert_eq!(contents(&dir), files, "{}", slot.name);
            copies += 1;
        }
    }
    println!(
        "{copies} copies: {} sound, {} damaged, {} unknown",
        seen[0], seen[1], seen[2]
    );
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

#[test]
fn lengths_on_disk_are_never_allocated() {
    let root = tempfile::tempdir().unwrap();
    // A frame that claims 2 GiB, a chunk that claims 2^40 bytes, a message larger than servers
    // take, and one whose columns claim more than is there.
    let mut claims = segment(1, 0, &[b"QWP1"], 1 << 16);
    claims[36..44].copy_from_slice(&[1, 2, 3, 4, 0xff, 0xff, 0xff, 0x7f]);
    let large = vec![0; 18 << 20];
    let mut table = b"QWP1\x01\x08\x01\0\0\0\0\0\0\0".to_vec();
    table.extend_from_slice(b"\x01t\xff\xff\xff\x0f\x01\x01v\x05\0");
    let payload = u8::try_from(table.len() - 12).unwrap();
    table[8] = payload;
    let mut dictionary = b"SYD1\x01\0\0\0".to_vec();
    dictionary.extend_from_slice(&[
        0x80, 0x80, 0x80, 0x80, 0x10, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20,
    ]);
    dictionary.resize(1 << 16, 1);
    let files = [
        ("sf-0000000000000000.sfa".to_owned(), claims),
        (
            "sf-0000000000000001.sfa".to_owned(),
            segment(1, 1, &[&large, &table], 20 << 20),
        ),
        (".symbol-dict".to_owned(), dictionary),
        (".failed".to_owned(), vec![b'x'; 1 << 20]),
        (".lock.pid".to_owned(), vec![b'9'; 1 << 20]),
        ("sf-manifest.bin".to_owned(), vec![b'9'; 1 << 20]),
    ];
    let dir = slot_of(root.path(), "slot", &files);
    // A sparse file of a terabyte in the place of a watermark.
    let sparse = fs::File::create(dir.join(".ack-watermark")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    support::settle(&dir);
    for (command, status) in [
        ("verify", 1),
        ("inspect", 0),
        ("dump", 1),
        ("dump --rows", 1),
        ("dump --raw", 0),
    ] {
        let output = Command::new("sh")
            .arg("-c")
            .arg(format!(
                "ulimit -v {ADDRESS_SPACE_KIB} && exec \"$0\" {command} \"$1\""
            ))
            .args([env!("CARGO_BIN_EXE_forebay").as_ref(), dir.as_os_str()])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{command}: {text}");
    }
}

#[test]
fn rows_of_nothing_are_written_one_by_one() {
    // A million rows of 100 null columns in 12 MiB of message are 8 GB as text.
    let root = tempfile::tempdir().unwrap();
    let (rows, columns) = (1_000_000_usize, 100_u8);
    let mut message = b"QWP1\x01\x08\x01\0\0\0\0\0\0\0".to_vec();
    message.extend_from_slice(b"\x01t\xc0\x84\x3d");
    message.push(columns);
    for column in 0..columns {
        message.push(70);
        message.extend_from_slice(format!("{column:070}").as_bytes());
        message.push(5);
    }
    for _ in 0..columns {
        message.push(1);
        message.resize(message.len() + rows / 8, 0xff);
    }
    let payload = u32::try_from(message.len() - 12).unwrap();
    message[8..12].copy_from_slice(&payload.to_le_bytes());
    let segment = segment(0, 0, &[&message], 16 << 20);
    let dir = slot_of(root.path(), "slot", &[("a.sfa".to_owned(), segment)]);
    let limited = format!(
        "ulimit -v {ADDRESS_SPACE_KIB} && \"$0\" dump --rows \"$1\" | head -n 1000 | wc -l"
    );
    let output = Command::new("sh")
        .args(["-c", &limited])
        .args([env!("CARGO_BIN_EXE_forebay").as_ref(), dir.as_os_str()])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        "1000",
        "{text}"
    );
    assert_eq!(text, "", "a reader that has seen enough is no error");
}

#[test]
fn links_and_pipes_are_never_opened_and_terminals_not_driven() {
    let root = tempfile::tempdir().unwrap();
    let files = [
        (".lock".to_owned(), Vec::new()),
        (
            ".failed".to_owned(),
            b"\x1b[2Jcleared\nslot        /elsewhere".to_vec(),
        ),
        ("\x1b[31mred".to_owned(), Vec::new()),
    ];
    let dir = slot_of(root.path(), "slot", &files);
    fs::write(
        root.path().join("outside.sfa"),
        segment(0, 0, &[b"QWP1secret"], 4096),
    )
    .unwrap();
    std::os::unix::fs::symlink("../outside.sfa", dir.join("sf-0000000000000000.sfa")).unwrap();
    let made = Command::new("mkfifo")
        .arg(dir.join("sf-0000000000000001.sfa"))
        .status();
    assert!(made.unwrap().success());
    let ran = forebay(&["inspect"], &dir);
    assert_eq!(ran.status, 0, "{}", ran.diagnostics);
    assert!(!ran.text().contains('\x1b'), "{:?}", ran.text());
    let lines: Vec<_> = ran
        .text()
        .lines()
        .filter(|line| line.starts_with("slot"))
        .collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        ran.text().contains("sf-0000000000000001.sfa (foreign"),
        "{}",
        ran.text()
    );
    let dumped = forebay(&["dump", "--raw"], &dir);
    assert_eq!((dumped.status, dumped.out.len()), (0, 0));
}
