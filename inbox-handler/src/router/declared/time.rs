//! Times and days as texts, to what databases count in.

pub(super) use outbox_core::internal::days;
use outbox_core::{TimeUnit, internal};

/// Microseconds since 1970 from an RFC 3339 time, within the years 0000 to 9999: the text that SQLite is given for
/// another time would not sort.
pub(super) fn micros(text: &str) -> Option<i64> {
    internal::micros(text).filter(|micros| internal::is_written(*micros))
}

/// What was found in place of a time.
pub(super) const NO_TIME: &str = "a number outside of the years 0000 to 9999";
pub(super) const SMALL: &str = "a number that is in 1970 to 1973 as milliseconds, so it is \
                                probably seconds or days";

/// Microseconds since 1970 from a number: milliseconds without a unit, as everywhere.
pub(super) fn of_number(number: i64, unit: Option<TimeUnit>) -> Result<i64, &'static str> {
    let is_small = unit.is_none() && micros_of_millis(number).is_some();
    internal::micros_of(number, unit).ok_or(if is_small { SMALL } else { NO_TIME })
}

/// Microseconds since 1970 from milliseconds, within the years 0000 to 9999.
pub(super) fn micros_of_millis(millis: i64) -> Option<i64> {
    TimeUnit::Millis.micros(millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_microseconds_since_1970() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("1969-12-31T23:59:59.999999Z", Some(-1)),
            ("2000-02-29T12:00:00Z", Some(951_825_600_000_000)),
            ("2026-01-31T09:30:00.25+01:00", Some(1_769_848_200_250_000)),
            ("2026-01-31 08:30:00.2500019z", Some(1_769_848_200_250_001)),
            ("0000-01-01T00:00:00Z", Some(-62_167_219_200_000_000)),
            ("9999-12-31T23:59:59Z", Some(253_402_300_799_000_000)),
            ("0000-01-01T00:00:00+00:01", None),
            ("9999-12-31T23:59:59.999999Z", Some(253_402_300_799_999_999)),
            ("9999-12-31T23:59:60Z", None),
            ("9999-12-31T23:59:00-00:01", None),
            ("2025-02-29T12:00:00Z", None),
            ("2026-01-31T24:00:00Z", None),
            ("2026-01-31T09:30:00", None),
            ("2026-01-31T09:30:00.Z", None),
            ("2026-01-31", None),
            ("+026-01-31T09:30:00Z", None),
            ("ünïcödé-31T09:30:00Z", None),
            ("", None),
        ] {
            assert_eq!(micros(text), expected, "{text}");
        }
        assert_eq!(micros_of_millis(-1), Some(-1_000));
        assert_eq!(micros_of_millis(i64::MAX), None);
        assert_eq!(micros_of_millis(i64::MIN), None);
    }

    #[test]
    fn days_are_counted_from_1970() {
        for (text, expected) in [
            ("1970-01-01", Some(0)),
            ("1969-12-31", Some(-1)),
            ("2000-02-29", Some(11_016)),
            ("2100-02-29", None),
            ("2026-13-01", None),
            ("2026-00-01", None),
            ("2026-1-1", None),
            ("2026-01-01T", None),
            ("", None),
        ] {
            assert_eq!(days(text), expected, "{text}");
        }
    }
}
