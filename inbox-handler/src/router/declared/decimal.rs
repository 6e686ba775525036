//! Decimal numbers as texts, of a size that databases take.

/// The longest decimal number, and the furthest its point may be moved.
const NUMERIC_BYTES_MAX: usize = 1000;
const NUMERIC_EXPONENT_MAX: u32 = 1000;

/// `-12.50` or `1e6`, with digits on both sides of the point.
pub(super) fn is_decimal(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let mantissa = mantissa.strip_prefix('-').unwrap_or(mantissa);
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let small = |exponent: &str| {
        let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        digits(unsigned) && unsigned.parse::<u32>().is_ok_and(|n| n <= NUMERIC_EXPONENT_MAX)
    };
    text.len() <= NUMERIC_BYTES_MAX
        && digits(whole)
        && fraction.is_none_or(digits)
        && exponent.is_none_or(small)
}
