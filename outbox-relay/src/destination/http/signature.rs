//! Signatures of Standard Webhooks: HMAC-SHA256 over id, time and body.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2_of_hmac::Sha256;

/// What a secret begins with.
const PREFIX: &str = "whsec_";
/// The shortest key that the specification allows, in bytes.
const KEY_BYTES_MIN: usize = 24;

/// A secret that calls are signed with.
pub(super) struct SigningKey(Hmac<Sha256>);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(***)")
    }
}

impl SigningKey {
    /// Reads `whsec_…`.
    ///
    /// # Errors
    /// What is wrong, without the secret.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let encoded = text.strip_prefix(PREFIX).ok_or_else(|| {
            format!("does not begin with {PREFIX}, as the secrets of Standard Webhooks do")
        })?;
        let key = STANDARD.decode(encoded).map_err(|_| format!("is not base64 behind {PREFIX}"))?;
        if key.len() < KEY_BYTES_MIN {
            return Err(format!(
                "has {} bytes behind {PREFIX}; Standard Webhooks asks for {KEY_BYTES_MIN} at least",
                key.len()
            ));
        }
        Hmac::new_from_slice(&key).map(Self).map_err(|error| error.to_string())
    }

    /// `v1,` and the signature.
    pub(super) fn sign(&self, id: &str, timestamp: u64, body: &[u8]) -> String {
        let Self(hmac) = self;
        let mut hmac = hmac.clone();
        hmac.update(format!("{id}.{timestamp}.").as_bytes());
        hmac.update(body);
        format!("v1,{}", STANDARD.encode(hmac.finalize().into_bytes()))
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
        let key = SigningKey::read(SECRET).unwrap();
        let (id, body) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", br#"{"test": 2432232314}"#);
        let signature = key.sign(id, 1_614_265_330, body);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn what_is_no_secret_is_said_without_it() {
        for (text, words) in [
            ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "does not begin with whsec_"),
            ("whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "does not begin with whsec_"),
            ("whsec_MfKQ9r8G!", "is not base64"),
            ("whsec_", "has 0 bytes"),
            ("whsec_c2VjcmV0", "has 6 bytes"),
        ] {
            let error = SigningKey::read(text).unwrap_err();
            assert!(error.contains(words), "{error}");
            assert!(!error.contains("MfKQ") && !error.contains("c2Vj"), "{error}");
        }
        assert!(!format!("{:?}", SigningKey::read(SECRET)).contains("MfKQ"));
    }

    proptest! {
        #[test]
        fn the_other_implementation_signs_alike(
            key in proptest::collection::vec(any::<u8>(), 24..200), id in "[a-z0-9-]{1,40}", timestamp in 0_u32.., body in ".{0,300}",
        ) {
            let ours = SigningKey::read(&format!("{PREFIX}{}", STANDARD.encode(&key))).unwrap();
            let theirs = Webhook::from_bytes(key).unwrap();
            let wanted = theirs.sign(&id, timestamp.into(), body.as_bytes()).unwrap();
            prop_assert_eq!(ours.sign(&id, timestamp.into(), body.as_bytes()), wanted);
        }
    }
}
