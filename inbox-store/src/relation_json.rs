//! A relation of events as one JSON text, for a database that knows JSON and no arrays.

use std::fmt::Write as _;

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

/// A day as `2026-01-31`, from days since 1970.
fn day(days: i64) -> String {
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}")
}

/// A time as `2026-01-31T09:30:00.250000Z`, from microseconds since 1970.
fn rfc3339(micros: i64) -> String {
    const SECOND: i64 = 1_000_000;
    const DAY: i64 = 86_400 * SECOND;
    let (days, rest) = (micros.div_euclid(DAY), micros.rem_euclid(DAY));
    let (seconds, fraction) = (rest / SECOND, rest % SECOND);
    format!(
        "{}T{:02}:{:02}:{:02}.{fraction:06}Z",
        day(days),
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// Year, month and day of the proleptic Gregorian calendar. Eras of 400 years begin on a 1 March.
fn civil(days: i64) -> (i64, i64, i64) {
    let from_march_of_year_0 = days + 719_468;
    let (era, in_era) =
        (from_march_of_year_0.div_euclid(146_097), from_march_of_year_0.rem_euclid(146_097));
    let year = (in_era - in_era / 1_460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year + year / 4 - year / 100);
    let month = (5 * in_year + 2) / 153;
    let day = in_year - (153 * month + 2) / 5 + 1;
    let (year, month) = (era * 400 + year, if month < 10 { month + 3 } else { month - 9 });
    (year + i64::from(month <= 2), month, day)
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
