//! Ids that are places in a database's log: what tells changes of one place apart, and when an id alone tells a change.

use std::{borrow::Cow, fmt};

use sha2::{Digest as _, Sha256};

use super::ReadError;
use crate::Record;

/// A record in the form that the rules of a format are about.
pub(super) struct Plain<'r> {
    pub(super) record: Cow<'r, Record>,
    /// Whether the id of the format's own alone tells which event it is.
    pub(super) told_by_id: bool,
}

/// Whether no other change has the place of this one: an update or a deletion is one row of the log, and the connector
/// may number the changes of a transaction. It may send one again with other columns and defaults, as it finds the table
/// by then. Rows of one COPY share a place.
pub(super) fn is_of_one_change(op: &str, is_numbered: bool) -> bool {
    is_numbered || matches!(op, "u" | "d" | "t")
}

/// 128 bits of a hash of what tells changes of one place in the log apart, in hexadecimal.
pub(super) fn digest<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> String {
    let mut hash = Sha256::new();
    for (at, part) in parts.into_iter().enumerate() {
        if at > 0 {
            hash.update([0]);
        }
        hash.update(part);
    }
    hash.finalize()[..16].iter().fold(String::new(), |mut text, byte| {
        let _always = fmt::Write::write_fmt(&mut text, format_args!("{byte:02x}"));
        text
    })
}

/// What Debezium's converter has beside the position, which rows of one COPY and the halves of a changed key share.
const APART: [&str; 8] = [
    "ce_iodebeziumdb",
    "ce_iodebeziumschema",
    "ce_iodebeziumtable",
    "ce_iodebeziumop",
    "ce_iodebeziumrow",
    "ce_iodebeziumeventserialno",
    "ce_iodebeziumtxtotalorder",
    "ce_time",
];

/// The same with an id of its own for each change of Debezium: its `CloudEventsConverter` makes the attribute of the
/// position in the log alone.
pub(super) fn told_apart(record: Cow<'_, Record>) -> Result<Plain<'_>, ReadError> {
    let text = |name| record.header(name).map_or(&b""[..], |value| &value[..]);
    let (id, op) = (text("ce_id"), text("ce_iodebeziumop"));
    let is_of_debezium =
        !text("ce_iodebeziumconnector").is_empty() || text("ce_source").starts_with(b"/debezium/");
    if !is_of_debezium || !id.starts_with(b"name:") {
        return Ok(Plain { record, told_by_id: false });
    }
    let is_numbered = !text("ce_iodebeziumtxtotalorder").is_empty();
    if record.key.is_none() && !is_numbered && op != b"t" {
        return Err(ReadError::Preset {
            reason: "missing_id",
            text: "cloudevents record: it is a Debezium change without a key, so it cannot be \
                   told apart from other rows of its statement: give the table a primary key, or \
                   set `message.key.columns` or `provide.transaction.metadata` in the connector"
                .to_owned(),
        });
    }
    // As `debezium-raw` has it: each reading of a row by a snapshot is an event.
    let read = |value| if op == b"r" { value } else { &b""[..] };
    let row = record.payload.as_deref().unwrap_or_default();
    let parts = APART.map(text).into_iter().chain([
        read(row),
        read(text("ce_iodebeziumtsns")),
        record.key.as_deref().unwrap_or_default(),
    ]);
    let id = [id, b"/", digest(parts).as_bytes()].concat();
    let op = std::str::from_utf8(op).unwrap_or_default();
    let told_by_id = is_of_one_change(op, is_numbered);
    let mut record = record.into_owned();
    if let Some(header) = record.headers.iter_mut().rfind(|header| header.name == "ce_id") {
        header.value = Some(id.into());
    }
    Ok(Plain { record: Cow::Owned(record), told_by_id })
}
