//! Times as producers write them.

use serde::{Deserialize, Serialize};

use crate::{Problem, time};

/// What a number counts that stands for a time, from the beginning of 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TimeUnit {
    /// Days.
    Days,
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
    /// Nanoseconds; digits below a microsecond are cut off.
    Nanos,
}

impl TimeUnit {
    /// All of them.
    #[doc(hidden)]
    pub const ALL: [Self; 5] = [Self::Days, Self::Seconds, Self::Millis, Self::Micros, Self::Nanos];

    /// How configurations write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Days => "days",
            Self::Seconds => "seconds",
            Self::Millis => "millis",
            Self::Micros => "micros",
            Self::Nanos => "nanos",
        }
    }

    /// That of a logical type of Kafka Connect or Debezium whose values are numbers in another unit than milliseconds.
    pub(super) fn of_logical_type(name: &str) -> Option<Self> {
        Some(match name {
            "io.debezium.time.Date" | "org.apache.kafka.connect.data.Date" => Self::Days,
            "io.debezium.time.MicroTimestamp" => Self::Micros,
            "io.debezium.time.NanoTimestamp" => Self::Nanos,
            _ => return None,
        })
    }

    /// Microseconds since 1970; nothing for a time that is not in the years 0000 to 9999.
    #[doc(hidden)]
    pub fn micros(self, number: i64) -> Option<i64> {
        let micros = match self {
            Self::Days => number.checked_mul(86_400_000_000),
            Self::Seconds => number.checked_mul(1_000_000),
            Self::Millis => number.checked_mul(1_000),
            Self::Micros => Some(number),
            Self::Nanos => Some(number.div_euclid(1_000)),
        };
        micros.filter(|micros| time::is_written(*micros))
    }
}

/// A number of milliseconds up to this one is before March 1973. Nobody sends events from then, but seconds and days
/// are such numbers.
const MILLIS_MIN: i64 = 100_000_000_000;

/// Microseconds since 1970 from a number in a unit, in the years 0000 to 9999. Where none is named it is milliseconds, and
/// no time between 1970 and March 1973.
pub fn micros_of(number: i64, unit: Option<TimeUnit>) -> Option<i64> {
    if unit.is_none() && (1..MILLIS_MIN).contains(&number) {
        return None;
    }
    unit.unwrap_or(TimeUnit::Millis).micros(number)
}

/// Milliseconds since 1970 from a whole number, or from an RFC 3339 time such as
/// `2026-01-31T09:30:00.250+01:00`. Fractions below a millisecond are cut off. Numbers are milliseconds unless `unit`
/// says otherwise.
pub(super) fn millis(text: &str, unit: Option<TimeUnit>) -> Result<i64, Problem> {
    let Ok(number) = text.parse() else {
        let micros = time::micros(text).filter(|micros| time::is_written(*micros));
        return micros.map(|micros| micros.div_euclid(1_000)).ok_or(Problem::NotTime);
    };
    micros_of(number, unit).map(|micros| micros.div_euclid(1_000)).ok_or(Problem::OtherUnit)
}

#[cfg(test)]
mod tests {
    use super::{Problem, TimeUnit, millis};

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
            ("253402300799999", Some(253_402_300_799_999)),
            ("2025-02-29T12:00:00Z", None),
            ("2026-01-31T09:30:00", None),
            ("2026-01-31T09:30:00.Z", None),
            ("2026-01-31", None),
            ("9999-12-31T23:59:60Z", None),
            ("yesterday", None),
            ("99999999999999999999", None),
            ("", None),
        ] {
            assert_eq!(millis(text, None), expected.ok_or(Problem::NotTime), "{text}");
        }
    }

    #[test]
    fn a_number_that_is_no_time_in_its_unit_is_refused() {
        // Microseconds, nanoseconds, the year 10000; days and seconds.
        for text in [
            "1767323045678901",
            "1767323045678901234",
            "253402300800000",
            "20485",
            "1767323045",
            "-62167219200001",
        ] {
            assert_eq!(millis(text, None), Err(Problem::OtherUnit), "{text}");
        }
        for (unit, text, expected) in [
            (TimeUnit::Micros, "1767323045678901", 1_767_323_045_678),
            (TimeUnit::Nanos, "1767323045678901234", 1_767_323_045_678),
            (TimeUnit::Seconds, "1767323045", 1_767_323_045_000),
            (TimeUnit::Days, "20485", 1_769_904_000_000),
            (TimeUnit::Millis, "20485", 20_485),
            (TimeUnit::Micros, "2026-01-02T03:04:05.678901Z", 1_767_323_045_678),
        ] {
            assert_eq!(millis(text, Some(unit)), Ok(expected), "{text}");
        }
        assert_eq!(millis("253402300800", Some(TimeUnit::Seconds)), Err(Problem::OtherUnit));
        assert_eq!(millis(&i64::MAX.to_string(), Some(TimeUnit::Days)), Err(Problem::OtherUnit));
    }
}
