//! The conformance suite on real databases: SQLite always, PostgreSQL where `INBOX_TEST_POSTGRES`
//! names a superuser's URL.
#![cfg(all(feature = "postgres", feature = "sqlite"))]
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test")]

use std::time::Duration;

use inbox_conformance::{self as conformance, conformance_scenarios};
use inbox_store::internal::port::TxLimits;

const LIMITS: TxLimits = TxLimits {
    statement_timeout: Duration::from_secs(10),
    lock_timeout: Duration::from_secs(10),
    idle_timeout: Duration::from_secs(10),
};

/// Here, as the package has no `docs`.
#[test]
fn the_statement_that_the_suite_tries_is_the_one_of_the_operations_page() {
    let page = include_str!("../../docs/operations.md");
    let (_, section) = page.split_once("### `id_scope`\n").unwrap();
    let (_, fenced) = section.split_once("```sql\n").unwrap();
    let (statement, _) = fenced.split_once("```").unwrap();
    assert_eq!(statement, conformance::remap::IDS_TAKEN_BACK);
}

#[path = "store/declared.rs"]
mod declared;

#[path = "store/snapshot.rs"]
mod snapshot;

mod sqlite {
    use std::time::Duration;

    use super::LIMITS;
    use inbox_store::internal::{
        SqliteSettings,
        port::{Claim, Sessions},
    };
    use sqlx::{Connection, Sqlite};

    macro_rules! scenarios {
        ($room:ident { $($scenario:ident)* }) => {
            mod $room {
                $(
                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn $scenario() {
                        let folder = tempfile::tempdir().unwrap();
                        let url = format!("sqlite://{}/inbox.db", folder.path().display());
                        let settings = super::SqliteSettings::new(&url).unwrap();
                        crate::conformance::$room::$scenario::<super::Sqlite>(settings).await;
                    }
                )*
            }
        };
    }
    crate::conformance_scenarios!(scenarios);

    /// Writers of one process queue; one that gave up waiting, or whose session is gone, holds up
    /// nobody.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn writers_take_turns() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/inbox.db", folder.path().display());
        let settings = SqliteSettings::new(&url).unwrap();
        let mut first = Sqlite::open(&settings).await.unwrap();
        let mut second = Sqlite::open(&settings).await.unwrap();
        Sqlite::begin(&mut first, &LIMITS).await.unwrap();
        let waits = Duration::from_millis(100);
        let gave_up = tokio::time::timeout(waits, Sqlite::begin(&mut second, &LIMITS)).await;
        assert!(gave_up.is_err(), "two writers had their turn at once");
        assert!(Sqlite::begin(&mut first, &LIMITS).await.is_err(), "a second BEGIN in one session");
        let still = tokio::time::timeout(waits, Sqlite::begin(&mut second, &LIMITS)).await;
        assert!(still.is_err(), "a refused BEGIN gave the turn away");
        Sqlite::close_hard(first).await;
        Sqlite::begin(&mut second, &LIMITS).await.unwrap();
        Sqlite::rollback(&mut second).await.unwrap();
        let mut third = Sqlite::open(&settings).await.unwrap();
        Sqlite::begin(&mut third, &LIMITS).await.unwrap();
    }

    /// A connection that the inbox did not open has no hooks: it is refused.
    #[tokio::test]
    async fn a_strange_connection_is_refused() {
        let mut strange = sqlx::SqliteConnection::connect("sqlite::memory:").await.unwrap();
        let error = Sqlite::begin(&mut strange, &LIMITS).await.unwrap_err();
        assert!(error.to_string().contains("not opened by the inbox"), "{error}");
    }

    /// The door for other crates.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn one_call_exercises_everything() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/inbox.db", folder.path().display());
        let settings = SqliteSettings::new(&url).unwrap();
        crate::conformance::exercise::<Sqlite>(settings).await;
    }
}

mod postgres {
    use std::time::Duration;

    use super::LIMITS;
    use inbox_conformance::Probe;
    use inbox_engine::internal::{Epoch, Lane, LaneMove, LeaderEpoch, Offset};
    use inbox_store::internal::{
        PgSettings,
        port::{Claim, ClaimRequest, OpenError, Schemas, Scope, Sessions, StoreFault},
    };
    use sqlx::{AssertSqlSafe, PgConnection, Postgres, Row as _};

    /// The server's URL; `None` after a line that says so.
    fn server() -> Option<String> {
        let url = std::env::var("INBOX_TEST_POSTGRES").ok();
        let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
        assert!(
            url.is_some() || !ci,
            "INBOX_TEST_POSTGRES is missing: set it to a superuser's URL of a PostgreSQL for tests"
        );
        if url.is_none() {
            eprintln!("skipped: INBOX_TEST_POSTGRES is not set");
        }
        url
    }

    /// A schema of the test's own, dropped: a scenario makes it.
    pub(super) async fn settings(scenario: &str) -> Option<PgSettings> {
        let url = server()?;
        let process = std::process::id();
        let schema: String = format!("t{process}_{scenario}").chars().take(63).collect();
        let settings = PgSettings::new(&url).unwrap().schema(&schema).unwrap();
        let mut admin = Postgres::administer(&settings).await.unwrap();
        Postgres::run(&mut admin, &format!("DROP SCHEMA IF EXISTS {schema} CASCADE"))
            .await
            .unwrap();
        Some(settings)
    }

    macro_rules! scenarios {
        ($room:ident { $($scenario:ident)* }) => {
            mod $room {
                $(
                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn $scenario() {
                        let Some(settings) = super::settings(stringify!($scenario)).await else { return };
                        crate::conformance::$room::$scenario::<super::Postgres>(settings).await;
                        super::settings(stringify!($scenario)).await; // drops the schema
                    }
                )*
            }
        };
    }
    crate::conformance_scenarios!(scenarios);

    /// A server that is not there may come back; a database that is not there needs a person.
    #[tokio::test]
    async fn an_absent_server_is_an_outage_and_an_absent_database_is_refused() {
        let Some(url) = server() else { return };
        let nobody = PgSettings::new("postgres://postgres:hidden@127.0.0.1:1/x").unwrap();
        let error = Postgres::open(&nobody).await.unwrap_err();
        assert!(matches!(error, OpenError::Outage(_)), "{error:?}");
        assert!(!error.to_string().contains("hidden"));
        let (server, _) = url.rsplit_once('/').unwrap();
        let absent = PgSettings::new(&format!("{server}/no_such_database")).unwrap();
        let error = Postgres::open(&absent).await.unwrap_err();
        assert!(matches!(error, OpenError::Refused(_)), "{error:?}");
    }

    /// A server that accepts connections and says nothing is an outage within the limit.
    #[tokio::test]
    async fn a_silent_server_is_an_outage() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = silent.local_addr().unwrap().port();
        let url = format!("postgres://postgres@127.0.0.1:{port}/x");
        let settings = PgSettings::new(&url).unwrap().connect_timeout(Duration::from_millis(300));
        let error = Postgres::open(&settings).await.unwrap_err();
        assert!(matches!(error, OpenError::Outage(_)), "{error:?}");
    }

    /// G9: a replica is refused. Needs `INBOX_TEST_POSTGRES_REPLICA` (rule `ReplicaRefused`).
    #[tokio::test]
    async fn a_replica_is_refused() {
        let Ok(url) = std::env::var("INBOX_TEST_POSTGRES_REPLICA") else {
            eprintln!("skipped: INBOX_TEST_POSTGRES_REPLICA is not set");
            return;
        };
        let error = Postgres::open(&PgSettings::new(&url).unwrap()).await.unwrap_err();
        assert!(
            matches!(&error, OpenError::Refused(said) if said.contains("replica")),
            "{error:?}"
        );
    }

    /// G10: what the server raises is classified as the taxonomy says.
    #[tokio::test]
    async fn a_raised_sqlstate_has_its_class() {
        let Some(settings) = settings("raised").await else { return };
        let mut admin = Postgres::administer(&settings).await.unwrap();
        let table = [
            // In a function's words an outage is none: the session has met nothing of it.
            ("53100", StoreFault::Conflict),
            ("57P01", StoreFault::Conflict),
            ("40001", StoreFault::Conflict),
            ("40P01", StoreFault::Conflict),
            ("55P03", StoreFault::Conflict),
            ("57014", StoreFault::Conflict),
            ("25006", StoreFault::TransactionEnded),
            ("23505", StoreFault::Statement),
            ("P0001", StoreFault::Statement),
        ];
        for (code, class) in table {
            let sql = format!("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '{code}'; END $$");
            let error = Postgres::run(&mut admin, &sql).await.unwrap_err();
            assert_eq!(Postgres::fault(&error), class, "{code}");
        }
    }

    /// Lone events are claimed by a plan that is there already: where the planner may look at an array of
    /// one, it makes another each time, for 0.2 ms.
    #[tokio::test]
    async fn claims_of_lone_events_are_planned_once() {
        let Some(settings) = settings("planned").await else { return };
        let mut session = Postgres::open(&settings).await.unwrap();
        Postgres::migrate(&mut session).await.unwrap();
        for number in 0..20 {
            claim(&mut session, [number]).await;
        }
        // PostgreSQL tries five plans before it keeps one.
        let anew = "SELECT count(*) FROM pg_prepared_statements WHERE custom_plans > 5";
        assert_eq!(Postgres::number(&mut session, anew).await.unwrap(), 0);
    }

    /// A claim in a transaction of its own, which is rolled back.
    async fn claim<const EVENTS: usize>(session: &mut PgConnection, numbers: [u8; EVENTS]) {
        let scope = Scope { consumer_ref: 1, partition_ref: 1, epoch: Epoch(1) };
        let step = LaneMove {
            lane: Lane(0),
            prev: Offset(-1),
            new: Offset(0),
            leader_epoch: LeaderEpoch(0),
        };
        let claim = ClaimRequest {
            ids: numbers.map(|number| [number; 16]).to_vec(),
            fingerprints: vec![[1; 16]; EVENTS],
            offsets: vec![0; EVENTS],
            aggregates: vec![[1; 16]],
            lanes: vec![step],
            expects_new: false,
        };
        Postgres::begin(session, &LIMITS).await.unwrap();
        let claimed = Postgres::claim(session, &scope, &claim).await.unwrap();
        Postgres::advance(session, &scope, &claimed.tx, &claim.lanes, None).await.unwrap();
        Postgres::rollback(session).await.unwrap();
    }

    /// A plan of the claim that was made while the inbox had a few rows reads all of it for second copies; it
    /// outlives the few rows, unless a flood of other sessions' changes makes PostgreSQL forget its plans, and
    /// goes when it is planned anew.
    #[tokio::test]
    async fn a_claim_planned_anew_does_not_read_the_whole_inbox() {
        let Some(settings) = settings("replanned").await else { return };
        let mut admin = Postgres::administer(&settings).await.unwrap();
        Postgres::migrate(&mut admin).await.unwrap();
        // As the consumer opens it: this one keeps its statements.
        let mut session = Postgres::open(&settings).await.unwrap();
        let insert = |rows| {
            format!(
                "INSERT INTO inbox_events (consumer_ref, partition_ref, \"offset\", event_id, fingerprint)
                 SELECT 1, 1, 0, gen_random_uuid(), decode(repeat('00', 16), 'hex') FROM generate_series(1, {rows})"
            )
        };
        let alone = "ALTER TABLE inbox_events SET (autovacuum_enabled = off)";
        Postgres::run(&mut admin, alone).await.unwrap();
        Postgres::run(&mut admin, &insert(50)).await.unwrap();
        Postgres::run(&mut admin, "VACUUM ANALYZE inbox_events").await.unwrap();
        for _ in 0..10 {
            claim(&mut session, [1, 2]).await;
        }
        Postgres::run(&mut admin, &insert(20_000)).await.unwrap();
        Postgres::replan(&mut session).await.unwrap();
        claim(&mut session, [1, 2]).await;
        assert!(!reads_all(&mut session).await);
    }

    /// Whether the plan that is kept for the claim goes through all rows of the inbox.
    async fn reads_all(session: &mut PgConnection) -> bool {
        let find = "SELECT name FROM pg_prepared_statements WHERE statement LIKE 'WITH known AS%'";
        let name: String = sqlx::query_scalar(find).fetch_one(&mut *session).await.unwrap();
        let plan =
            format!("EXPLAIN EXECUTE {name} (1, 1, '{{}}', '', '{{}}', '{{}}', '{{}}', '{{}}', 1)");
        let plan = sqlx::raw_sql(AssertSqlSafe(plan)).fetch_all(session).await.unwrap();
        let mut lines = plan.iter().map(|line| line.get::<String, _>(0));
        lines.any(|line| line.contains("Seq Scan on inbox_events"))
    }

    /// C9: an advance that waited for a take-over sees its epoch, of one lane and of several (rule
    /// `EpochAtAdvance`).
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_advance_that_waited_sees_the_newer_epoch() {
        let Some(settings) = settings("waited").await else { return };
        let mut admin = Postgres::administer(&settings).await.unwrap();
        Postgres::migrate(&mut admin).await.unwrap();
        for lanes in [1, 2] {
            let partition_ref = i64::from(lanes);
            let scope = Scope { consumer_ref: 1, partition_ref, epoch: Epoch(1) };
            let steps = (0..lanes).map(|lane| LaneMove {
                lane: Lane(lane),
                prev: Offset(-1),
                new: Offset(0),
                leader_epoch: LeaderEpoch(0),
            });
            let steps: Vec<LaneMove> = steps.collect();
            let rows = format!(
                "INSERT INTO inbox_lanes (partition_ref, lane, epoch, last_offset, slot, last_leader_epoch, added_by)
                 SELECT {lanes}, lane, 1, -1, -1, 0, 7 FROM generate_series(0, 3) lane"
            );
            Postgres::run(&mut admin, &rows).await.unwrap();
            Postgres::run(&mut admin, "BEGIN").await.unwrap();
            let newer = format!("UPDATE inbox_lanes SET epoch = 2 WHERE partition_ref = {lanes}");
            Postgres::run(&mut admin, &newer).await.unwrap();
            let mut session = Postgres::open(&settings).await.unwrap();
            let waiting = tokio::spawn(async move {
                Postgres::begin(&mut session, &LIMITS).await.unwrap();
                let tx = "SELECT pg_current_xact_id()::text::bigint";
                let tx = Postgres::number(&mut session, tx).await.unwrap().to_string();
                Postgres::advance(&mut session, &scope, &tx, &steps, None).await.unwrap()
            });
            tokio::time::sleep(Duration::from_millis(300)).await;
            assert!(!waiting.is_finished(), "the advance does not wait for the lanes it moves");
            Postgres::run(&mut admin, "COMMIT").await.unwrap();
            assert_eq!(waiting.await.unwrap(), 0, "{lanes} lanes");
        }
    }

    /// Finding 21: settling and taking over make no `MultiXact`.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn lanes_that_cross_make_no_multixact() {
        let Some(settings) = settings("multixact").await else { return };
        let mut admin = Postgres::administer(&settings).await.unwrap();
        let before = multixacts(&mut admin).await;
        crate::conformance::lanes::crossing_lanes_never_deadlock::<Postgres>(settings).await;
        assert_eq!(multixacts(&mut admin).await - before, 0);
    }

    async fn multixacts(admin: &mut PgConnection) -> i64 {
        Postgres::run(admin, "CHECKPOINT").await.unwrap();
        let sql = "SELECT next_multixact_id::text::bigint FROM pg_control_checkpoint()";
        Postgres::number(admin, sql).await.unwrap()
    }
}
