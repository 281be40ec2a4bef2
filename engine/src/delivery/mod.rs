//! The conversation with the server as pure state machines: no I/O, no clock.

mod conversation;
mod durable;
mod endpoints;
pub(crate) mod letter;
mod liveness;
mod pace;
mod poison;
mod policy;
mod split;
#[cfg(any(test, feature = "internals"))]
pub mod view;
mod window;

pub(crate) use conversation::{Conversation, End, Refusal, Then};
pub(crate) use endpoints::{Endpoints, Failure, RoundEnd};
pub(crate) use liveness::Due;
use pace::Pace;
use poison::Poison;
pub(crate) use split::Split;
pub(crate) use window::Window;
