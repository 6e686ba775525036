//! A PostgreSQL server for a test that hurts it, and its replica.

use std::path::{Path, PathBuf};

use sqlx::{Connection as _, PgConnection};
use xtask::server::{Postgres, Process, StopMode};

use crate::certificates::Certificate;
use crate::run_folder::{remove, run_folder, unique_name};
use crate::services::variable;
use crate::{SOON, Schema, until_some};

/// A PostgreSQL server of a test's own; ended when this is dropped.
#[derive(Debug)]
pub struct OwnPostgres {
    name: String,
    postgres: Postgres,
}

impl OwnPostgres {
    /// Starts a server like the shared one.
    pub async fn start() -> Self {
        Self::start_with("").await
    }

    /// Starts a server with further lines of postgresql.conf.
    pub async fn start_with(settings: &str) -> Self {
        let binaries = PathBuf::from(variable("INBOX_TEST_PG_BIN"));
        let (name, settings) = (unique_name("postgres"), settings.to_owned());
        blocking(move || {
            let postgres = Postgres::create(run_folder(), &name, &binaries, &settings)?;
            let own = Self { name, postgres };
            own.postgres.start().map(|()| own)
        })
        .await
    }

    /// Starts a server that speaks TLS with a certificate, and asks for clients' that an authority has signed.
    pub async fn start_with_tls(certificate: &Certificate, rules: &str) -> Self {
        let binaries = PathBuf::from(variable("INBOX_TEST_PG_BIN"));
        let (name, certificate) = (unique_name("postgres"), certificate.clone());
        let rules = rules.to_owned();
        let settings = "ssl = on\nssl_cert_file = 'tls.pem'\nssl_key_file = 'tls.key'\n\
                        ssl_ca_file = 'ca.pem'";
        blocking(move || {
            let postgres = Postgres::create(run_folder(), &name, &binaries, settings)?;
            let own = Self { name, postgres };
            own.certify(&certificate)?;
            own.postgres.rules_first(&rules)?;
            own.postgres.start().map(|()| own)
        })
        .await
    }

    /// Gives a server that speaks TLS another certificate; sessions from now on see it.
    pub async fn show(&self, certificate: &Certificate) {
        self.certify(certificate).unwrap_or_else(|failure| panic!("{failure}"));
        let reloaded: Option<bool> = self.ask("SELECT pg_reload_conf()").await;
        assert_eq!(reloaded, Some(true), "the server takes its files anew");
        // The main process hears of it by a signal, and its children begin with what it has then.
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }

    fn certify(&self, certificate: &Certificate) -> xtask::failure::Outcome {
        let Certificate { chain, key, authority } = certificate;
        for (name, file) in [("tls.pem", chain), ("tls.key", key), ("ca.pem", authority)] {
            let text = std::fs::read_to_string(file).expect("the certificate was made");
            self.postgres.put(name, &text)?;
        }
        Ok(())
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.postgres.port()
    }

    /// A superuser's URL.
    pub fn url(&self) -> String {
        self.postgres.url()
    }

    /// Host and port, for a proxy.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.postgres.port())
    }

    /// A new, empty schema on this server.
    pub async fn schema(&self) -> Schema {
        Schema::create(&self.url()).await
    }

    /// Stops the server; its cluster stays.
    pub fn stop(&self, mode: StopMode) {
        self.postgres.stop(mode);
    }

    /// Starts the server again after [`OwnPostgres::stop`], on the same cluster and port.
    pub fn start_again(&self) {
        self.postgres.start().unwrap_or_else(|failure| panic!("{failure}"));
    }

    /// Copies the cluster while the server is stopped, for [`OwnPostgres::put_back`].
    pub fn back_up(&self) -> PathBuf {
        let made = self.postgres.back_up(&unique_name("backup"));
        made.unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// Puts a copy in the cluster's place while the server is stopped: it goes back to an older state, under
    /// the same address.
    pub fn put_back(&self, copy: &Path) {
        self.postgres.put_back(copy).unwrap_or_else(|failure| panic!("{failure}"));
    }

    /// A streaming replica of this server, started. It follows asynchronously.
    pub async fn replica(&self) -> Self {
        let name = unique_name("replica");
        // Copying waits for the server, which is another process: blocking this thread is harmless.
        let made = tokio::task::block_in_place(|| {
            let postgres = self.postgres.replica(&name)?;
            let own = Self { name, postgres };
            own.postgres.start().map(|()| own)
        });
        made.unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// Waits until this replica has everything that the primary has committed by now.
    pub async fn catch_up_with(&self, primary: &Self) {
        let target: String =
            primary.ask("SELECT pg_current_wal_lsn()::text").await.expect("an LSN");
        until_some(SOON, "the replica catches up", async || {
            let sql = "SELECT pg_last_wal_replay_lsn()::text";
            let here: Option<String> = self.ask(sql).await;
            here.filter(|here| lsn(here) >= lsn(&target))
        })
        .await;
    }

    /// Stops this replica from taking anything more, so that a failover loses what comes now.
    pub async fn freeze(&self) {
        let receiver =
            until_some(SOON, "the replica receives", async || self.receiver().await).await;
        receiver.signal("STOP");
    }

    /// Makes this replica the primary. A frozen one goes without taking what waited for it.
    pub async fn promote(&self) {
        if let Some(receiver) = self.receiver().await {
            receiver.signal("KILL");
        }
        // As for the copy: the server is another process.
        let promoted = tokio::task::block_in_place(|| self.postgres.promote());
        promoted.unwrap_or_else(|failure| panic!("{failure}"));
    }

    async fn receiver(&self) -> Option<Process> {
        let pid: i32 = self.ask("SELECT pid FROM pg_stat_wal_receiver").await?;
        Process::of(u32::try_from(pid).ok()?)
    }

    async fn ask<T>(&self, sql: &'static str) -> Option<T>
    where
        T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> + Send + Unpin,
    {
        let mut connection = PgConnection::connect(&self.url()).await.ok()?;
        sqlx::query_scalar(sql).fetch_optional(&mut connection).await.ok()?
    }
}

impl Drop for OwnPostgres {
    fn drop(&mut self) {
        // What is frozen takes no signal but this one.
        if let Some(process) = self.postgres.process() {
            process.signal("CONT");
        }
        self.postgres.stop(StopMode::Immediate);
        remove(&self.name);
    }
}

/// `16/B374D848`, as a number.
fn lsn(text: &str) -> u64 {
    let number = |part| u64::from_str_radix(part, 16).expect("hexadecimal");
    let (high, low) = text.split_once('/').expect("an LSN has two parts");
    (number(high) << 32) | number(low)
}

async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> xtask::failure::Outcome<T> + Send + 'static,
) -> T {
    let done = tokio::task::spawn_blocking(call).await.expect("the thread ends");
    done.unwrap_or_else(|failure| panic!("{failure}"))
}
