//! Times and days as texts, to what computers count in.

/// Microseconds since 1970 from an RFC 3339 time such as `2026-01-31T09:30:00.250+01:00`. Digits below
/// a microsecond are cut off.
pub fn micros(text: &str) -> Option<i64> {
    let text = text.as_bytes();
    let (date, rest) = text.split_at_checked(10)?;
    let (clock, rest) = rest.split_at_checked(9)?;
    if !matches!(clock[0], b'T' | b't' | b' ') || clock[3] != b':' || clock[6] != b':' {
        return None;
    }
    let (hour, minute) = (below(&clock[1..3], 24)?, below(&clock[4..6], 60)?);
    // 60 is a leap second: it counts as the first of the next minute.
    let second = below(&clock[7..], 61)?;
    let (fraction, zone) = fraction(rest)?;
    let minutes = (i64::from(days_of(date)?) * 24 + hour) * 60 + minute - offset(zone)?;
    Some((minutes * 60 + second) * 1_000_000 + fraction)
}

/// Whether a time, in microseconds since 1970, is in the years 0000 to 9999, which RFC 3339 can write. A leap second or
/// an offset can lead out of them.
pub fn is_written(micros: i64) -> bool {
    (-62_167_219_200_000_000..=253_402_300_799_999_999).contains(&micros)
}

/// A time as `2026-01-31T09:30:00.250000Z`, from microseconds since 1970.
pub fn rfc3339(micros: i64) -> String {
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

/// A day as `2026-01-31`, from days since 1970.
pub fn day(days: i64) -> String {
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}")
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

/// Days since 1970 from `2026-01-31`.
pub fn days(text: &str) -> Option<i32> {
    days_of(text.as_bytes())
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |n, d| d.is_ascii_digit().then(|| n * 10 + i64::from(d - b'0')))
}

fn below(digits: &[u8], bound: i64) -> Option<i64> {
    number(digits).filter(|n| *n < bound)
}

/// Microseconds of `.123456`, and what follows them.
fn fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let Some(digits) = text.strip_prefix(b".") else { return Some((0, text)) };
    let count = digits.iter().take_while(|d| d.is_ascii_digit()).count();
    let (digits, zone) = digits.split_at(count);
    let micros = digits.iter().chain(b"00000").take(6);
    let micros = micros.fold(0, |n, d| n * 10 + i64::from(d - b'0'));
    (count > 0).then_some((micros, zone))
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

/// In the proleptic Gregorian calendar; `None` for a day that no month has.
fn days_of(date: &[u8]) -> Option<i32> {
    const BEFORE: [i64; 13] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365];
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = *date else { return None };
    let (year, month, day) = (number(&[y1, y2, y3, y4])?, number(&[m1, m2])?, number(&[d1, d2])?);
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
    i32::try_from(year * 365 + leaps + in_year - DAYS_FROM_YEAR_0_TO_1970).ok()
}
