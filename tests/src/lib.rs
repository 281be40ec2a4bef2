//! What the tests of this crate share. Each file under `tests/` is one claim about the whole.

pub mod address;
pub mod again;
pub mod block;
pub mod cells;
pub mod client_rows;
pub mod corpus;
pub mod encode;
pub mod messages;
pub mod numbered;
pub mod parse;
pub mod seeds;
pub mod stored_slot;
