//! What an answer means.

use std::time::{Duration, SystemTime};

use reqwest::{
    StatusCode,
    header::{HeaderMap, HeaderValue, LOCATION, RETRY_AFTER},
};
use service_kit::printed;

use crate::{attempt::Judgement, echo};

/// How much of a `Location` is shown, in letters.
const LOCATION_MAX: usize = 200;

/// Answers 4xx after which the same call may be taken. 403 is said of who calls, or of this event: whether others meet
/// it, too, tells.
const TAKEN_LATER: [u16; 4] = [403, 408, 425, 429];

/// The head of an answer, and what was kept of its body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// What `Retry-After` asks for, within what it is granted.
    pub(crate) after: Option<Duration>,
    /// Where a redirect leads, for people.
    pub(crate) location: String,
    /// For people.
    pub(crate) body: String,
}

/// What a webhook's answer means to its event. `templated`: the URL is made of the event.
pub(crate) fn judge(webhook: &str, answer: Answer, templated: bool) -> Judgement {
    let Answer { status, after, location, body } = answer;
    let colon = if body.is_empty() { "" } else { ": " };
    let reason = status.canonical_reason().map(|reason| format!(" {reason}")).unwrap_or_default();
    let said = |hint: &str| {
        format!("webhook {webhook} answered {}{reason}{hint}{colon}{body}", status.as_u16())
    };
    match status.as_u16() {
        200..=299 => Judgement::Delivered,
        300..=399 if location.is_empty() => Judgement::Refused {
            error: said(
                " without a Location, so the event was not accepted; check what `url` leads to, \
                 such as a cache or a login page, and set it to the receiver",
            ),
        },
        300..=399 => Judgement::Refused {
            error: said(&format!(
                " with the Location {location:?}; redirects are not followed, so set `url` to the \
                 final address"
            )),
        },
        // Of who calls, not of what: it befalls every event, and a person or a new file ends it.
        401 => Judgement::Unavailable { error: said(" (credentials refused)"), after },
        407 => Judgement::Unavailable { error: said(" (a proxy answered instead)"), after },
        410 if !templated => {
            Judgement::Unavailable { error: said(" (the receiver wants no more events)"), after }
        }
        code @ 400..=499 if !TAKEN_LATER.contains(&code) => Judgement::Refused { error: said("") },
        // 5xx; and what no specification knows.
        _ => Judgement::Retry { error: said(""), after },
    }
}

/// What `Retry-After` asks for at a time: seconds, or a date. At most `max`; `None` when it is neither.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime, max: Duration) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More than fits is longer than any maximum.
        text.parse().map_or(max, Duration::from_secs)
    } else {
        httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default()
    };
    Some(wait.min(max))
}

/// Where a redirect leads, for people.
pub(crate) fn location<'s>(headers: &HeaderMap, secrets: impl Iterator<Item = &'s str>) -> String {
    let bytes = headers.get(LOCATION).map(HeaderValue::as_bytes).unwrap_or_default();
    text(bytes, LOCATION_MAX, secrets)
}

/// What a stranger sent, for people: without secrets that it sends back, cut, as one line that acts on no terminal.
pub(crate) fn text<'s>(
    bytes: &[u8],
    bytes_max: usize,
    secrets: impl Iterator<Item = &'s str>,
) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end();
    let mut secrets: Vec<&str> = secrets.filter(|secret| !secret.is_empty()).collect();
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    let mut shown = String::new();
    let mut at = text.len() - text.trim_start().len();
    // By places in what was sent: a secret that begins before the cut is there whole, and one behind it is not shown.
    while let Some(letter) = text[at..].chars().next() {
        if at + letter.len_utf8() > bytes_max {
            return shown + "…";
        }
        if let Some(length) = secrets.iter().find_map(|secret| echo::length(&text[at..], secret)) {
            shown.push_str("***");
            at += length;
            continue;
        }
        if printed::visible(letter) == letter {
            shown.push(letter);
        } else {
            shown.extend(letter.escape_default());
        }
        at += letter.len_utf8();
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_mins(23_860_000);

    fn answer(status: u16) -> Answer {
        let status = StatusCode::from_u16(status).unwrap();
        let after = Some(Duration::from_secs(7));
        Answer { status, after, location: "https://other".into(), body: "no".into() }
    }

    #[test]
    fn each_status_has_its_outcome() {
        for status in 100..=999 {
            let word = |templated| match judge("shop", answer(status), templated) {
                Judgement::Delivered => "delivered",
                Judgement::Retry { after: Some(_), .. } => "retry",
                Judgement::Unavailable { after: Some(_), .. } => "unavailable",
                Judgement::Refused { .. } => "refused",
                other => panic!("{status}: {other:?}"),
            };
            let wanted = match status {
                200..=299 => "delivered",
                401 | 407 | 410 => "unavailable",
                403 | 408 | 425 | 429 => "retry",
                300..=499 => "refused",
                _ => "retry",
            };
            assert_eq!(word(false), wanted, "{status}");
            assert_eq!(word(true), if status == 410 { "refused" } else { wanted }, "{status}");
        }
    }

    #[test]
    fn the_sentence_has_what_the_receiver_said() {
        let Judgement::Refused { error } = judge("shop", answer(302), false) else { panic!() };
        let wanted = "webhook shop answered 302 Found with the Location \"https://other\"; redirects are not followed, \
                      so set `url` to the final address: no";
        assert_eq!(error, wanted);
        let nowhere = Answer { location: String::new(), ..answer(304) };
        let Judgement::Refused { error } = judge("shop", nowhere, false) else { panic!() };
        let wanted = "webhook shop answered 304 Not Modified without a Location, so the event was not accepted";
        assert!(error.starts_with(wanted) && !error.contains("redirects"), "{error}");
        let silent = Answer { body: String::new(), ..answer(599) };
        assert_eq!(
            judge("shop", silent, false),
            Judgement::Retry {
                error: "webhook shop answered 599".into(),
                after: Some(Duration::from_secs(7))
            }
        );
    }

    #[test]
    fn a_wait_that_is_asked_for_is_granted_within_its_bounds() {
        let max = Duration::from_hours(1);
        for (text, seconds) in [
            ("0", Some(0)),
            ("120", Some(120)),
            (" 120 ", Some(120)),
            ("3601", Some(3_600)),
            ("99999999999999999999999", Some(3_600)),
            ("Thu, 14 May 2015 10:41:40 GMT", Some(100)),
            ("Thu, 14 May 2015 10:00:00 GMT", Some(0)),
            ("Thursday, 14-May-15 10:41:40 GMT", Some(100)),
            ("Thu, 14 May 2099 10:00:00 GMT", Some(3_600)),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, text.parse().unwrap());
            let after = retry_after(&headers, SystemTime::UNIX_EPOCH + NOW, max);
            assert_eq!(after, seconds.map(Duration::from_secs), "{text}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), SystemTime::UNIX_EPOCH, max), None);
    }

    #[test]
    fn what_a_stranger_sends_is_shown_without_secrets_cut_and_harmless() {
        let secrets = || ["tok", "token-1"].into_iter();
        let shown = text(b" bad token-1\r\n\x1b[31m\0\xff\xe2\x80\xae. ", 100, secrets());
        assert_eq!(shown, "bad ***\\r\\n\\u{1b}[31m\\u{0}\u{fffd}\\u{202e}.");
        assert_eq!(text("äöü".as_bytes(), 3, secrets()), "ä…");
        assert_eq!(text(b"abc", 3, secrets()), "abc");
        // Of a secret at the cut nothing is shown, since it goes first.
        assert_eq!(text(b"abc token-1", 8, secrets()), "abc ***");
        assert_eq!(text(b"abc", 0, secrets()), "…");
    }
}
