//! Times as producers write them.

use crate::time;

/// Milliseconds since 1970 from whole milliseconds, or from an RFC 3339 time such as
/// `2026-01-31T09:30:00.250+01:00`. Fractions below a millisecond are cut off.
pub(super) fn millis(text: &str) -> Option<i64> {
    let of_micros = |micros: i64| micros.div_euclid(1_000);
    text.parse().ok().or_else(|| time::micros(text).map(of_micros))
}

#[cfg(test)]
mod tests {
    use super::millis;

    #[test]
    fn times_are_milliseconds_or_rfc_3339() {
        for (text, expected) in [
            ("0", Some(0)),
            ("-5", Some(-5)),
            ("1970-01-01T00:00:00Z", Some(0)),
            ("1969-12-31T23:59:59.999Z", Some(-1)),
            ("2000-02-29T12:00:00Z", Some(951_825_600_000)),
            ("2026-01-31T09:30:00.25+01:00", Some(1_769_848_200_250)),
            ("2026-01-31 08:30:00.250999z", Some(1_769_848_200_250)),
            ("0000-01-01T00:00:00Z", Some(-62_167_219_200_000)),
            ("0000-12-31T00:00:00Z", Some(-62_135_683_200_000)),
            ("9999-12-31T23:59:59Z", Some(253_402_300_799_000)),
            ("2025-02-29T12:00:00Z", None),
            ("2026-01-31T09:30:00", None),
            ("2026-01-31T09:30:00.Z", None),
            ("2026-01-31", None),
            ("yesterday", None),
            ("", None),
        ] {
            assert_eq!(millis(text), expected, "{text}");
        }
    }
}
