//! The room that several senders of one directory may need.

use super::disk::Disk;
use super::rig::{SEGMENT_BYTES, options, reopen};
use crate::io::Fs;
use crate::slot::room::check;
use crate::slot::{SlotOptions, open};

#[test]
fn the_caps_of_all_senders_are_compared_with_what_they_hold_and_what_is_free() {
    let disk = Disk::new();
    let _own = reopen(&disk);
    let sf_dir = options().sf_dir;
    let look = |cap, free| check(&disk, &sf_dir, &["id".to_owned()], (cap, free)).unwrap();
    let alone = look(u64::MAX, 0).unwrap();
    assert_eq!(alone.senders, 1);
    let held = alone.used_bytes;
    assert!(held > 2 * SEGMENT_BYTES, "a segment, a spare, side files");
    assert_eq!(look(held + 100, 100), None, "it just fits");
    assert!(look(held + 101, 100).is_some());
    // Another sender counts; what was set aside, locks and foreign directories do not.
    let other = SlotOptions {
        sender_id: "other".to_owned(),
        ..options()
    };
    let _other = open(&disk, &other).unwrap();
    for name in ["id.unreplayable-0", ".slot-locks", "lost+found"] {
        disk.create_dir(&sf_dir.join(name)).unwrap();
    }
    let both = look(2 * held, 0).unwrap();
    assert_eq!((both.senders, both.used_bytes), (2, 2 * held));
    let text = both.to_string();
    assert!(text.starts_with("2 senders of "), "{text}");
    assert_eq!(look(held, 0), None);
}
