//! Keys of Standard Webhooks, and their signatures: HMAC-SHA256 over id, time and body.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _, digest::CtOutput};
use sha2_of_hmac::Sha256;

/// What a secret begins with.
const PREFIX: &str = "whsec_";
/// The shortest key that the specification allows, in bytes.
const KEY_BYTES_MIN: usize = 24;
/// Of SHA-256.
const SIGNATURE_BYTES: usize = 32;
/// What a signature of this kind begins with.
const VERSION: &str = "v1,";

/// A secret that calls are signed with, and checked.
pub struct WebhookKey(Hmac<Sha256>);

impl fmt::Debug for WebhookKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookKey(***)")
    }
}

impl WebhookKey {
    /// Reads `whsec_…`.
    ///
    /// # Errors
    /// What is wrong, without the secret.
    pub fn read(text: &str) -> Result<Self, String> {
        let encoded =
            text.strip_prefix(PREFIX).ok_or_else(|| match text.strip_prefix('\u{feff}') {
                Some(_) => {
                    "begins with a byte order mark: save the file as UTF-8 without one".to_owned()
                }
                None => format!("does not begin with {PREFIX}, as secrets of Standard Webhooks do"),
            })?;
        let key = STANDARD.decode(encoded).map_err(|_| format!("is not base64 after {PREFIX}"))?;
        if key.len() < KEY_BYTES_MIN {
            return Err(format!(
                "has {} bytes after {PREFIX}; Standard Webhooks requires at least {KEY_BYTES_MIN}",
                key.len()
            ));
        }
        Hmac::new_from_slice(&key).map(Self).map_err(|error| error.to_string())
    }

    /// `v1,` and the signature. `timestamp` is the number of seconds since 1970, as the header has it.
    pub fn sign(&self, id: &str, timestamp: &str, body: &[u8]) -> String {
        let signature = self.hmac(id, timestamp, body).finalize();
        format!("{VERSION}{}", STANDARD.encode(signature.into_bytes()))
    }

    /// Whether one of these signatures is of this key: what is signed is read once, however many they are. Compared in a
    /// time that does not depend on where they differ.
    pub fn has_signed<'s>(
        &self,
        signatures: impl IntoIterator<Item = &'s str>,
        id: &str,
        timestamp: &str,
        body: &[u8],
    ) -> bool {
        let read = |signature: &str| {
            let signature = STANDARD.decode(signature.strip_prefix(VERSION)?).ok()?;
            <[u8; SIGNATURE_BYTES]>::try_from(signature).ok()
        };
        let mut signatures = signatures.into_iter().filter_map(read).peekable();
        if signatures.peek().is_none() {
            return false;
        }
        let own = self.hmac(id, timestamp, body).finalize();
        signatures.any(|signature| own == CtOutput::new(signature.into()))
    }

    fn hmac(&self, id: &str, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
        let mut hmac = self.0.clone();
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            hmac.update(part);
        }
        hmac
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use standardwebhooks::Webhook;

    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn the_published_example_is_signed_as_published() {
        let key = WebhookKey::read(SECRET).unwrap();
        let (id, at, body) =
            ("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", br#"{"test": 2432232314}"#);
        let signature = key.sign(id, at, body);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert!(key.has_signed([&*signature], id, at, body));
        assert!(key.has_signed(["v1,", "v1,AAAA", &signature], id, at, body));
        for other in [&signature[3..], "v1,AAAA", "v1,", "v1a,g0hM", ""] {
            assert!(!key.has_signed([other], id, at, body), "{other}");
        }
        assert!(!key.has_signed([&*signature], id, at, b"{}"));
    }

    #[test]
    fn what_is_no_secret_is_said_without_it() {
        for (text, words) in [
            ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "does not begin with whsec_"),
            ("\u{feff}whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "byte order mark"),
            ("whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "does not begin with whsec_"),
            ("whsec_MfKQ9r8G!", "is not base64"),
            ("whsec_", "has 0 bytes"),
            ("whsec_c2VjcmV0", "has 6 bytes"),
        ] {
            let error = WebhookKey::read(text).unwrap_err();
            assert!(error.contains(words), "{error}");
            assert!(!error.contains("MfKQ") && !error.contains("c2Vj"), "{error}");
        }
        assert!(!format!("{:?}", WebhookKey::read(SECRET)).contains("MfKQ"));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_other_implementation_signs_alike(
            key in proptest::collection::vec(any::<u8>(), 24..200), id in "[a-z0-9-]{1,40}", at in 0_u32.., body in ".{0,300}",
        ) {
            let ours = WebhookKey::read(&format!("{PREFIX}{}", STANDARD.encode(&key))).unwrap();
            let theirs = Webhook::from_bytes(key).unwrap();
            let wanted = theirs.sign(&id, at.into(), body.as_bytes()).unwrap();
            prop_assert_eq!(ours.sign(&id, &at.to_string(), body.as_bytes()), &*wanted);
            prop_assert!(ours.has_signed([&*wanted], &id, &at.to_string(), body.as_bytes()));
        }
    }
}
