//! A relation of events as one JSON text, for a database that knows JSON and no arrays.

use std::fmt::Write as _;

use outbox_core::internal::{day, rfc3339};
use serde_json::{Value, json};

use crate::port::{Relation, Values};

/// The relation as `[[ord, event_id, aggregate_id, occurred_at, …], …]`.
pub(crate) fn rows(relation: &Relation<'_>) -> String {
    let row = |at: usize| {
        let occurred_at = relation.occurred_at[at].map(rfc3339);
        let mut row = vec![
            json!(at + 1),
            json!(relation.ids[at].hyphenated().to_string()),
            json!(relation.aggregate_ids[at]),
            json!(occurred_at),
        ];
        row.extend(relation.columns.iter().map(|values| value(values, at)));
        Value::Array(row)
    };
    Value::Array((0..relation.ids.len()).map(row).collect()).to_string()
}

fn value(values: &Values<'_>, at: usize) -> Value {
    match values {
        Values::Bools(values) => json!(values[at]),
        Values::Bytes(values) => json!(values[at].as_deref().map(hex)),
        Values::Days(values) => json!(values[at].map(|days| day(days.into()))),
        Values::Floats(values) => json!(values[at]),
        Values::Ints(values) => json!(values[at]),
        Values::Longs(values) => json!(values[at]),
        Values::Micros(values) => json!(values[at].map(rfc3339)),
        Values::Texts(values) => json!(values[at]),
        Values::Uuids(values) => json!(values[at].map(|id| id.hyphenated().to_string())),
    }
}

/// Bytes in hexadecimal.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::{hex, rfc3339};

    #[test]
    fn times_are_written_as_rfc_3339() {
        let table = [
            (0, "1970-01-01T00:00:00.000000Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (951_825_600_000_000, "2000-02-29T12:00:00.000000Z"),
            (1_769_848_200_250_001, "2026-01-31T08:30:00.250001Z"),
            (-62_167_219_200_000_000, "0000-01-01T00:00:00.000000Z"),
            (253_402_300_799_000_000, "9999-12-31T23:59:59.000000Z"),
        ];
        for (micros, expected) in table {
            assert_eq!(rfc3339(micros), expected);
        }
        assert_eq!(hex(&[0, 171, 255]), "00abff");
    }
}
