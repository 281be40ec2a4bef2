//! What is said in a conversation: one frame at a time, with the state that lasts from frame to
//! frame. The receive pass in `session` decides when; this decides what.

use super::durable::DurableLedger;
use super::ledger::Ledger;
use super::{Commits, Ending, MessageHandler, Outcome, Refusal, SessionConfig};
use crate::response::{self, Status};
use crate::upgrade::DurableTier;
use crate::ws::{self, ClientFrame, Opcode, close};

/// A durable poll: version 1, only the poll flag, no tables, no payload (protocol.md 4.2).
pub(super) const DURABLE_POLL: [u8; 12] = *b"QWP1\x01\x02\0\0\0\0\0\0";

/// Everything but the receive buffer, so that a payload can be borrowed while this changes.
#[derive(Debug)]
pub(super) struct Talk {
    config: SessionConfig,
    pub(super) ledger: Ledger,
    pub(super) durable: DurableLedger,
    pub(super) local_durable: DurableLedger,
    commits: Commits,
    /// A message was refused: later ones are counted and neither processed nor answered.
    pub(super) broken: bool,
    /// A frame was handled in this pass, which is when durable acknowledgements may be sent.
    pub(super) handled: bool,
    pub(super) ended: Option<Ending>,
    payload: Vec<u8>,
}

impl Talk {
    pub(super) fn new(config: SessionConfig) -> Self {
        Self {
            ledger: Ledger::new(config.auto_ack),
            config,
            durable: DurableLedger::default(),
            local_durable: DurableLedger::default(),
            commits: Commits::default(),
            broken: false,
            handled: false,
            ended: None,
            payload: Vec::new(),
        }
    }

    pub(super) fn frame(
        &mut self,
        frame: ClientFrame,
        payload: &[u8],
        handler: &mut impl MessageHandler,
        out: &mut Vec<u8>,
    ) {
        self.handled = true;
        match (frame.opcode, frame.fin) {
            (Opcode::Binary, true) => self.binary(frame, payload, handler, out),
            (Opcode::Binary, false) | (Opcode::Continuation, _) => {
                let reason = "fragmented WebSocket frames are not supported";
                self.fatal(close::PROTOCOL_ERROR, reason, handler, out);
            }
            (Opcode::Text, _) => {
                let reason = "text frames are not supported, QWP requires binary frames";
                self.fatal(close::UNSUPPORTED_DATA, reason, handler, out);
            }
            (Opcode::Ping, _) => {
                let answers = handler.control_frame(Opcode::Ping, payload);
                self.flush(handler, out);
                if answers {
                    ws::append_server_frame(out, Opcode::Pong, payload);
                }
            }
            (Opcode::Pong, _) => {
                handler.control_frame(Opcode::Pong, payload);
            }
            (Opcode::Close, _) => {
                let answers = handler.control_frame(Opcode::Close, payload);
                self.flush(handler, out);
                if !answers {
                    self.ended = Some(Ending::Drop);
                    return;
                }
                let code = close::reply_code(close::split_payload(payload).0);
                self.write_close(code, "", out);
                self.ended = Some(Ending::Answered);
            }
        }
    }

    fn binary(
        &mut self,
        frame: ClientFrame,
        message: &[u8],
        handler: &mut impl MessageHandler,
        out: &mut Vec<u8>,
    ) {
        let seq = self.ledger.receive();
        if self.broken {
            handler.silenced(message, seq);
            return;
        }
        if message == DURABLE_POLL && self.config.durable.is_some() {
            self.ledger.pass();
            self.flush(handler, out);
            return;
        }
        let outcome = match self.precheck(frame, message) {
            Ok(()) => handler.message(message, seq, &mut self.commits),
            Err(refusal) => Err(refusal),
        };
        match outcome {
            Ok(Outcome::Committed) => {
                let closed_group = self.ledger.commit(&mut self.commits);
                if closed_group || self.ledger.unacked() >= self.config.ok_every {
                    self.acknowledge(handler, out);
                }
            }
            Ok(Outcome::Deferred) => self.ledger.defer(&mut self.commits),
            Ok(Outcome::RoleChange) => {
                self.commits.tables.clear();
                self.fatal(close::NORMAL, "", handler, out);
            }
            Ok(Outcome::Drop) => {
                self.commits.tables.clear();
                self.flush(handler, out);
                self.ended = Some(Ending::Drop);
            }
            Err(refusal) => {
                self.commits.tables.clear();
                self.refuse(seq, &refusal, handler, out);
            }
        }
    }

    /// The genuine server's checks before a message is looked into (protocol.md 10.6, 1 to 3).
    fn precheck(&self, frame: ClientFrame, message: &[u8]) -> Result<(), Refusal> {
        let parse_error = |text: String| Err(Refusal::new(Status::ParseError, text));
        let limit = self.config.message_bytes_max;
        if message == DURABLE_POLL {
            return parse_error("durable ACK poll was not negotiated".to_owned());
        }
        if message.len() > limit {
            return parse_error(format!(
                "message size exceeds maximum buffer size of {limit} bytes"
            ));
        }
        if self.config.read_only {
            return Err(Refusal::new(Status::SecurityError, "server is read-only"));
        }
        if self.config.strict && message.is_empty() {
            return parse_error("strict: empty message".to_owned());
        }
        if self.config.strict && !frame.minimal_length {
            return parse_error("strict: WebSocket length not in its shortest form".to_owned());
        }
        Ok(())
    }

    fn refuse(
        &mut self,
        seq: u64,
        refusal: &Refusal,
        handler: &mut impl MessageHandler,
        out: &mut Vec<u8>,
    ) {
        self.acknowledge(handler, out);
        if !self.broken {
            self.write_error(seq, refusal, out);
        }
    }

    /// Acknowledges what is done, then ends the conversation with a CLOSE of the server.
    pub(super) fn fatal(
        &mut self,
        code: u16,
        reason: &str,
        handler: &mut impl MessageHandler,
        out: &mut Vec<u8>,
    ) {
        self.flush(handler, out);
        self.write_close(code, reason, out);
    }

    pub(super) fn flush(&mut self, handler: &mut impl MessageHandler, out: &mut Vec<u8>) {
        self.acknowledge(handler, out);
        self.write_durable(out);
    }

    /// Settles what was applied and writes the OK that is due for it.
    fn acknowledge(&mut self, handler: &mut impl MessageHandler, out: &mut Vec<u8>) {
        if self.ledger.has_unsettled() && !self.broken {
            match handler.settle() {
                Ok(()) => self.ledger.settle(),
                Err(refusal) => {
                    let oldest = self.ledger.acked();
                    self.write_error(oldest, &refusal, out);
                    return;
                }
            }
        }
        self.write_ok(handler.ok_limit(), out);
    }

    pub(super) fn write_ok(&mut self, limit: u64, out: &mut Vec<u8>) {
        let Some((seq, tables)) = self.ledger.take_ok(limit) else {
            return;
        };
        self.payload.clear();
        let tables = tables.iter().map(|(table, seq_txn)| (&**table, *seq_txn));
        response::write_ok(&mut self.payload, seq.cast_signed(), tables);
        ws::append_server_frame(out, Opcode::Binary, &self.payload);
    }

    /// Writes an error and silences the connection.
    fn write_error(&mut self, seq: u64, refusal: &Refusal, out: &mut Vec<u8>) {
        self.broken = true;
        self.payload.clear();
        let seq = seq.cast_signed();
        response::write_error(&mut self.payload, refusal.status, seq, &refusal.text);
        ws::append_server_frame(out, Opcode::Binary, &self.payload);
    }

    pub(super) fn write_durable(&mut self, out: &mut Vec<u8>) {
        let Some(tier) = self.config.durable else {
            return;
        };
        if !self.handled {
            return;
        }
        let local = self.local_durable.take_untold();
        if !local.is_empty() && matches!(tier, DurableTier::Local | DurableTier::LocalAndReplicated)
        {
            self.payload.clear();
            let tables = local.iter().map(|(table, seq_txn)| (&**table, *seq_txn));
            response::write_local_durable_ack(&mut self.payload, tables);
            ws::append_server_frame(out, Opcode::Binary, &self.payload);
        }
        let stored = self.durable.take_untold();
        if !stored.is_empty() && tier != DurableTier::Local {
            self.payload.clear();
            let tables = stored.iter().map(|(table, seq_txn)| (&**table, *seq_txn));
            response::write_durable_ack(&mut self.payload, tables);
            ws::append_server_frame(out, Opcode::Binary, &self.payload);
        }
    }

    pub(super) fn write_close(&mut self, code: u16, reason: &str, out: &mut Vec<u8>) {
        ws::append_server_frame(out, Opcode::Close, &close::payload(code, reason));
        self.ended = Some(Ending::Initiated);
    }
}
