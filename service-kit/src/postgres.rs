//! The address of a PostgreSQL server, and how the way there is protected: read here alone, by consumer and
//! relay and whatever command they run.

#[cfg(test)]
mod tests;

use std::{path::Path, str::FromStr};

use sqlx::{
    Error,
    postgres::{PgConnectOptions, PgSslMode},
};

use crate::{DatabaseTls, Problem, files::doubt_of};

const URL: &[&str] = &["database.url"];
const BOTH: &[&str] = &["database.url", "database.tls"];

/// What the driver reads of an address. It passes over everything else, with a line in the log that has the
/// value in it: a password of a key, or a protection that is then missing.
const PARAMETERS: &[&str] = &[
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "statement-cache-capacity",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
    "options",
];

/// An address that was read: what to connect with, and what to think about.
#[derive(Clone)]
pub struct PostgresAddress {
    /// For the driver, with the mode of TLS that counts.
    pub options: PgConnectOptions,
    /// Doubts.
    pub doubts: Vec<Problem>,
}

impl std::fmt::Debug for PostgresAddress {
    /// Options hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresAddress").field("doubts", &self.doubts).finish_non_exhaustive()
    }
}

impl PostgresAddress {
    /// Reads `database.url` and `database.tls`.
    ///
    /// # Errors
    /// One sentence, which never holds the address.
    pub fn read(url: &str, tls: Option<DatabaseTls>) -> Result<Self, Problem> {
        let scheme = url.starts_with("postgres:") || url.starts_with("postgresql:");
        let parameters = parameters(url);
        let known = |name: &str| PARAMETERS.contains(&name) || name.starts_with("options[");
        if let Some((unknown, _)) = parameters.iter().find(|(name, _)| !known(name)) {
            return Err(Problem::fatal(
                URL,
                format!(
                    "`database.url` has the unsupported parameter {unknown:?}, which would be \
                     ignored; remove it (supported are sslmode, sslrootcert, sslcert, sslkey, \
                     host, hostaddr, port, dbname, user, password, application_name, options)"
                ),
            ));
        }
        let options = PgConnectOptions::from_str(url).ok().filter(|_| scheme).ok_or_else(|| {
            Problem::fatal(
                URL,
                "cannot parse `database.url`: write it as \
                 postgres://user:password@host:5432/database, with special characters of the \
                 password percent-encoded",
            )
        })?;
        if !names_user(url, &parameters) {
            return Err(Problem::fatal(
                URL,
                "`database.url` names no user, and neither does the variable `PGUSER`: write \
                 postgres://USER@HOST/DATABASE",
            ));
        }
        let mut read = Self::of(options, tls)?;
        for (name, file) in &parameters {
            let secret = matches!(name.as_str(), "sslkey" | "ssl-key");
            let certificate = matches!(
                name.as_str(),
                "sslrootcert" | "ssl-root-cert" | "ssl-ca" | "sslcert" | "ssl-cert"
            );
            if secret || certificate {
                let what = format!("`{name}` in `database.url`");
                read.doubts.extend(file_problems(URL, &what, file.as_ref(), secret)?);
            }
        }
        Ok(read)
    }

    /// The same of options in the driver's words.
    ///
    /// # Errors
    /// One sentence, when the way to another machine would not be protected and nobody says so on purpose.
    pub fn of(options: PgConnectOptions, tls: Option<DatabaseTls>) -> Result<Self, Problem> {
        use {DatabaseTls as Tls, PgSslMode as Mode};
        let (said, local) = (options.get_ssl_mode(), is_local(&options));
        let mode = match (tls, said) {
            (Some(Tls::Insecure), said) => said,
            (None, said) if local || matches!(said, Mode::VerifyFull | Mode::VerifyCa) => said,
            // `prefer` is what the driver does when nobody says anything.
            (None | Some(Tls::VerifyFull), Mode::Prefer) | (Some(_), Mode::VerifyFull) => {
                Mode::VerifyFull
            }
            (Some(Tls::VerifyCa), Mode::Prefer | Mode::VerifyCa) => Mode::VerifyCa,
            (Some(tls), said) => {
                return Err(Problem::fatal(
                    BOTH,
                    format!(
                        "`database.tls` is {}, and `database.url` has sslmode={}, which is \
                         weaker; remove one of them",
                        tls.name(),
                        name(said)
                    ),
                ));
            }
            (None, said) => {
                return Err(Problem::fatal(
                    BOTH,
                    format!(
                        "`database.url` names another machine with sslmode={}, which lets anybody \
                         on the network impersonate the server and receive the password; set \
                         sslmode=verify-full (and sslrootcert for your own authority), or \
                         `database.tls` to insecure if you trust the network",
                        name(said)
                    ),
                ));
            }
        };
        let doubts = if local { Vec::new() } else { doubt(mode).into_iter().collect() };
        Ok(Self { options: options.ssl_mode(mode), doubts })
    }
}

/// What is doubtful about the way to another machine.
fn doubt(mode: PgSslMode) -> Option<Problem> {
    let text = match mode {
        PgSslMode::VerifyFull => return None,
        PgSslMode::VerifyCa => {
            "the database's certificate is checked, its name is not (verify-ca): anybody with \
             another certificate of the same authority can impersonate the server; set \
             `database.tls` to verify-full"
                .to_owned()
        }
        mode => format!(
            "`database.tls` is insecure, and `database.url` names another machine (sslmode={}): \
             anybody on the network can impersonate the server, receive the password, and read \
             and change the traffic; set `database.tls` to verify-full",
            name(mode)
        ),
    };
    Some(Problem::doubt(BOTH, text))
}

/// What to do about a server that does not let a user in.
pub fn login_advice(message: &str) -> &'static str {
    if message.contains("no encryption") || message.contains("SSL off") {
        "the server requires TLS: remove sslmode=disable from the URL, or let pg_hba.conf allow \
         this connection without TLS"
    } else if message.contains("pg_hba.conf") {
        "let the server's pg_hba.conf allow this host, user and database"
    } else {
        "correct the password or the user in its URL"
    }
}

/// A socket of this machine, or its loopback.
fn is_local(options: &PgConnectOptions) -> bool {
    let host = options.get_host();
    options.get_socket().is_some() || host.starts_with('/') || crate::host::is_loopback(host)
}

fn name(mode: PgSslMode) -> &'static str {
    match mode {
        PgSslMode::Disable => "disable",
        PgSslMode::Allow => "allow",
        PgSslMode::Prefer => "prefer",
        PgSslMode::Require => "require",
        PgSslMode::VerifyCa => "verify-ca",
        PgSslMode::VerifyFull => "verify-full",
    }
}

/// The parameters of an address, decoded.
fn parameters(url: &str) -> Vec<(String, String)> {
    let url = url.split('#').next().unwrap_or_default();
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.map(|(name, value)| (decoded(name), decoded(value))).collect()
}

/// Whether an address, or the environment that the driver reads, has a user. Without one it is the system's user or
/// "anonymous", depending on the features that a build happens to have.
fn names_user(url: &str, parameters: &[(String, String)]) -> bool {
    let place = url.split_once("://").map_or("", |(_, rest)| rest);
    let place = place.split(['/', '?', '#']).next().unwrap_or_default();
    let user = place.rsplit_once('@').map_or("", |(user, _)| user);
    !user.split(':').next().unwrap_or_default().is_empty()
        || parameters.iter().any(|(name, value)| name == "user" && !value.is_empty())
        || std::env::var_os("PGUSER").is_some_and(|user| !user.is_empty())
}

/// `%2F` is `/`, `+` a space; what is no code stays.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let code = behind.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        (bytes, rest) = match (first, code) {
            (b'%', Some(code)) => ([bytes, vec![code]].concat(), &behind[2..]),
            (b'+', _) => ([bytes, vec![b' ']].concat(), behind),
            (other, _) => ([bytes, vec![*other]].concat(), behind),
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Why TLS with a server failed, and what to do: the end of a sentence about its address. `None` for anything
/// else.
pub fn tls_trouble(error: &Error) -> Option<String> {
    let text = match error {
        Error::Tls(error) => error.to_string(),
        // What the library of TLS says goes through the socket.
        Error::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => error.to_string(),
        _ => return None,
    };
    let (why, advice) = TROUBLES
        .iter()
        .find(|(said, ..)| text.contains(said))
        .map_or(("the TLS handshake failed", "check its certificate and yours"), |found| {
            (found.1, found.2)
        });
    Some(format!("{why} ({text}); {advice}"))
}

/// What is said, why that is, and what to do.
const TROUBLES: &[(&str, &str, &str)] = &[
    (
        "does not support TLS",
        "it offers no TLS, or somebody on the network hides that it does",
        "switch `ssl` on at the server, or set `database.tls` to insecure if you trust the network",
    ),
    (
        "UnknownIssuer",
        "its certificate is not signed by a trusted authority",
        "set sslrootcert=FILE in `database.url` to the authority's certificate",
    ),
    // An authority of the same name, with another key.
    (
        "BadSignature",
        "its certificate is not signed by a trusted authority",
        "set sslrootcert=FILE in `database.url` to the authority's certificate",
    ),
    (
        "CaUsedAsEndEntity",
        "its certificate is an authority's, not a server's",
        "give the server its own certificate, signed by the authority in sslrootcert",
    ),
    (
        "not valid for",
        "its certificate is for another name",
        "use a name from the certificate in `database.url`, or issue a certificate for this name",
    ),
    ("expired", "its certificate has expired", "renew it on the server"),
    ("not valid before", "its certificate is not valid yet", "check the clocks of both machines"),
    ("not valid yet", "its certificate is not valid yet", "check the clocks of both machines"),
    (
        "alert",
        "it refuses the connection",
        "check the client's certificate: sslcert and sslkey in `database.url`",
    ),
];

/// What is wrong with a file that a setting names: it cannot be read, or, if it is a secret, others can.
///
/// # Errors
/// One sentence, when it cannot be read.
fn file_problems(
    keys: &[&'static str],
    what: &str,
    file: &Path,
    secret: bool,
) -> Result<Option<Problem>, Problem> {
    std::fs::File::open(file).map_err(|error| {
        let file = file.display();
        let text =
            format!("{what}: cannot read {file}: {error}; check the name and its permissions");
        Problem::fatal(keys, text)
    })?;
    Ok(secret.then(|| doubt_of(keys, what, file)).flatten())
}
