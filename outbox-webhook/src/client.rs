//! The client: one pool of connections, TLS by rustls with ring.

use std::{sync::Arc, time::Duration};

use reqwest::{Client, redirect};
use rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::CertificateDer};

use crate::settings::Settings;

/// How long a connection is kept that nothing uses.
const IDLE_MAX: Duration = Duration::from_mins(1);
/// How often a silent connection is asked whether it is alive.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// The client of a webhook, which trusts `authority`, or else the system's authorities.
///
/// # Errors
/// What is wrong with them.
pub(crate) fn build(
    settings: &Settings,
    authority: Option<&[CertificateDer<'static>]>,
) -> Result<Client, String> {
    let client = Client::builder()
        .tls_backend_preconfigured(tls(settings, authority)?)
        .user_agent(concat!("outbox-relay/", env!("CARGO_PKG_VERSION")))
        .http1_only()
        .redirect(redirect::Policy::none())
        // What is sent again is the relay's to decide.
        .retry(reqwest::retry::never())
        // A variable of the environment must not lead events elsewhere.
        .no_proxy()
        .referer(false)
        .connect_timeout(settings.connect_timeout)
        .pool_max_idle_per_host(settings.calls_max)
        .pool_idle_timeout(IDLE_MAX)
        .tcp_keepalive(KEEPALIVE)
        .build();
    client.map_err(|error| format!("cannot build the HTTP client: {error}"))
}

fn tls(
    settings: &Settings,
    authority: Option<&[CertificateDer<'static>]>,
) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    match authority {
        Some(certificates) => {
            for certificate in certificates {
                roots.add(certificate.clone()).map_err(|error| {
                    format!(
                        "`webhooks.ca_file` of {:?} contains an invalid certificate: {error}",
                        settings.name
                    )
                })?;
            }
        }
        None if settings.address.is_encrypted() => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err("this system has no trusted certificates, so no receiver can be \
                            verified: install them (ca-certificates), or set `webhooks.ca_file`"
                    .to_owned());
            }
        }
        None => {}
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("cannot set up TLS: {error}"))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
