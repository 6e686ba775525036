//! A `PgBouncer` for a test, in front of the shared PostgreSQL, and a role for it.

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use xtask::server::PgBouncer;

use crate::run_folder::{remove, run_folder, unique_name};
use crate::{Schema, Services};

/// Whoever comes through it works in one schema, read-only unless told otherwise: as the role says.
#[derive(Debug)]
pub struct OwnPgBouncer {
    name: String,
    pooler: PgBouncer,
    role: String,
    server: String,
}

impl OwnPgBouncer {
    /// Starts one in transaction mode, set up as the documents say, for a schema of the shared server.
    pub async fn start(schema: &Schema) -> Self {
        let server = Services::from_env().postgres;
        let (role, name) = (format!("pooled_{}", schema.name()), unique_name("pgbouncer"));
        let text = format!(
            "CREATE ROLE {role} LOGIN SUPERUSER; \
             ALTER ROLE {role} SET search_path = {}, public; \
             ALTER ROLE {role} SET default_transaction_read_only = on",
            schema.name()
        );
        run(&server, text).await.expect("a superuser makes roles");
        let port = server.rsplit(['@', '/']).nth(1).and_then(|host| host.rsplit(':').next());
        let port = port.and_then(|port| port.parse().ok()).expect("the URL has a port");
        let (named, user) = (name.clone(), role.clone());
        let started = move || PgBouncer::start(run_folder(), &named, port, &user);
        let started = tokio::task::spawn_blocking(started).await.expect("the thread ends");
        let pooler = started.unwrap_or_else(|failure| panic!("{failure}"));
        Self { name, pooler, role, server }
    }

    /// A URL that leads through it.
    pub fn url(&self) -> String {
        let database = self.server.rsplit('/').next().unwrap_or("postgres");
        format!("postgres://{}@127.0.0.1:{}/{database}", self.role, self.pooler.port())
    }

    /// A URL of the server itself, as the same role.
    pub fn direct_url(&self) -> String {
        let (_, place) = self.server.rsplit_once('@').expect("the URL names a user");
        format!("postgres://{}@{place}", self.role)
    }
}

async fn run(server: &str, text: String) -> sqlx::Result<()> {
    let mut connection = PgConnection::connect(server).await?;
    sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut connection).await?;
    connection.close().await
}

impl Drop for OwnPgBouncer {
    fn drop(&mut self) {
        let (server, role) = (self.server.clone(), self.role.clone());
        // A runtime of its own: the test's may be ending. What the role owns is the schema's, and goes with it.
        let task = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
            let text = format!("REASSIGN OWNED BY {role} TO CURRENT_USER; DROP ROLE {role}");
            runtime.block_on(run(&server, text)).ok()
        });
        drop(task.join());
        remove(&self.name);
    }
}
