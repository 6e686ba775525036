//! Which queue a parked event is in: what its aggregate is, also when a deploy changes that.

use inbox_consumer::Ended;
use outbox_core::{ReadRules, Source};
use tests::{Record, SOON, Stage, eventually};

use super::{
    release_support::{break_at, intend, mend, mendable, never, nothing_is_parked, set},
    runtime_support::{up_to, watermark},
};

/// Number `n` of the tenant `t`, under the key `k`.
fn of_tenant(n: i64) -> Record {
    let payload = format!("{{\"n\":{n}}}");
    Record::event(&format!("t-{n}"), "Counted", "k", &payload).header("tenant", "t")
}

/// By the record key, or by the tenant.
fn by(stage: &mut Stage, tenant: bool) {
    let header = |name: &str| Source::Header(name.into());
    let mut rules = ReadRules::new(header("event_id"), header("event_type"));
    if tenant {
        rules.aggregate_id = header("tenant").into();
    }
    stage.config.events.format = inbox_consumer::config::Format::Custom;
    stage.config.events.rules = Some(rules.into());
}

async fn numbers(stage: &Stage) -> Vec<i64> {
    let all = sqlx::query_scalar("SELECT n FROM effects ORDER BY effect");
    all.fetch_all(stage.schema.pool()).await.unwrap()
}

/// Finding 25: processes whose configurations name different sources of the aggregate own a partition by
/// turns, and none lets an event pass those that the other has parked.
#[tokio::test]
async fn another_source_of_the_aggregate_lets_nothing_pass_what_is_parked() {
    let mut stage = set("keys", 1, never()).await;
    for aggregate in ["k", "t"] {
        break_at(&stage, aggregate, 1).await;
    }
    for (turn, tenant) in (1..).zip([false, true, false, true]) {
        by(&mut stage, tenant);
        stage.send(&[of_tenant(turn * 2 - 1), of_tenant(turn * 2)]).await;
        let running = stage.start(mendable()).await;
        let all = turn * 2;
        eventually(SOON, "settled", async || watermark(&stage, 0).await == all).await;
        assert_eq!(running.stop().await, Ended::Shutdown);
        assert_eq!(numbers(&stage).await, [] as [i64; 0], "turn {turn}: passed what is parked");
        assert_eq!(stage.parked("").await, all);
    }
    mend(&stage).await;
    let running = stage.start(mendable()).await;
    assert_eq!(intend(&stage, "release", "anna", "\"offset\" = 0").await, 1);
    nothing_is_parked(&stage).await;
    assert_eq!(numbers(&stage).await, up_to(8));
    assert_eq!(running.stop().await, Ended::Shutdown);
}

fn typed(aggregate_type: &str, n: i64) -> Record {
    let id = format!("{aggregate_type}-{n}");
    let record = Record::event(&id, "Counted", "7", &format!("{{\"n\":{n}}}"));
    record.header("aggregate_type", aggregate_type)
}

/// Finding 33: an aggregate is type and id, so `Customer/7` is not parked behind `Order/7`, and is not in
/// its queue.
#[tokio::test]
async fn another_type_under_the_same_key_is_not_held() {
    let stage = set("types", 1, never()).await;
    break_at(&stage, "7", 1).await;
    let running = stage.start(mendable()).await;
    stage.send(&[typed("Order", 1), typed("Customer", 2), typed("Order", 3)]).await;
    stage.send(&[typed("Customer", 4)]).await;
    eventually(SOON, "settled", async || watermark(&stage, 0).await == 4).await;
    assert_eq!(stage.of("7").await, [2, 4], "the customer waits behind the order");
    assert_eq!(stage.parked("").await, 2);
    mend(&stage).await;
    intend(&stage, "release", "anna", "\"offset\" = 0").await;
    nothing_is_parked(&stage).await;
    assert_eq!(stage.of("7").await, [2, 4, 1, 3]);
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// What an older build parked is by the record key alone: the take-over of this one divides it by types,
/// and each queue has a head that is due or waits for a person.
#[tokio::test]
async fn what_an_older_build_parked_is_divided_by_types() {
    let stage = set("older-keys", 1, never()).await;
    break_at(&stage, "7", 1).await;
    let running = stage.start(mendable()).await;
    let of = ["Order", "Customer", "Order"];
    stage.send(&(1..).zip(of).map(|(n, of)| typed(of, n)).collect::<Vec<_>>()).await;
    eventually(SOON, "settled", async || watermark(&stage, 0).await == 3).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    // As the older build would have left it: one queue by the key, the customer in it.
    let older = "UPDATE inbox_partitions SET key_rule = '', key_epoch = NULL;
        DELETE FROM effects;
        UPDATE inbox_events SET parked = true;
        INSERT INTO inbox_parked (partition_ref, lane, aggregate_key, consumer_ref, event_id, fingerprint, \"offset\",
            leader_epoch, reason, attempts, due_at, event_type, aggregate, record)
        SELECT e.partition_ref, q.lane, q.aggregate_key, e.consumer_ref, e.event_id, e.fingerprint, 1, q.leader_epoch,
            'follower', 0, NULL, 'Counted', 'Customer/7', replace(replace(q.record, 'Order', 'Customer'), '\\\"n\\\":1', '\\\"n\\\":2')
        FROM inbox_events e JOIN inbox_parked q ON q.\"offset\" = 0 WHERE e.\"offset\" = 1;
        UPDATE inbox_parked SET aggregate_key = decode(repeat('07', 16), 'hex')";
    stage.schema.run(older).await;
    assert_eq!(stage.parked("").await, 3);
    let running = stage.start(mendable()).await;
    eventually(SOON, "the customer is free", async || stage.of("7").await == [2]).await;
    stage.send(&[typed("Customer", 4), typed("Order", 5)]).await;
    eventually(SOON, "settled", async || watermark(&stage, 0).await == 5).await;
    assert_eq!((stage.of("7").await, stage.parked("").await), (vec![2, 4], 3));
    mend(&stage).await;
    intend(&stage, "release", "anna", "\"offset\" = 0").await;
    nothing_is_parked(&stage).await;
    assert_eq!(stage.of("7").await, [2, 4, 1, 3, 5]);
    assert_eq!(running.stop().await, Ended::Shutdown);
}
