//! Times in headers and payloads: milliseconds since 1970, or RFC 3339.

/// Reads a time. Fractions finer than a millisecond are cut off.
pub(super) fn millis(text: &str) -> Option<i64> {
    if let Ok(millis) = text.parse::<i64>() {
        return Some(millis);
    }
    let (date, rest) = text.split_at_checked(10)?;
    let mut parts = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let (clock, rest) = rest.split_at_checked(8)?;
    let mut parts = clock.split(':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let valid = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second);
    let (fraction, zone) = fraction(rest)?;
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    valid.then_some((seconds - offset(zone)?) * 1000 + fraction)
}

/// Days since 1970 of a date in the Gregorian calendar (Howard Hinnant's `days_from_civil`).
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn fraction(text: &str) -> Option<(i64, &str)> {
    let Some(digits) = text.strip_prefix('.') else { return Some((0, text)) };
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let (digits, zone) = digits.split_at(end);
    let millis: String = digits.chars().chain("000".chars()).take(3).collect();
    (!digits.is_empty()).then_some((millis.parse().ok()?, zone))
}

/// The seconds by which a zone is ahead of UTC.
fn offset(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z") {
        return Some(0);
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = zone[1..].split_once(':')?;
    Some(sign * (hours.parse::<i64>().ok()? * 3600 + minutes.parse::<i64>().ok()? * 60))
}
