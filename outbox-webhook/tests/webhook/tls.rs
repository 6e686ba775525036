//! Who a receiver has to be.

use std::sync::Arc;

use outbox_webhook::internal::Judgement;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use tokio_rustls::TlsAcceptor;

use super::{Receiver, file, outcomes, parts, path, receiver::answer, webhook};

/// An authority.
fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A server of one name, certified by an authority.
fn server(authority: &CertifiedIssuer<'static, KeyPair>, name: &str) -> TlsAcceptor {
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, authority).unwrap();
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

#[tokio::test]
async fn a_receiver_has_to_prove_its_name() {
    let (trusted, other) = (authority(), authority());
    let pem = file(&trusted.pem());
    for (issuer, name, wanted) in [
        (&trusted, "127.0.0.1", ""),
        (&trusted, "localhost", "not valid for name"),
        (&other, "127.0.0.1", "invalid peer certificate"),
    ] {
        let receiver =
            Receiver::with_tls([answer("200 OK", "", "")], Some(server(issuer, name))).await;
        let mut webhook = webhook(format!("https://{}/", receiver.address));
        webhook.ca_file = Some(path(&pem));
        let found = outcomes(&webhook, 1).await;
        if wanted.is_empty() {
            assert_eq!(found, [Judgement::Delivered]);
            assert_eq!(receiver.requests().len(), 1);
        } else {
            let (variant, sentence, _) = parts(&found[0]);
            assert_eq!(variant, "unavailable", "{sentence}");
            assert!(
                sentence.contains("cannot be reached") && sentence.contains(wanted),
                "{sentence}"
            );
            assert!(receiver.requests().is_empty());
        }
    }
}

#[tokio::test]
async fn the_systems_authorities_do_not_vouch_for_a_stranger() {
    let receiver =
        Receiver::with_tls([answer("200 OK", "", "")], Some(server(&authority(), "127.0.0.1")))
            .await;
    let found = outcomes(&webhook(format!("https://{}/", receiver.address)), 1).await;
    assert_eq!(parts(&found[0]).0, "unavailable");
    assert!(receiver.requests().is_empty());
}
