//! Certificates for servers and clients of tests: an authority of one's own, made by openssl.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run_folder::{remove, run_folder, unique_name};

/// An authority of a test's own; its files go when it is dropped.
#[derive(Debug)]
pub struct Authority {
    name: String,
}

/// A certificate, its key, and who has signed it: files in PEM.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The certificate.
    pub chain: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The authority's certificate.
    pub authority: PathBuf,
}

impl Authority {
    /// A new one, which nobody trusts yet.
    #[must_use]
    pub fn new() -> Self {
        let own = Self { name: unique_name("authority") };
        std::fs::create_dir(own.folder()).expect("the run's folder takes folders");
        own.openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout ca.key -out ca.pem \
             -subj /CN=authority -days 30 -addext basicConstraints=critical,CA:TRUE \
             -addext keyUsage=critical,keyCertSign",
        );
        own
    }

    /// The file of its certificate.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.folder().join("ca.pem")
    }

    /// Signs a certificate: `CN=name`, for these names (`DNS:localhost,IP:127.0.0.1`), for so many days; for
    /// none it is expired in a second.
    #[must_use]
    pub fn sign(&self, name: &str, names: &str, days: u32) -> Certificate {
        let file = unique_name("certificate");
        let extensions = format!(
            "subjectAltName={names}\nkeyUsage=digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n"
        );
        std::fs::write(self.folder().join(format!("{file}.ext")), extensions).expect("a file");
        self.openssl(&format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout {file}.key -out {file}.csr \
             -subj /CN={name}"
        ));
        self.openssl(&format!(
            "x509 -req -in {file}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days {days} \
             -extfile {file}.ext -out {file}.pem"
        ));
        let of = |end| self.folder().join(format!("{file}.{end}"));
        Certificate { chain: of("pem"), key: of("key"), authority: self.file() }
    }

    fn folder(&self) -> PathBuf {
        run_folder().join(&self.name)
    }

    fn openssl(&self, arguments: &str) {
        let mut command = Command::new("openssl");
        let done = command.args(arguments.split_whitespace()).current_dir(self.folder()).output();
        let done = done.expect("openssl is installed");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Certificate {
    /// Key and certificate in one file, as Kafka's brokers take them.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        let read = |file: &Path| std::fs::read_to_string(file).expect("the certificate was made");
        let file = self.chain.with_extension("store");
        std::fs::write(&file, read(&self.key) + &read(&self.chain))
            .expect("the folder takes files");
        file
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        remove(&self.name);
    }
}
