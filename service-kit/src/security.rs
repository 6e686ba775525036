//! TLS and SASL keys of `[kafka]`, passed through to the client under librdkafka's names.

use crate::{Problem, Secret, choice, files::doubt_of, section};

choice! {
    /// How the connection to Kafka is protected.
    pub enum SecurityProtocol {
        /// Neither encrypted nor authenticated.
        Plaintext = "plaintext",
        /// Encrypted.
        Ssl = "ssl",
        /// Authenticated, not encrypted.
        SaslPlaintext = "sasl_plaintext",
        /// Both.
        SaslSsl = "sasl_ssl",
    }
}

impl SecurityProtocol {
    /// Whether it needs a build with TLS.
    pub fn needs_tls(self) -> bool {
        matches!(self, Self::Ssl | Self::SaslSsl)
    }
}

section! {
    /// TLS and SASL of `[kafka]`. Each key is librdkafka's, dots written as underscores.
    pub struct Security as "kafka" {
        /// Encryption and authentication. For brokers on other machines it must be set explicitly:
        /// with `plaintext`, `check` and every start warn. `ssl` and `sasl_ssl` need a build with
        /// the feature `tls` or `tls-vendored`.
        security_protocol: Option<SecurityProtocol>, shown "plaintext";
        /// File or folder of trusted certificates; by default the system's.
        ssl_ca_location: Option<String>;
        /// Trusted certificates as PEM text.
        ssl_ca_pem: Option<String>;
        /// File of the client's certificate.
        ssl_certificate_location: Option<String>;
        /// The client's certificate as PEM text.
        ssl_certificate_pem: Option<String>;
        /// File of the client's private key.
        ssl_key_location: Option<String>;
        /// The client's private key as PEM text.
        ssl_key_pem: Option<Secret>;
        /// The password of the private key.
        ssl_key_password: Option<Secret>;
        /// File of certificate and key (PKCS#12).
        ssl_keystore_location: Option<String>;
        /// The password of the keystore.
        ssl_keystore_password: Option<Secret>;
        /// Whether the broker's name is checked against its certificate. With `none`, anybody with
        /// a certificate of the same authority can impersonate the broker; `check` and every start
        /// warn.
        ssl_endpoint_identification_algorithm: Option<String>, of ["https", "none"], shown "https";
        /// Accept any certificate: anybody on the network can impersonate the broker. For trials
        /// only; `check` and every start warn.
        ssl_insecure_any_certificate: bool;
        /// How the client authenticates.
        sasl_mechanism: Option<String>, of ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"];
        /// The user's name.
        sasl_username: Option<String>;
        /// The user's password.
        sasl_password: Option<Secret>;
    }
}

impl Security {
    /// What is set, under librdkafka's names, **secrets in clear**: for the client only.
    pub fn client_settings(&self) -> Vec<(String, String)> {
        let text = |value: &Option<String>| value.clone();
        let clear =
            |value: &Option<Secret>| value.as_ref().map(|secret| secret.expose().to_owned());
        let unchecked = self.ssl_insecure_any_certificate.then(|| "false".to_owned());
        let all = [
            ("security.protocol", self.security_protocol.map(|one| one.name().to_owned())),
            ("enable.ssl.certificate.verification", unchecked),
            ("ssl.ca.location", text(&self.ssl_ca_location)),
            ("ssl.ca.pem", text(&self.ssl_ca_pem)),
            ("ssl.certificate.location", text(&self.ssl_certificate_location)),
            ("ssl.certificate.pem", text(&self.ssl_certificate_pem)),
            ("ssl.key.location", text(&self.ssl_key_location)),
            ("ssl.key.pem", clear(&self.ssl_key_pem)),
            ("ssl.key.password", clear(&self.ssl_key_password)),
            ("ssl.keystore.location", text(&self.ssl_keystore_location)),
            ("ssl.keystore.password", clear(&self.ssl_keystore_password)),
            (
                "ssl.endpoint.identification.algorithm",
                text(&self.ssl_endpoint_identification_algorithm),
            ),
            ("sasl.mechanism", text(&self.sasl_mechanism)),
            ("sasl.username", text(&self.sasl_username)),
            ("sasl.password", clear(&self.sasl_password)),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }

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
                    "`kafka.security_protocol` or `kafka.sasl_mechanism` needs TLS, which this \
                     build does not include; build {package} with the feature `tls` (OpenSSL of \
                     the system) or `tls-vendored`"
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
                "`kafka.ssl_insecure_any_certificate` is true: no certificate is checked, so \
                 anybody on the network can impersonate the broker, read the credentials and send \
                 events; set the broker's authority in `kafka.ssl_ca_location`, and remove it",
            ));
        }
        let algorithm = self.ssl_endpoint_identification_algorithm.as_deref();
        if algorithm.is_some_and(|algorithm| algorithm.eq_ignore_ascii_case("none")) {
            found.push(Problem::doubt(
                &["kafka.ssl_endpoint_identification_algorithm"],
                "`kafka.ssl_endpoint_identification_algorithm` is none: anybody with any \
                 certificate of the same authority can impersonate the broker; give the brokers \
                 certificates with their names, and remove it",
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
            "`kafka.bootstrap` names another machine, and `kafka.security_protocol` is not set: \
             events would travel unencrypted and unauthenticated; set ssl or sasl_ssl, or \
             plaintext if you trust the network",
        );
    };
    let password = if plain { ", and so does the password (PLAIN)" } else { "" };
    Problem::doubt(
        keys,
        format!(
            "events travel unencrypted and unauthenticated{password}: `kafka.security_protocol` \
             is {} and `kafka.bootstrap` names another machine; set ssl or sasl_ssl",
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
            "`kafka.sasl_mechanism` is missing, but `kafka.security_protocol` requires SASL; set \
             PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512",
        ));
    }
}

fn is_local(broker: &str) -> bool {
    let broker = broker.trim();
    let host = broker.rsplit_once(':').map_or(broker, |(host, _)| host);
    host.is_empty() || crate::host::is_loopback(host)
}
