//! Where the shared services are.

use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;

use crate::{Schema, Topic};

/// The Kafka and the PostgreSQL that all tests of a run share: take a topic and a schema of your own.
#[derive(Clone, Debug)]
pub struct Services {
    /// Kafka's bootstrap list.
    pub kafka: String,
    /// A superuser's URL of PostgreSQL.
    pub postgres: String,
}

impl Services {
    /// The services that `cargo xtask test` names.
    #[must_use]
    pub fn from_env() -> Self {
        Self { kafka: variable("INBOX_TEST_KAFKA"), postgres: variable("INBOX_TEST_POSTGRES") }
    }

    /// A new topic whose name begins with `stem`.
    pub async fn topic(&self, stem: &str, partitions: i32) -> Topic {
        Topic::create(&self.kafka, stem, partitions, &[]).await
    }

    /// A new, empty schema, which goes when it is dropped.
    pub async fn schema(&self) -> Schema {
        Schema::create(&self.postgres).await
    }
}

pub(crate) fn variable(name: &str) -> String {
    env::var(name).ok().filter(|value| !value.is_empty()).unwrap_or_else(|| {
        panic!(
            "{name} is not set: run this test with `cargo xtask test NAME`, which starts the services, or \
             start them with `cargo xtask services up` and export what it prints"
        )
    })
}

/// A name that no other test uses: `stem`, then a random end.
#[must_use]
pub fn unique(stem: &str) -> String {
    let id = uuid::Uuid::now_v7().simple().to_string();
    // Its beginning is the time, its end is random.
    format!("{stem}-{}", &id[20..])
}

/// Says that a test cannot run on this machine, and why: `cargo xtask test` lists it as skipped, and
/// fails under `CI=true`. The test returns right after.
pub fn skip(test: &str, reason: &str) {
    let Some(file) = env::var_os("INBOX_TEST_SKIPS") else { return };
    // One write per line, so that lines of parallel tests do not mix.
    let line = format!("{test}: {reason}\n");
    let open = OpenOptions::new().append(true).open(&file);
    open.and_then(|mut file| file.write_all(line.as_bytes()))
        .unwrap_or_else(|error| panic!("cannot note that {test} was skipped: {error}"));
}
