//! Every type by every way into the product (by name, with `Option`, prepared, as a chunk in each
//! of its forms), with every pattern of nulls: what the decoder finds in the message is what was
//! given; the bytes are the same by every way, and those of the official Rust client where it
//! makes the same choices.

mod batches;
mod chunks;
mod official;
mod rows;
mod values;

use std::collections::BTreeSet;

use forebay::{Error, Producer};
use forebay_tests::encode::Client;
use forebay_wire::dict::ConnectionDict;

use batches::{Batch, batches};
use chunks::Form;
use values::{Kind, kinds};

/// A client and what its connection has been told.
struct Way {
    client: Client,
    dict: ConnectionDict,
}

impl Way {
    fn new() -> Self {
        Self {
            client: Client::connect().expect("a client in memory"),
            dict: ConnectionDict::new(),
        }
    }

    /// The message of the batch, which holds exactly the batch.
    fn message(
        &mut self,
        batch: &Batch<'_>,
        may_lack_column: bool,
        fill: impl FnOnce(&mut Producer, &Batch<'_>) -> Result<(), Error>,
    ) -> Vec<u8> {
        let message = self.client.filled(|producer| fill(producer, batch));
        let message = message.unwrap_or_else(|error| panic!("{}: {error}", batch.table));
        batch.check(&message, &mut self.dict, may_lack_column);
        message
    }
}

/// Where bytes may differ between two ways of ours, and why.
fn differs(batch: &Batch<'_>) -> Option<&'static str> {
    if !batch.begins_with_a_value() {
        return Some("the column comes into being later, behind `n`, when NULL is said by silence");
    }
    None
}

#[test]
fn rows_by_name_option_and_handle_hold_what_was_given() {
    let (mut named, mut option, mut prepared) = (Way::new(), Way::new(), Way::new());
    let mut same = 0;
    for kind in kinds() {
        for batch in batches(&kind) {
            let bytes = named.message(&batch, batch.is_all_null(), rows::by_name);
            let others = [
                option.message(&batch, false, rows::by_option),
                prepared.message(&batch, false, rows::prepared),
            ];
            for other in others {
                if differs(&batch).is_none() {
                    assert_eq!(other, bytes, "{}", batch.table);
                    same += 1;
                }
            }
        }
    }
    println!("{same} batches by Option and by handle byte for byte as by name");
    assert!(same > 1000);
}

#[test]
fn chunks_in_every_form_hold_what_was_given() {
    for form in Form::ALL {
        let (mut named, mut chunked) = (Way::new(), Way::new());
        let (mut same, mut all) = (0, 0);
        for kind in kinds().iter().filter(|kind| form.suits(kind)) {
            for batch in batches(kind) {
                let bytes = named.message(&batch, batch.is_all_null(), rows::by_name);
                let other = chunked.message(&batch, false, |producer, batch| {
                    chunks::chunk(producer, batch, form)
                });
                all += 1;
                if differs(&batch).is_none() {
                    assert_eq!(other, bytes, "{} {form:?}", batch.table);
                    same += 1;
                }
            }
        }
        println!("{form:?}: {all} chunks, {same} byte for byte as rows");
        assert!(same * 2 >= all, "half of the batches begin with a value");
    }
}

#[test]
fn every_kind_has_a_chunk_form_or_a_reason() {
    let without: Vec<&str> = kinds()
        .iter()
        .filter(|kind| !Form::ALL.iter().any(|form| form.suits(kind)))
        .map(|kind| kind.label)
        .collect();
    // A chunk's decimal column has one scale; arrays in a chunk have one shape or one dimension.
    assert_eq!(without, ["array_empty", "dec64_mixed", "dec256_mixed"]);
}

/// Kinds whose bytes differ from the official client's, and why. They mean the same.
const EXCEPTIONS: [(&str, &str); 0] = [];
/// Kinds that the official client refuses: it keeps the scale of a column's first value and
/// refuses one with more digits, where ours rescales those before it.
const REFUSED_BY_OFFICIAL: [&str; 2] = ["dec64_mixed", "dec256_mixed"];

#[test]
fn rows_are_the_bytes_of_the_official_client() {
    let kinds = kinds();
    let (refused, taken): (Vec<&Kind>, Vec<&Kind>) = kinds
        .iter()
        .partition(|kind| REFUSED_BY_OFFICIAL.contains(&kind.label));
    for kind in refused {
        // The first value has no digits behind the point, those after it have.
        let rising = |batch: &Batch<'_>| {
            batch.rows[0].as_ref() == kind.values.first() && batch.rows.iter().flatten().count() > 3
        };
        let rising = batches(kind).into_iter().find(rising);
        let batch = rising.expect("a batch of several values");
        let error = official::messages(&[&batch]).expect_err("several scales");
        assert!(error.msg().contains("scale"), "{error}");
    }
    let all: Vec<Batch<'_>> = taken.into_iter().flat_map(batches).collect();
    let all: Vec<&Batch<'_>> = all.iter().collect();
    let theirs = official::messages(&all).expect("the official client takes the rows");
    assert_eq!(theirs.len(), all.len());
    let (mut ours, mut dict) = (Way::new(), ConnectionDict::new());
    let mut differing = BTreeSet::new();
    for (batch, theirs) in all.iter().zip(theirs) {
        let bytes = ours.message(batch, batch.is_all_null(), rows::by_name);
        batch.check(&theirs, &mut dict, batch.is_all_null());
        if bytes != theirs {
            differing.insert(batch.kind.label);
        }
    }
    println!(
        "{} batches, kinds with other bytes: {differing:?}",
        all.len()
    );
    let expected: BTreeSet<&str> = EXCEPTIONS.iter().map(|(label, _)| *label).collect();
    assert_eq!(differing, expected);
}
