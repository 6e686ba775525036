//! Numbers with a fraction, as Java writes them.

use std::fmt::LowerExp;

/// `Double.toString`: the shortest digits that are this number (Java 19 and later; earlier ones write a digit too many at
/// times), with an exponent from 10^7 on and below 10^-3.
pub(crate) fn double(value: f64) -> String {
    written(value, value.is_nan(), value.is_infinite(), value.is_sign_negative())
}

/// `Float.toString`.
pub(crate) fn float(value: f32) -> String {
    written(value, value.is_nan(), value.is_infinite(), value.is_sign_negative())
}

fn written(value: impl LowerExp, nan: bool, infinite: bool, negative: bool) -> String {
    let sign = if negative { "-" } else { "" };
    if nan {
        return "NaN".into();
    }
    if infinite {
        return format!("{sign}Infinity");
    }
    let mut text = format!("{value:e}");
    if !text.contains('.') {
        // Java takes two digits at least, and those that are nearest: 4.9E-324, not 5E-324.
        text = format!("{value:.1e}");
    }
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let plain = digits.trim_end_matches('0');
    let (first, rest) = digits.split_at(1);
    let rest = rest.trim_end_matches('0');
    let or_zero = |digits: &str| if digits.is_empty() { "0".to_owned() } else { digits.to_owned() };
    match exponent {
        0..=6 => {
            let whole = usize::try_from(exponent).unwrap_or_default() + 1;
            let padded = format!("{plain:0<whole$}");
            let (whole, fraction) = padded.split_at(whole);
            format!("{sign}{whole}.{}", or_zero(fraction))
        }
        -3..0 => {
            let zeros = usize::try_from(-1 - exponent).unwrap_or_default();
            format!("{sign}0.{}{plain}", "0".repeat(zeros))
        }
        _ => format!("{sign}{first}.{}E{exponent}", or_zero(rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_written_as_java_writes_them() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (12.5, "12.5"),
            (100.0, "100.0"),
            (0.001, "0.001"),
            (0.00099, "9.9E-4"),
            (0.012, "0.012"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (1e10, "1.0E10"),
            (123_456_789.125, "1.23456789125E8"),
            (-1.5e-7, "-1.5E-7"),
            (5e-324, "4.9E-324"),
            (f64::MAX, "1.7976931348623157E308"),
            (1e22, "1.0E22"),
        ] {
            assert_eq!(double(value), text);
        }
        assert_eq!(
            (float(0.1), float(1e-5), float(3.5e10)),
            ("0.1".into(), "1.0E-5".into(), "3.5E10".into())
        );
    }
}
