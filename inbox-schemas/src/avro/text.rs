//! How values of Avro that JSON has no type for are written in it: docs/schemas.md has the table.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use num_bigint::BigInt;
use serde_json::{Value, json};

/// The longest decimal, in bytes and in digits behind the point: its digits are made by squaring.
const DECIMAL_BYTES_MAX: usize = 416;
const SCALE_MAX: usize = 1000;

const DAY: i64 = 86_400;
/// The years 0000 to 9999, in days since 1970: what RFC 3339 can write.
const DAYS: std::ops::RangeInclusive<i64> = -719_528..=2_932_896;

type Fault = &'static str;

const TOO_LONG: Fault = "a decimal is too long";

pub(super) fn base64(bytes: &[u8]) -> Value {
    STANDARD.encode(bytes).into()
}

/// JSON has no number for these three.
pub(super) fn float(value: f64) -> Value {
    match value {
        value if value.is_nan() => "NaN".into(),
        f64::INFINITY => "Infinity".into(),
        f64::NEG_INFINITY => "-Infinity".into(),
        value => value.into(),
    }
}

/// Of four bytes: with the shortest digits that are this number among those, as 0.1, and not 0.10000000149011612.
pub(super) fn short_float(value: f32) -> Value {
    let shortest = value.to_string().parse().ok().filter(|shortest: &f64| {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "it is what a reader of four bytes does"
        )]
        let again = *shortest as f32;
        again.to_bits() == value.to_bits()
    });
    float(shortest.unwrap_or_else(|| value.into()))
}

pub(super) fn decimal(unscaled: &[u8], scale: usize) -> Result<Value, Fault> {
    if unscaled.len() > DECIMAL_BYTES_MAX {
        return Err(TOO_LONG);
    }
    decimal_of(&BigInt::from_signed_bytes_be(unscaled), scale)
}

/// The same of a number that is within bounds.
pub(super) fn decimal_of(unscaled: &BigInt, scale: usize) -> Result<Value, Fault> {
    if scale > SCALE_MAX {
        return Err(TOO_LONG);
    }
    let digits = unscaled.to_string();
    if scale == 0 {
        return Ok(digits.into());
    }
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", &*digits),
    };
    let digits = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    Ok(format!("{sign}{whole}.{fraction}").into())
}

pub(super) fn uuid_of_text(text: &str) -> Result<Value, Fault> {
    let digits = text.bytes().filter(u8::is_ascii_hexdigit).count();
    let plain = text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    if digits == 32 && plain { Ok(text.into()) } else { Err("a uuid is malformed") }
}

pub(super) fn uuid(bytes: &[u8]) -> Result<Value, Fault> {
    let bytes: [u8; 16] = bytes.try_into().map_err(|_| "a uuid does not have 16 bytes")?;
    let hex = format!("{:032x}", u128::from_be_bytes(bytes));
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    Ok(parts.join("-").into())
}

pub(super) fn date(days: i32) -> Result<Value, Fault> {
    Ok(day(days.into())?.into())
}

/// The time of a day.
pub(super) fn time(value: i64, per_second: i64) -> Result<Value, Fault> {
    if !(0..DAY * per_second).contains(&value) {
        return Err("a time is outside of a day");
    }
    Ok(clock(value, per_second).into())
}

pub(super) fn timestamp(value: i64, per_second: i64, local: bool) -> Result<Value, Fault> {
    let (days, in_day) = (value.div_euclid(DAY * per_second), value.rem_euclid(DAY * per_second));
    let zone = if local { "" } else { "Z" };
    Ok(format!("{}T{}{zone}", day(days)?, clock(in_day, per_second)).into())
}

pub(super) fn duration([months, days, millis]: [u32; 3]) -> Value {
    json!({ "months": months, "days": days, "millis": millis })
}

/// With as many digits as its unit has.
fn clock(value: i64, per_second: i64) -> String {
    let (seconds, fraction) = (value / per_second, value % per_second);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let width = per_second.ilog10() as usize;
    format!("{hour:02}:{minute:02}:{second:02}.{fraction:0width$}")
}

/// A day in the proleptic Gregorian calendar. Years begin in March here, so that a leap day is their last.
fn day(days: i64) -> Result<String, Fault> {
    if !DAYS.contains(&days) {
        return Err("a date is outside of the years 0000 to 9999");
    }
    // In eras of 400 years, from 1 March of the year 0.
    let days = days + 719_468;
    let (era, in_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year + year / 4 - year / 100);
    let month = (5 * in_year + 2) / 153;
    let of_month = in_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    Ok(format!("{:04}-{month:02}-{of_month:02}", era * 400 + year + next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_times_are_those_of_the_calendar() {
        for (days, text) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (11_016, "2000-02-29"),
            (20_484, "2026-01-31"),
            (-719_528, "0000-01-01"),
            (2_932_896, "9999-12-31"),
        ] {
            assert_eq!(date(days), Ok(text.into()));
        }
        // Every day has the number that it was made of.
        for days in (-719_528..2_932_896).step_by(101) {
            let text = day(days).unwrap();
            assert_eq!(outbox_core::internal::days(&text).map(i64::from), Some(days), "{text}");
        }
        assert!(date(2_932_897).is_err() && date(i32::MIN).is_err());
        let moment = 1_769_848_200_250;
        assert_eq!(timestamp(moment, 1_000, false), Ok("2026-01-31T08:30:00.250Z".into()));
        assert_eq!(timestamp(-1, 1_000_000, true), Ok("1969-12-31T23:59:59.999999".into()));
        assert!(timestamp(i64::MAX, 1_000, false).is_err());
        assert_eq!(time(86_399_999, 1_000), Ok("23:59:59.999".into()));
        assert!(time(86_400_000, 1_000).is_err() && time(-1, 1_000).is_err());
    }

    #[test]
    fn decimals_have_all_their_digits() {
        for (bytes, scale, text) in [
            (&[0x04, 0xd2][..], 2, "12.34"),
            (&[0xfb, 0x2e], 2, "-12.34"),
            (&[5], 3, "0.005"),
            (&[0xfb], 1, "-0.5"),
            (&[], 2, "0.00"),
            (&[0x7f], 0, "127"),
        ] {
            assert_eq!(decimal(bytes, scale), Ok(text.into()));
        }
        assert!(decimal(&[1; 417], 0).is_err() && decimal(&[1], 1001).is_err());
    }
}
