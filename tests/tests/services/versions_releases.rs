//! Releases of events that wait for versions: broken ones, and those that a person asks for.

use std::{
    sync::{Arc, atomic::AtomicUsize, atomic::Ordering::SeqCst},
    time::Duration,
};

use inbox_consumer::testing::HandlerTest;
use inbox_consumer::{Event, Handler, HandlerResult, Routes, Tx};
use sqlx::{Postgres, Sqlite};

use super::{
    versions::{Kit, TYPE, Write, effects, of, on_both, start, to, versions},
    versions_gaps::{MOMENT, become_, parked, patient, release},
};

/// Writes its version; that of one version does not end well so many times.
struct Break<B> {
    version: i64,
    times: Arc<AtomicUsize>,
    by: B,
}

struct Hang;

/// Ends its transaction by this.
struct Sql(&'static str);

impl<B> Break<B> {
    fn breaks(&self, event: &Event<i64>) -> bool {
        let left = |left: usize| left.checked_sub(1);
        event.payload == self.version && self.times.fetch_update(SeqCst, SeqCst, left).is_ok()
    }
}

impl<DB: Kit> Handler<DB> for Break<Hang> {
    type Event = i64;

    async fn handle(&self, event: &Event<i64>, tx: &mut Tx<'_, DB>) -> HandlerResult {
        DB::write(event.payload, tx).await?;
        if self.breaks(event) {
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

impl Handler<Postgres> for Break<Sql> {
    type Event = i64;

    async fn handle(&self, event: &Event<i64>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        Postgres::write(event.payload, tx).await?;
        if self.breaks(event) {
            sqlx::raw_sql(self.by.0).execute(&mut *tx.unguarded().await?).await?;
        }
        Ok(())
    }
}

/// The longest attempt of a handler that hangs.
const HANGS: Duration = Duration::from_secs(1);
/// That of others, on a machine that has much else to do.
const ENDS: Duration = Duration::from_secs(20);

/// 3, 2 and 4 wait, in this order. An attempt takes no longer than this.
async fn wait_out_of_order<DB: Kit>(
    handler: impl Handler<DB, Event = i64>,
    attempt: Duration,
) -> HandlerTest<DB> {
    let mut bench = DB::bench().await;
    bench.execute(DB::TABLES).await.unwrap();
    bench.configure(|config| {
        config.retry.attempts_max = 1;
        config.retry.attempt_deadline = attempt;
        config.database.statement_timeout = attempt * 4 / 5;
        config.database.lock_timeout = attempt * 2 / 5;
        config.park.delay_min = MOMENT;
        config.park.delay_max = MOMENT;
    });
    bench.handle(Routes::default().on(TYPE, handler).versions(TYPE, patient())).await.unwrap();
    // A commit has told how long a handler takes.
    bench.run(&[of("b", 1), of("c", 1)]).await.unwrap();
    for event in [to(3), to(2), to(4)] {
        assert_eq!(bench.deliver(&event).await.unwrap().reason(), "gap");
    }
    bench
}

/// 1 comes as well: the three are released together.
async fn release_out_of_order<DB: Kit>(
    handler: impl Handler<DB, Event = i64>,
    attempt: Duration,
) -> HandlerTest<DB> {
    let mut bench = wait_out_of_order(handler, attempt).await;
    bench.deliver(&to(1)).await.unwrap();
    bench
}

/// A release whose transaction is lost with an event that it ran behind its predecessor: the two are in that order
/// again, whatever order their queue has.
async fn what_breaks_a_release_does_not_pass_its_gap<DB: Kit>() {
    let handler = Break { version: 3, times: Arc::new(1.into()), by: Hang };
    let mut bench = release_out_of_order::<DB>(handler, HANGS).await;
    become_(&mut bench, "1 1 1 2 3 4").await;
    bench.close().await.unwrap();
}

/// The same with a handler that has taken everything back itself: nothing of what ran before it is to be put right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_rollback_took_back_does_not_pass_its_gap() {
    let handler = Break { version: 3, times: Arc::new(1.into()), by: Sql("ROLLBACK") };
    let mut bench = release_out_of_order::<Postgres>(handler, ENDS).await;
    become_(&mut bench, "1 1 1 2 3 4").await;
    bench.close().await.unwrap();
}

/// What waited before it in the queue is the head then, and waits for its version on; in another process, if this one
/// ends before it comes to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waited_before_a_commit_is_looked_at_again() {
    let stop = Sql("INSERT INTO stopped VALUES (1); COMMIT");
    let handler = Break { version: 2, times: Arc::new(1.into()), by: stop };
    let mut bench = wait_out_of_order::<Postgres>(handler, ENDS).await;
    for sql in [
        "CREATE TABLE stopped (n bigint)",
        "CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF EXISTS (SELECT FROM stopped) THEN RAISE EXCEPTION USING ERRCODE = '40001'; END IF;
            RETURN NEW;
        END $$",
        "CREATE TRIGGER stop BEFORE UPDATE ON inbox_parked FOR EACH ROW
            WHEN (NEW.reason = 'releasing') EXECUTE FUNCTION stop()",
    ] {
        bench.execute(sql).await.unwrap();
    }
    bench.deliver(&to(1)).await.unwrap();
    parked(&mut bench, 1, "reason = 'torn'").await;
    parked(&mut bench, 1, "reason = 'follower' AND due_at IS NOT NULL").await;
    bench.execute("DELETE FROM stopped").await.unwrap();
    parked(&mut bench, 1, "reason = 'gap'").await;
    assert_eq!(effects(&mut bench).await, "1 1 1 2");
    bench.close().await.unwrap();
}

/// What a handler's own COMMIT has made durable waits for a person, in whatever order it was run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ran_before_a_commit_is_not_run_again() {
    let handler = Break { version: 3, times: Arc::new(1.into()), by: Sql("COMMIT") };
    let mut bench = release_out_of_order::<Postgres>(handler, ENDS).await;
    parked(&mut bench, 2, "reason = 'torn'").await;
    parked(&mut bench, 1, "reason = 'follower'").await;
    assert_eq!(effects(&mut bench).await, "1 1 1 2 3");
    bench.close().await.unwrap();
}

/// A person does not want to wait: it is run as it is, and what is missing before it is stale.
async fn what_a_person_releases_is_run_past_its_gap<DB: Kit>() {
    let routes = Routes::default().on(TYPE, Write::default()).versions(TYPE, patient());
    let mut bench = start::<DB>(routes).await;
    bench.deliver(&to(1)).await.unwrap();
    for event in [to(3), to(5)] {
        assert_eq!(bench.deliver(&event).await.unwrap().reason(), "gap");
    }
    release(&mut bench, "awaiting = 3").await;
    parked(&mut bench, 1, "1 = 1").await;
    assert_eq!(effects(&mut bench).await, "1 3");
    bench.deliver(&to(2)).await.unwrap();
    assert_eq!(effects(&mut bench).await, "1 3");
    bench.deliver(&to(4)).await.unwrap();
    become_(&mut bench, "1 3 4 5").await;
    assert_eq!(versions(&mut bench).await, (1, 5));
    bench.close().await.unwrap();
}

/// Behind an event that is parked for another reason nothing of its aggregate is run, whoever asks.
async fn what_a_person_releases_is_not_run_past_what_is_parked<DB: Kit>() {
    let failures = Arc::new(AtomicUsize::new(0));
    let handler = Write { failures: Arc::clone(&failures) };
    let mut bench = DB::bench().await;
    bench.execute(DB::TABLES).await.unwrap();
    bench.configure(|config| config.retry.attempts_max = 1);
    bench.handle(Routes::default().on(TYPE, handler).versions(TYPE, patient())).await.unwrap();
    bench.deliver(&to(1)).await.unwrap();
    assert_eq!(bench.deliver(&to(3)).await.unwrap().reason(), "gap");
    failures.store(1, SeqCst);
    assert_eq!(bench.deliver(&to(2)).await.unwrap().reason(), "exhausted");
    release(&mut bench, "reason = 'gap'").await;
    parked(&mut bench, 1, "reason = 'gap' AND intent IS NULL").await;
    let refused = "SELECT count(*) FROM inbox_audit WHERE what = 'release_failed'";
    assert_eq!(bench.number(refused).await.unwrap(), 1);
    assert_eq!(effects(&mut bench).await, "1");
    release(&mut bench, "reason = 'exhausted'").await;
    become_(&mut bench, "1 2 3").await;
    bench.close().await.unwrap();
}

on_both! {
    what_breaks_a_release_does_not_pass_its_gap
    what_a_person_releases_is_run_past_its_gap
    what_a_person_releases_is_not_run_past_what_is_parked
}
