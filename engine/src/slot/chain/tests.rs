//! The decision alone, on made-up scans.

use super::*;
use crate::slot::scan::{Committed, Residue};
use crate::slot::segment::SegmentHeader;

fn candidate(generation: u64, base: u64, frames: u64) -> Candidate {
    Candidate {
        name: format!("sf-{generation:016x}.sfa"),
        bytes: 65_536,
        scan: Scan {
            header: SegmentHeader {
                manifest_required: true,
                base: Fsn(base),
                created_micros: 0,
            },
            frames,
            end: 24 + 10 * frames,
            residue: None,
            committed: Committed {
                frames,
                end: 24 + 10 * frames,
            },
        },
    }
}

fn decide(head: u64, active: u64, found: &[Candidate]) -> Result<Vec<u64>, String> {
    let judge = Judge {
        dir: Path::new("/s"),
        head,
        active,
        damaged: &[],
        blank: None,
    };
    let chain = judge
        .decide(found.to_vec())
        .map_err(|error| error.to_string())?;
    Ok(chain
        .links
        .iter()
        .filter_map(|l| segment_generation(&l.name))
        .map(|g| g.0)
        .collect())
}

#[test]
fn accepted_chains() {
    let c = candidate;
    assert_eq!(decide(0, 0, &[c(0, 0, 0)]), Ok(vec![0]));
    assert_eq!(decide(0, 0, &[c(0, 0, 3)]), Ok(vec![0]));
    assert_eq!(decide(0, 3, &[c(1, 3, 2), c(0, 0, 3)]), Ok(vec![0, 1]));
    assert_eq!(
        decide(3, 3, &[c(1, 3, 2), c(0, 0, 3)]),
        Ok(vec![1]),
        "below the head"
    );
    assert_eq!(
        decide(0, 3, &[c(0, 0, 3), c(1, 3, 0)]),
        Ok(vec![0, 1]),
        "rotated, no frame yet"
    );
    assert_eq!(
        decide(0, 0, &[c(0, 0, 0), c(1, 0, 0)]),
        Ok(vec![1]),
        "the newest empty"
    );
    assert_eq!(
        decide(0, 0, &[c(0, 0, 1), c(1, 0, 0)]),
        Ok(vec![0]),
        "frames before empties"
    );
    assert_eq!(decide(7, 7, &[]), Ok(vec![]), "drained");
    assert_eq!(
        decide(7, 7, &[c(0, 0, 7), c(5, 9, 0)]),
        Ok(vec![]),
        "drained, remains"
    );
}

#[test]
fn refused_chains() {
    let c = candidate;
    for (head, active, found) in [
        (0, 7, vec![]),
        (0, 3, vec![c(0, 0, 3)]),
        (0, 3, vec![c(1, 3, 2)]),
        (0, 3, vec![c(0, 0, 2), c(1, 3, 2)]),
        (0, 3, vec![c(0, 0, 4), c(1, 3, 2)]),
        (0, 3, vec![c(0, 0, 2), c(1, 3, 0)]),
        (1, 3, vec![c(0, 0, 3), c(1, 3, 0)]),
        (0, 0, vec![c(0, 0, 3), c(1, 3, 1)]),
        (0, 0, vec![c(0, i64::MAX.unsigned_abs(), 1)]),
    ] {
        assert!(
            decide(head, active, &found).is_err(),
            "{head} {active} {found:?}"
        );
    }
}

#[test]
fn a_torn_empty_is_the_active_and_a_torn_sealed_segment_stays_in_the_chain() {
    let mut torn = candidate(0, 0, 0);
    torn.scan.residue = Some(Residue {
        first: 24,
        last: 30,
    });
    assert_eq!(
        decide(0, 0, &[torn.clone(), candidate(1, 0, 0)]),
        Ok(vec![0])
    );
    let mut sealed = candidate(0, 0, 3);
    sealed.scan.residue = Some(Residue {
        first: 60,
        last: 61,
    });
    assert_eq!(decide(0, 3, &[sealed, candidate(1, 3, 1)]), Ok(vec![0, 1]));
}

#[test]
fn an_empty_active_is_not_trusted_beside_a_damaged_file() {
    let damaged = [Damaged {
        name: "x.sfa".to_owned(),
        error: HeaderError::Short,
    }];
    let judge = Judge {
        dir: Path::new("/s"),
        head: 0,
        active: 0,
        damaged: &damaged,
        blank: None,
    };
    assert!(judge.decide(vec![candidate(0, 0, 0)]).is_err());
    assert!(judge.decide(vec![]).is_err());
    assert!(judge.decide(vec![candidate(0, 0, 1)]).is_ok());
}

#[test]
fn the_watermark_is_believed_up_to_the_last_frame() {
    assert_eq!(first_unacked(0, 5, -1), Ok(Fsn(0)));
    assert_eq!(first_unacked(0, 5, 4), Ok(Fsn(5)));
    assert_eq!(first_unacked(3, 5, 1), Ok(Fsn(3)));
    assert_eq!(first_unacked(3, 5, 5), Err(Refused(Fsn(3))));
    assert_eq!(first_unacked(0, 0, i64::MAX), Err(Refused(Fsn(0))));
}

fn without_manifest(found: &[Candidate]) -> Result<(usize, usize), String> {
    let unflagged = |mut candidate: Candidate| {
        candidate.scan.header.manifest_required = candidate.name.contains('f');
        candidate
    };
    let found = found.iter().cloned().map(unflagged).collect();
    decide_without_manifest(Path::new("/s"), &[], "none", found)
        .map(|chain| (chain.links.len(), chain.extras.len()))
        .map_err(|error| error.to_string())
}

#[test]
fn a_slot_without_a_manifest_is_a_chain_when_it_has_no_gap() {
    let c = |name: &str, base, frames| Candidate {
        name: format!("{name}.sa"),
        ..candidate(0, base, frames)
    };
    assert_eq!(without_manifest(&[]), Ok((0, 0)));
    assert_eq!(without_manifest(&[c("a", 0, 0), c("b", 5, 0)]), Ok((0, 2)));
    assert_eq!(without_manifest(&[c("a", 7, 3), c("b", 10, 1)]), Ok((2, 0)));
    assert_eq!(without_manifest(&[c("a", 7, 3), c("b", 10, 0)]), Ok((1, 1)));
    assert!(
        without_manifest(&[c("a", 0, 3), c("b", 4, 1)]).is_err(),
        "gap"
    );
    assert!(without_manifest(&[c("a", 0, 3), c("b", 2, 1)]).is_err());
    assert!(without_manifest(&[c("flagged", 0, 0)]).is_err());
}
