//! Signatures of Standard Webhooks, checked: HMAC-SHA256 over id, time and body.

use axum::http::HeaderMap;
use service_kit::WebhookKey;

/// Signatures of one request that are looked at: a sender has few secrets at a time.
const SIGNATURES_MAX: usize = 16;

/// Checks that one of the secrets has signed a request, no longer ago and no longer ahead than `tolerance` seconds.
pub(crate) fn verify(
    keys: &[WebhookKey],
    headers: &HeaderMap,
    body: &[u8],
    now: u64,
    tolerance: u64,
) -> Result<(), &'static str> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let id = header("webhook-id").ok_or("the header `webhook-id` is missing")?;
    let timestamp =
        header("webhook-timestamp").ok_or("the header `webhook-timestamp` is missing")?;
    let signatures =
        header("webhook-signature").ok_or("the header `webhook-signature` is missing")?;
    let at: u64 = timestamp.parse().map_err(|_| "`webhook-timestamp` is no number of seconds")?;
    if at.abs_diff(now) > tolerance {
        return Err("`webhook-timestamp` is too far from now");
    }
    let signatures = signatures.split(' ').filter(|signature| signature.starts_with("v1,"));
    let signed = signatures
        .take(SIGNATURES_MAX)
        .any(|signature| keys.iter().any(|key| key.has_signed(signature, id, timestamp, body)));
    if signed {
        Ok(())
    } else {
        Err("no signature in `webhook-signature` is of a secret that is known here")
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

    fn verified(headers: &HeaderMap, body: &[u8], now: u64) -> Result<(), &'static str> {
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

    proptest! {
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
