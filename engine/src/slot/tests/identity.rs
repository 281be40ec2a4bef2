//! Which machine had the slot last.

use super::disk::Disk;
use super::rig::*;
use crate::fsn::Fsn;

const PATH: &str = "/d/sf/id/.slot-id";

fn text(disk: &Disk) -> String {
    String::from_utf8(disk.read(PATH)).unwrap()
}

#[test]
fn a_slot_keeps_its_id_and_notes_the_last_machine() {
    let disk = four_segments();
    let id = "id=00000000000000010000000000000002\n";
    assert_eq!(text(&disk), format!("{id}host=here\nboot=first\n"));
    let slot = reopen(&disk);
    assert!(slot.report.moved.same_boot);
    drop(slot);
    disk.move_to("here", "second");
    let slot = reopen(&disk);
    assert!(slot.report.moved.rebooted && !slot.report.moved.same_boot);
    drop(slot);
    assert!(!reopen(&disk).report.moved.rebooted, "told once");
    disk.move_to("there", "third");
    let slot = reopen(&disk);
    let hosts = Some(("here".to_owned(), "there".to_owned()));
    assert_eq!(
        (slot.report.moved.hosts.clone(), slot.next),
        (hosts, Fsn(16))
    );
    assert!(!slot.report.moved.rebooted);
    assert_eq!(text(&disk), format!("{id}host=there\nboot=third\n"));
}

#[test]
fn a_slot_without_an_identity_or_with_junk_for_one_gets_a_new_one() {
    for junk in [None, Some(&b""[..]), Some(b"\xFF\xFE junk"), Some(b"id=\n")] {
        let disk = four_segments();
        match junk {
            None => crate::io::Fs::unlink(&disk, std::path::Path::new(PATH)).unwrap(),
            Some(junk) => disk.put(PATH, junk),
        }
        let slot = reopen(&disk);
        assert_eq!(slot.report.moved, crate::slot::identity::Moved::default());
        assert!(text(&disk).ends_with("host=here\nboot=first\n"));
    }
}

#[test]
fn a_machine_that_cannot_say_who_it_is_accuses_nobody() {
    let disk = four_segments();
    disk.move_to("", "");
    let slot = reopen(&disk);
    assert_eq!(slot.report.moved.hosts, None);
    assert!(!slot.report.moved.rebooted && !slot.report.moved.same_boot);
}
