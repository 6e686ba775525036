//! Transactions of all kinds on one of the tables.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::Schema;

/// Between transactions, so that a connector has something to do for a while.
pub(super) const PAUSE: Duration = Duration::from_millis(10);
/// Fewer rows are not left.
const ROWS_MIN: u64 = 500;

/// What writes to one table, a transaction after the other.
pub(super) struct Writer {
    table: &'static str,
    connection: PgConnection,
    random: u64,
    rows: u64,
    has_extra: bool,
    /// Changes of rows that were committed.
    pub(super) changes: u64,
}

impl Writer {
    pub(super) async fn new(schema: &Schema, table: &'static str, seed: u64) -> Self {
        let mut connection = PgConnection::connect(&schema.url()).await.expect("a connection");
        #[expect(clippy::cast_precision_loss, reason = "a seed between 0 and 1")]
        let fraction = (seed % 1000) as f64 / 1000.0;
        let seeded =
            sqlx::query("SELECT setseed($1)").bind(fraction).execute(&mut connection).await;
        seeded.expect("a seed");
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self { table, connection, random, rows: 0, has_extra: false, changes: 0 }
    }

    /// A number below another one.
    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound
    }

    /// Writes so many changes at least; `alters` the table when half of them are written.
    pub(super) async fn write(&mut self, changes: u64, alters: bool) {
        let (half, end) = (self.changes + changes / 2, self.changes + changes);
        let mut alters = alters && self.table == "items";
        while self.changes < end {
            if alters && self.changes >= half {
                alters = false;
                self.alter().await;
            }
            self.transaction().await;
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// A column more, a column less, a column of another type.
    async fn alter(&mut self) {
        self.run("ALTER TABLE items ADD COLUMN extra text, DROP COLUMN obsolete, ALTER COLUMN name TYPE varchar(100)").await;
        self.has_extra = true;
    }

    async fn transaction(&mut self) {
        let many = if self.below(8) == 0 { 500 } else { 30 };
        let count = 1 + self.below(many);
        match self.below(12) {
            0..3 => self.insert(count).await,
            3..6 => self.update(count, "").await,
            6 => self.update(count, ", doc = some_doc()").await,
            7 | 8 if self.rows > ROWS_MIN + count => {
                let deleted = self.some(count, "DELETE FROM @table@ WHERE @key@ IN (@some@)").await;
                self.rows -= deleted;
                self.changes += deleted;
            }
            9 => self.change_keys(count.min(50)).await,
            10 => self.back_and_forth().await,
            _ => self.take_back(count).await,
        }
    }

    pub(super) async fn insert(&mut self, count: u64) {
        let key = self.new_key();
        let columns = if self.has_extra { ", extra" } else { "" };
        let extra = if self.has_extra { ", md5(random()::text)" } else { "" };
        let sql = format!(
            "INSERT INTO {} ({}, n, name, doc{columns}) SELECT {key}, nextval('revisions'), md5(random()::text), some_doc(){extra}
                FROM generate_series(1, {count})",
            self.table,
            self.key(),
        );
        let inserted = self.run(&sql).await;
        self.rows += inserted;
        self.changes += inserted;
    }

    async fn update(&mut self, count: u64, more: &str) {
        let extra = if self.has_extra { ", extra = md5(random()::text)" } else { "" };
        let sql = format!(
            "UPDATE @table@ SET n = nextval('revisions'), name = md5(random()::text){extra}{more} WHERE @key@ IN (@some@)"
        );
        self.changes += self.some(count, &sql).await;
    }

    /// Other keys. Of `items` the log has nothing of a large value that is left alone, so it is written anew.
    async fn change_keys(&mut self, count: u64) {
        let sql = match self.table {
            "items" => {
                "UPDATE items SET id = nextval('numbers'), n = nextval('revisions'), doc = doc || '.' WHERE id IN (@some@)"
            }
            _ => {
                "UPDATE parts SET no = nextval('numbers'), n = nextval('revisions') WHERE (item, no) IN (@some@)"
            }
        };
        self.changes += self.some(count, sql).await;
    }

    /// One row again and again within a transaction: changed, gone, and there again under its key.
    async fn back_and_forth(&mut self) {
        let (table, key) = (self.table, self.key());
        let some = self.some_rows(1);
        let extra = if self.has_extra { ", extra" } else { "" };
        self.run(&format!(
            "BEGIN;
             CREATE TEMP TABLE kept ON COMMIT DROP AS SELECT {key}, n, name, doc{extra} FROM {table} WHERE ({key}) IN ({some});
             UPDATE {table} SET n = nextval('revisions') WHERE ({key}) IN (SELECT {key} FROM kept);
             UPDATE {table} SET n = nextval('revisions'), name = 'again' WHERE ({key}) IN (SELECT {key} FROM kept);
             DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM kept);
             INSERT INTO {table} ({key}, n, name, doc{extra}) SELECT {key}, nextval('revisions'), name, doc{extra} FROM kept;
             UPDATE {table} SET n = nextval('revisions') WHERE ({key}) IN (SELECT {key} FROM kept);
             COMMIT"
        ))
        .await;
        self.changes += 5;
    }

    /// What is taken back, in whole or to a savepoint, is no change.
    async fn take_back(&mut self, count: u64) {
        let (table, key, new, some) =
            (self.table, self.key(), self.new_key(), self.some_rows(count));
        let insert = format!(
            "INSERT INTO {table} ({key}, n) SELECT {new}, nextval('revisions') FROM generate_series(1, {count})"
        );
        self.run(&format!("BEGIN; {insert}; ROLLBACK")).await;
        self.run(&format!(
            "BEGIN; SAVEPOINT first; DELETE FROM {table} WHERE ({key}) IN ({some}); {insert}; ROLLBACK TO first; \
             INSERT INTO {table} ({key}, n) SELECT {new}, nextval('revisions'); COMMIT"
        ))
        .await;
        self.rows += 1;
        self.changes += 1;
    }

    fn key(&self) -> &'static str {
        if self.table == "items" { "id" } else { "item, no" }
    }

    fn new_key(&self) -> &'static str {
        if self.table == "items" {
            "nextval('numbers')"
        } else {
            "floor(random() * 50), nextval('numbers')"
        }
    }

    fn some_rows(&self, count: u64) -> String {
        format!("SELECT {} FROM {} ORDER BY random() LIMIT {count}", self.key(), self.table)
    }

    /// A statement about some rows; answers how many.
    async fn some(&mut self, count: u64, sql: &str) -> u64 {
        let key = if self.table == "items" { "id" } else { "(item, no)" };
        let sql = sql.replace("@table@", self.table).replace("@key@", key);
        self.run(&sql.replace("@some@", &self.some_rows(count))).await
    }

    async fn run(&mut self, sql: &str) -> u64 {
        let done = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut self.connection).await;
        done.unwrap_or_else(|error| panic!("{error}: {sql}")).rows_affected()
    }
}
