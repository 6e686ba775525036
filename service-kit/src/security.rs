//! TLS and SASL keys of `[kafka]`, passed through to the client under librdkafka's names.

use serde::{Deserialize, Serialize};

use crate::{Problem, Secret, files::doubt_of};

/// How the connection to Kafka is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecurityProtocol {
    /// Neither encrypted nor authenticated.
    Plaintext,
    /// Encrypted.
    Ssl,
    /// Authenticated, not encrypted.
    SaslPlaintext,
    /// Both.
    SaslSsl,
}

impl SecurityProtocol {
    /// The name that clients use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "plaintext",
            Self::Ssl => "ssl",
            Self::SaslPlaintext => "sasl_plaintext",
            Self::SaslSsl => "sasl_ssl",
        }
    }

    /// Whether it needs a build with TLS.
    pub fn needs_tls(self) -> bool {
        matches!(self, Self::Ssl | Self::SaslSsl)
    }
}

macro_rules! security {
    ($( $(#[$doc:meta])* $field:ident : $type:ty => $name:literal, )+) => {
        /// TLS and SASL of `[kafka]`. Each key is librdkafka's, dots written as underscores.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Security {
            /// `plaintext` (default), `ssl`, `sasl_plaintext`, `sasl_ssl`.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub security_protocol: Option<SecurityProtocol>,
            /// Takes whatever certificate the broker has: anybody on the network can be the broker.
            pub ssl_insecure_any_certificate: bool,
            $( $(#[$doc])*
            #[serde(skip_serializing_if = "Option::is_none")]
            pub $field: Option<$type>, )+
        }

        impl Security {
            /// What is set, under librdkafka's names, **secrets in clear**: for the client only.
            pub fn client_settings(&self) -> Vec<(String, String)> {
                let protocol = self.security_protocol.map(|p| ("security.protocol", p.name()));
                let mut all: Vec<_> = protocol.into_iter().collect();
                if self.ssl_insecure_any_certificate {
                    all.push(("enable.ssl.certificate.verification", "false"));
                }
                $( if let Some(value) = &self.$field { all.push(($name, value.as_clear())); } )+
                all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
            }
        }
    };
}

trait Clear {
    fn as_clear(&self) -> &str;
}

impl Clear for String {
    fn as_clear(&self) -> &str {
        self
    }
}

impl Clear for Secret {
    fn as_clear(&self) -> &str {
        self.expose()
    }
}

security! {
    /// File or folder of trusted certificates.
    ssl_ca_location: String => "ssl.ca.location",
    /// Trusted certificates, as PEM text.
    ssl_ca_pem: String => "ssl.ca.pem",
    /// File of the client's certificate.
    ssl_certificate_location: String => "ssl.certificate.location",
    /// The client's certificate, as PEM text.
    ssl_certificate_pem: String => "ssl.certificate.pem",
    /// File of the client's private key.
    ssl_key_location: String => "ssl.key.location",
    /// The client's private key, as PEM text.
    ssl_key_pem: Secret => "ssl.key.pem",
    /// Password of the private key.
    ssl_key_password: Secret => "ssl.key.password",
    /// File of certificate and key in one (PKCS#12).
    ssl_keystore_location: String => "ssl.keystore.location",
    /// Its password.
    ssl_keystore_password: Secret => "ssl.keystore.password",
    /// `https` (default) checks the broker's name, `none` does not.
    ssl_endpoint_identification_algorithm: String => "ssl.endpoint.identification.algorithm",
    /// `PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`.
    sasl_mechanism: String => "sasl.mechanism",
    /// User name.
    sasl_username: String => "sasl.username",
    /// Password.
    sasl_password: Secret => "sasl.password",
}

impl Security {
    /// Secrets that would not be used, protection that is missing, builds that cannot: `tls` says whether
    /// the build of `package` has TLS.
    pub fn problems(&self, bootstrap: &str, package: &str, tls: bool) -> Vec<Problem> {
        let mut found = Vec::new();
        let protocol = self.security_protocol.unwrap_or(SecurityProtocol::Plaintext);
        let sasl = matches!(protocol, SecurityProtocol::SaslPlaintext | SecurityProtocol::SaslSsl);
        sasl_problems(self, protocol, sasl, &mut found);
        let mechanism = self.sasl_mechanism.as_deref().unwrap_or("");
        if !tls && (protocol.needs_tls() || (sasl && mechanism.starts_with("SCRAM"))) {
            found.push(Problem::fatal(
                &["kafka.security_protocol", "kafka.sasl_mechanism"],
                format!(
                    "`kafka.security_protocol` or `kafka.sasl_mechanism` needs TLS, which this build \
                     leaves out; build {package} with the feature `tls` (OpenSSL of the system) or \
                     `tls-vendored`"
                ),
            ));
        }
        self.unverified(&mut found);
        if let Some(file) = &self.ssl_key_location {
            let what = "the private key of `kafka.ssl_key_location`";
            found.extend(doubt_of(&["kafka.ssl_key_location"], what, file.as_ref()));
        }
        if !protocol.needs_tls() && !bootstrap.split(',').all(is_local) {
            found.push(unencrypted(self.security_protocol, mechanism == "PLAIN"));
        }
        found
    }

    /// What leaves open who the broker is.
    fn unverified(&self, found: &mut Vec<Problem>) {
        if self.ssl_insecure_any_certificate {
            found.push(Problem::doubt(
                &["kafka.ssl_insecure_any_certificate"],
                "`kafka.ssl_insecure_any_certificate` is true: no certificate is checked, so anybody on the \
                 network can be the broker, read the credentials and send events; give the broker's authority \
                 in `kafka.ssl_ca_location`, and remove it",
            ));
        }
        let algorithm = self.ssl_endpoint_identification_algorithm.as_deref();
        if algorithm.is_some_and(|algorithm| algorithm.eq_ignore_ascii_case("none")) {
            found.push(Problem::doubt(
                &["kafka.ssl_endpoint_identification_algorithm"],
                "`kafka.ssl_endpoint_identification_algorithm` is none: whoever has a certificate of the same \
                 authority, for whatever name, can be the broker; give the brokers certificates with their \
                 names, and remove it",
            ));
        }
    }
}

/// Another machine, without TLS: somebody has to say that it is meant.
fn unencrypted(said: Option<SecurityProtocol>, plain: bool) -> Problem {
    let keys = &["kafka.security_protocol", "kafka.bootstrap"];
    let Some(said) = said else {
        return Problem::fatal(
            keys,
            "`kafka.bootstrap` names another machine, and `kafka.security_protocol` is not set: events would \
             travel unencrypted, to and from whoever answers; set ssl or sasl_ssl, or, where the network \
             itself is trusted, plaintext",
        );
    };
    let password = if plain { ", and so does the password (PLAIN)" } else { "" };
    Problem::doubt(
        keys,
        format!(
            "events travel unencrypted, to and from whoever answers{password}: `kafka.security_protocol` is \
             {} and `kafka.bootstrap` names another machine; set ssl or sasl_ssl",
            said.name()
        ),
    )
}

fn sasl_problems(
    security: &Security,
    protocol: SecurityProtocol,
    sasl: bool,
    found: &mut Vec<Problem>,
) {
    let credentials = security.sasl_password.is_some()
        || security.sasl_username.is_some()
        || security.sasl_mechanism.is_some();
    if credentials && !sasl {
        found.push(Problem::fatal(
            &["kafka.security_protocol"],
            format!(
                "SASL is configured but not used: `kafka.security_protocol` is {}; set sasl_ssl (or \
                 sasl_plaintext), or remove the sasl_ keys",
                protocol.name()
            ),
        ));
    }
    if sasl && security.sasl_mechanism.is_none() {
        found.push(Problem::fatal(
            &["kafka.sasl_mechanism"],
            "`kafka.sasl_mechanism` is missing: `kafka.security_protocol` asks for SASL; set PLAIN, \
             SCRAM-SHA-256 or SCRAM-SHA-512",
        ));
    }
}

fn is_local(broker: &str) -> bool {
    let broker = broker.trim();
    let host = broker.rsplit_once(':').map_or(broker, |(host, _)| host);
    host.is_empty() || crate::host::is_loopback(host)
}
