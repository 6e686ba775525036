//! A schema of PostgreSQL for one test.

use std::thread;

use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::unique;

/// A schema that goes, with everything in it, when this is dropped.
#[derive(Debug)]
pub struct Schema {
    name: String,
    server: String,
    pool: PgPool,
}

impl Schema {
    /// A new, empty schema on a server.
    pub async fn create(server: &str) -> Self {
        let name = unique("t").replace('-', "_");
        run(server, &format!("CREATE SCHEMA {name}")).await.expect("a superuser creates a schema");
        let url = with_search_path(server, &name);
        let pool = PgPoolOptions::new()
            .max_connections(4)
            .connect(&url)
            .await
            .expect("the server that created the schema accepts connections");
        Self { name, server: server.to_owned(), pool }
    }

    /// The schema's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A URL whose connections work in this schema.
    pub fn url(&self) -> String {
        self.url_at(&self.server)
    }

    /// The same by way of another address of the server: a proxy's.
    pub fn url_at(&self, server: &str) -> String {
        with_search_path(server, &self.name)
    }

    /// For setting up and for looking: connections that work in this schema.
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Runs statements, separated by semicolons, in this schema.
    pub async fn run(&self, sql: &str) {
        let done = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&self.pool).await;
        done.unwrap_or_else(|error| panic!("{error}: {sql}"));
    }

    /// The one number that a query returns.
    pub async fn number(&self, sql: &str) -> i64 {
        let row = sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&self.pool).await;
        row.unwrap_or_else(|error| panic!("{error}: {sql}"))
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        // A runtime of its own: the test's may be ending. A schema that stays (its server is dead, a
        // transaction holds it) is no failure: the next run has other names.
        let task = thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
            let sql = format!("SET lock_timeout = '2s'; DROP SCHEMA {name} CASCADE");
            runtime.block_on(run(&server, &sql)).ok()
        });
        drop(task.join());
    }
}

async fn run(server: &str, sql: &str) -> sqlx::Result<()> {
    let mut connection = PgConnection::connect(server).await?;
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await?;
    connection.close().await
}

fn with_search_path(server: &str, schema: &str) -> String {
    let joint = if server.contains('?') { '&' } else { '?' };
    format!("{server}{joint}options=-c%20search_path%3D{schema}")
}
