//! The commands of `forebay-loadgen`, one file each: options, and the call into the library.

pub(crate) mod client;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod sink;
