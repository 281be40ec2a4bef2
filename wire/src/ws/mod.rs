//! The WebSocket layer of QWP: frame headers, masking, close codes and the client's reader.
//!
//! Called by the engine's delivery code (client side), by [`crate::server`] (server side) and by
//! the simulator, always on the caller's thread. Nothing here reads a socket, a clock or a random
//! generator: mask keys and nonces come from the caller. Bytes of the peer never panic.
//!
//! The two directions have different rules, so each has its own parse: what a server sends is
//! held to RFC 6455 to the letter ([`ServerFrame`]); what a client sends is judged as leniently
//! as the genuine server does ([`ClientFrame`]).

mod client_frame;
pub mod close;
mod encode;
mod header;
pub mod mask;
mod reader;
mod server_frame;

pub use client_frame::{ClientFault, ClientFrame};
pub use encode::{
    HeaderBuf, append_client_frame, append_server_frame, client_frame_len, encode_client_header,
    encode_server_header, write_client_frame,
};
pub use header::{CONTROL_PAYLOAD_BYTES_MAX, HEADER_BYTES_MAX, Opcode};
pub use reader::{Event, Reader, Step};
pub use server_frame::{ServerFrame, Violation};
