//! Signatures of Standard Webhooks, checked: HMAC-SHA256 over id, time and body.

use axum::http::HeaderMap;
use service_kit::WebhookKey;

use crate::webhook_headers::WebhookHeaders;

/// Signatures of one request that are looked at: a sender has few secrets at a time.
const SIGNATURES_MAX: usize = 16;

/// Checks that one of the secrets has signed a request, no longer ago and no longer ahead than `tolerance` seconds.
pub(crate) fn verify(
    keys: &[WebhookKey],
    headers: &HeaderMap,
    body: &[u8],
    now: u64,
    tolerance: u64,
) -> Result<(), String> {
    let names = WebhookHeaders::of(headers);
    let header = |name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.ok_or_else(|| format!("the header `{name}` is missing"))
    };
    let (id, timestamp) = (header(names.id)?, header(names.timestamp)?);
    let signatures = header(names.signature)?;
    let at: u64 = timestamp
        .parse()
        .map_err(|_| format!("`{}` is not a number of seconds", names.timestamp))?;
    if at.abs_diff(now) > tolerance {
        return Err(format!("`{}` is too far from the current time", names.timestamp));
    }
    let signatures = signatures.split(' ').filter(|signature| signature.starts_with("v1,"));
    let signatures = signatures.take(SIGNATURES_MAX);
    if keys.iter().any(|key| key.has_signed(signatures.clone(), id, timestamp, body)) {
        Ok(())
    } else {
        Err(format!("no signature in `{}` matches a known secret", names.signature))
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use proptest::prelude::*;
    use standardwebhooks::Webhook;

    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const AT: u64 = 1_614_265_330;
    const BODY: &[u8] = br#"{"test": 2432232314}"#;

    fn headers(signature: &str) -> HeaderMap {
        let named = [
            ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek".to_owned()),
            ("webhook-timestamp", AT.to_string()),
            ("webhook-signature", signature.to_owned()),
        ];
        named
            .into_iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_str(&value).unwrap()))
            .collect()
    }

    fn verified(headers: &HeaderMap, body: &[u8], now: u64) -> Result<(), String> {
        verify(&[WebhookKey::read(SECRET).unwrap()], headers, body, now, 300)
    }

    #[test]
    fn the_published_example_is_taken_and_nothing_else() {
        let good = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(verified(&headers(good), BODY, AT), Ok(()));
        assert_eq!(verified(&headers(&format!("v1,AAAA v1a,x {good}")), BODY, AT + 300), Ok(()));
        assert!(verified(&headers(good), BODY, AT + 301).unwrap_err().contains("too far"));
        assert!(verified(&headers(good), BODY, AT - 301).unwrap_err().contains("too far"));
        assert!(verified(&headers(good), b"{}", AT).unwrap_err().contains("no signature"));
        assert!(verified(&headers("v1,AAAA"), BODY, AT).is_err());
        assert!(verified(&headers(&good[3..]), BODY, AT).is_err());
        for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
            let mut without = headers(good);
            without.remove(name);
            assert!(verified(&without, BODY, AT).unwrap_err().contains(name));
        }
    }

    /// Svix, who began the standard, names its headers after itself.
    #[test]
    fn headers_of_svix_are_read_by_their_names() {
        let good = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        let mut svix = HeaderMap::new();
        for (name, value) in &headers(good) {
            let name = name.as_str().replace("webhook-", "svix-");
            svix.insert(axum::http::HeaderName::try_from(name).unwrap(), value.clone());
        }
        assert_eq!(verified(&svix, BODY, AT), Ok(()));
        assert!(verified(&svix, BODY, AT + 301).unwrap_err().starts_with("`svix-timestamp` is"));
        let mut both = svix.clone();
        both.insert("webhook-id", HeaderValue::from_static("another"));
        assert!(verified(&both, BODY, AT).unwrap_err().contains("`webhook-timestamp` is missing"));
    }

    /// What is signed is read once for each secret, or whoever knows none has a processor read it as often as he likes.
    #[test]
    fn many_signatures_cost_what_one_costs() {
        let keys = [WebhookKey::read(SECRET).unwrap()];
        let body = vec![b'x'; 4 << 20];
        let bogus = format!("v1,{}", STANDARD.encode([7; 32]));
        let time = |count: usize| {
            let headers = headers(&vec![bogus.as_str(); count].join(" "));
            let once = || {
                let begun = std::time::Instant::now();
                assert!(verify(&keys, &headers, &body, AT, 300).is_err());
                begun.elapsed()
            };
            (0..5).map(|_| once()).min().unwrap()
        };
        let (one, many) = (time(1), time(SIGNATURES_MAX));
        assert!(many < one * 4, "{many:?} instead of {one:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_the_other_implementation_signs_is_taken(
            key in proptest::collection::vec(any::<u8>(), 24..200), id in "[a-z0-9-]{1,40}", at in 0_u32.., body in ".{0,300}",
        ) {
            let ours = WebhookKey::read(&format!("whsec_{}", STANDARD.encode(&key))).unwrap();
            let theirs = Webhook::from_bytes(key).unwrap();
            let signature = theirs.sign(&id, at.into(), body.as_bytes()).unwrap();
            let mut headers = headers(&signature);
            headers.insert("webhook-id", id.parse().unwrap());
            headers.insert("webhook-timestamp", at.to_string().parse().unwrap());
            prop_assert_eq!(verify(&[ours], &headers, body.as_bytes(), at.into(), 0), Ok(()));
        }
    }
}
