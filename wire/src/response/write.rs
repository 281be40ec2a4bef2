//! Writing answers, for peers that stand in for a server.

use super::{ERROR_TEXT_BYTES_MAX, Status};

/// Appends an OK for everything up to `seq`. Names of no bytes or more than 65,535 cannot be
/// written; such entries, and entries past 65,535, are left out.
pub fn write_ok<'t, T>(out: &mut Vec<u8>, seq: i64, tables: T)
where
    T: IntoIterator<Item = (&'t str, i64)>,
{
    out.push(Status::Ok.code());
    out.extend_from_slice(&seq.to_le_bytes());
    write_tables(out, tables);
}

/// Appends a durable acknowledgement.
pub fn write_durable_ack<'t, T>(out: &mut Vec<u8>, tables: T)
where
    T: IntoIterator<Item = (&'t str, i64)>,
{
    out.push(Status::DurableAck.code());
    write_tables(out, tables);
}

/// Appends a local durable acknowledgement.
pub fn write_local_durable_ack<'t, T>(out: &mut Vec<u8>, tables: T)
where
    T: IntoIterator<Item = (&'t str, i64)>,
{
    out.push(Status::LocalDurableAck.code());
    write_tables(out, tables);
}

/// Appends a refusal of message `seq`; the text is cut at 1,024 bytes.
pub fn write_error(out: &mut Vec<u8>, status: Status, seq: i64, message: &str) {
    let cut = message.floor_char_boundary(ERROR_TEXT_BYTES_MAX);
    let text = message.get(..cut).unwrap_or_default();
    out.push(status.code());
    out.extend_from_slice(&seq.to_le_bytes());
    // At most 1,024, so it fits.
    out.extend_from_slice(&u16::try_from(text.len()).unwrap_or(0).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn write_tables<'t, T>(out: &mut Vec<u8>, tables: T)
where
    T: IntoIterator<Item = (&'t str, i64)>,
{
    let count_at = out.len();
    out.extend_from_slice(&[0; 2]);
    let mut count = 0_u16;
    for (name, txn) in tables.into_iter().filter(|(name, _)| !name.is_empty()) {
        let Ok(length) = u16::try_from(name.len()) else {
            continue;
        };
        let Some(next) = count.checked_add(1) else {
            break;
        };
        count = next;
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(&txn.to_le_bytes());
    }
    if let Some(field) = out.get_mut(count_at..count_at.saturating_add(2)) {
        field.copy_from_slice(&count.to_le_bytes());
    }
}
