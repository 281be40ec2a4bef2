//! The conversation with the server as pure state machines: no I/O, no clock.

mod backoff;
mod endpoints;
mod poison;
mod policy;
mod window;

pub(crate) use backoff::Backoff;
pub(crate) use endpoints::Endpoints;
pub(crate) use poison::Poison;
pub(crate) use policy::{Policy, policy};
pub(crate) use window::Window;
