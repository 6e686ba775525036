//! Times as producers write them.

/// Milliseconds since 1970 from whole milliseconds, or from an RFC 3339 time such as
/// `2026-01-31T09:30:00.250+01:00`. Fractions below a millisecond are cut off.
pub(super) fn millis(text: &str) -> Option<i64> {
    text.parse().ok().or_else(|| rfc3339(text.as_bytes()))
}

fn rfc3339(text: &[u8]) -> Option<i64> {
    let (date, rest) = text.split_at_checked(10)?;
    let (clock, rest) = rest.split_at_checked(9)?;
    if date[4] != b'-' || date[7] != b'-' || !matches!(clock[0], b'T' | b't' | b' ') {
        return None;
    }
    if clock[3] != b':' || clock[6] != b':' {
        return None;
    }
    let days = days(number(&date[..4])?, number(&date[5..7])?, number(&date[8..])?)?;
    let (hour, minute) = (below(&clock[1..3], 24)?, below(&clock[4..6], 60)?);
    // 60 is a leap second: it counts as the first of the next minute.
    let second = below(&clock[7..], 61)?;
    let (fraction, zone) = fraction(rest)?;
    Some((((days * 24 + hour) * 60 + minute - offset(zone)?) * 60 + second) * 1000 + fraction)
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |n, d| d.is_ascii_digit().then(|| n * 10 + i64::from(d - b'0')))
}

fn below(digits: &[u8], bound: i64) -> Option<i64> {
    number(digits).filter(|n| *n < bound)
}

/// Milliseconds of `.123456`, and what follows them.
fn fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let Some(digits) = text.strip_prefix(b".") else { return Some((0, text)) };
    let count = digits.iter().take_while(|d| d.is_ascii_digit()).count();
    let (digits, zone) = digits.split_at(count);
    let millis = digits.iter().chain(b"00").take(3).fold(0, |n, d| n * 10 + i64::from(d - b'0'));
    (count > 0).then_some((millis, zone))
}

/// Minutes east of Greenwich.
fn offset(zone: &[u8]) -> Option<i64> {
    match zone {
        b"Z" | b"z" => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let minutes = below(&[*h1, *h2], 24)? * 60 + below(&[*m1, *m2], 60)?;
            Some(if *sign == b'-' { -minutes } else { minutes })
        }
        _ => None,
    }
}

const DAYS_FROM_YEAR_0_TO_1970: i64 = 719_528;

/// Days since 1970-01-01 in the proleptic Gregorian calendar; `None` for a day that no month has.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    const BEFORE: [i64; 13] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365];
    let at = usize::try_from(month).ok().filter(|m| (1..=12).contains(m))?;
    let leap = i64::from(year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
    let length = BEFORE[at] - BEFORE[at - 1] + if month == 2 { leap } else { 0 };
    if !(1..=length).contains(&day) {
        return None;
    }
    // Leap days in the years before this one, from the year 0, which had one.
    let past = year - 1;
    let leaps = past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400) + 1;
    let in_year = BEFORE[at - 1] + if month > 2 { leap } else { 0 } + day - 1;
    Some(year * 365 + leaps + in_year - DAYS_FROM_YEAR_0_TO_1970)
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
