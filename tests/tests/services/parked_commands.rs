//! Parked events in the hands of operators, beside a consumer that runs: looked at, released, discarded,
//! by one and by two at once, with an owner and without.

use inbox_consumer::Ended;
use tests::{
    Record, SOON, Stage, counted,
    deploy::{Deploy, charged},
    eventually,
};

use super::parked_support::{acts, parked, said, seq, told, typed};
use super::runtime_support::up_to;

/// Issue, I5: the whole way of an event that a bad deploy rejects: listed, shown, released in order with
/// what follows it; and of one that nobody wants: discarded.
#[tokio::test]
async fn parked_events_are_listed_shown_released_and_discarded() {
    let stage = Stage::set("operator", 1).await;
    let (deploy, strange) = (Deploy::bad(), Record::event("s-1", "Strange", "s", "{\"x\":1}"));
    stage.send(&[charged("a", 1), counted("a", 2), charged("b", 1), strange]).await;
    let running = parked(&stage, &deploy, 4).await;

    let list = said(&stage, &["parked", "list"]).await;
    let lines: Vec<&str> = list.lines().collect();
    assert!(lines[0].starts_with("SEQ"), "{list}");
    let rejected = |line: &&str| line.contains("rejected") && line.contains("no column");
    assert_eq!(lines.iter().copied().filter(|line| rejected(line)).count(), 2, "{list}");
    let end = "4 events of 3 aggregates parked: 0 due now, 0 scheduled for retry, 3 waiting for \
               manual action, 1 following another one; --followers includes those that follow";
    assert_eq!(lines.last(), Some(&end), "{list}");
    let charged_only = told(&stage, &["parked", "list", "--type", "Charged", "--json"]).await;
    assert_eq!(charged_only["parked"].as_array().map(Vec::len), Some(2), "{charged_only}");
    assert_eq!(charged_only["parked"][0]["followers"], 1);
    let by_error = told(&stage, &["parked", "list", "--error", "NO COLUMN", "--json"]).await;
    assert_eq!(by_error["counts"]["events"], 2);

    let (head, follower, unknown) =
        (seq(&stage, 0).await, seq(&stage, 1).await, seq(&stage, 3).await);
    let shown = said(&stage, &["parked", "show", &head]).await;
    for part in [
        "type        Charged",
        "partition 0, offset 0, leader epoch 0",
        "reason      rejected: its handler rejected it permanently",
        "to do       fix the handler",
        "due         manual action required",
        "header      event_id: a-1",
        "payload     7 bytes of text\n  {\"n\":1}",
        "attempt 1: no column \"fee\" in table accounts",
        &format!("followers   1 event: {follower} (Counted at 1)"),
    ] {
        assert!(shown.contains(part), "{part:?} is missing: {shown}");
    }
    let shown = told(&stage, &["parked", "show", &follower, "--json"]).await;
    assert_eq!(shown["turn"], format!("follows {head}"));
    assert_eq!(shown["record"]["payload"]["text"], "{\"n\":2}");

    deploy.mend();
    let out = said(&stage, &["parked", "release", &follower, "--wait", "20s"]).await;
    assert!(out.starts_with(&format!("{follower} follows {head} of the same aggregate")), "{out}");
    assert!(out.contains("last seen") && out.contains("will do this within seconds"), "{out}");
    assert!(out.ends_with("released: 1 event, and what followed\n"), "{out}");
    assert_eq!(stage.of("a").await, up_to(2));
    assert_eq!(stage.of("b").await, [] as [i64; 0], "nobody asked for b");

    let why = ["--why", "a test of the producer's", "--wait", "20s"];
    said(&stage, &[&["parked", "discard", &unknown][..], &why].concat()).await;
    assert_eq!((stage.parked("").await, stage.effects().await), (1, 2));
    let audit = said(&stage, &["parked", "audit"]).await;
    for part in ["anna@desk", "release", "discard", "a test of the producer's", "Strange"] {
        assert!(audit.contains(part), "{part:?} is missing: {audit}");
    }
    assert_eq!((acts(&stage, "release").await, acts(&stage, "discard").await), (1, 1));
    // What follows a released event is handled as ever.
    stage.send(&[counted("a", 3)]).await;
    eventually(SOON, "the next", async || stage.of("a").await == up_to(3)).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// `--wait` says which error it was, and the event stays with one more round.
#[tokio::test]
async fn a_release_that_fails_again_says_with_what() {
    let stage = Stage::set("again", 1).await;
    stage.send(&[charged("a", 1), counted("a", 2)]).await;
    let running = parked(&stage, &Deploy::bad(), 2).await;
    let head = seq(&stage, 0).await;
    let (code, _, err) = typed(&stage, &["parked", "release", &head, "--wait", "20s"]).await;
    assert_eq!(code, Some(7), "{err}");
    let told =
        format!("error: {head} failed again and stays parked as rejected: no column \"fee\"");
    assert!(err.starts_with(&told), "{err}");
    assert_eq!(running.stop().await, Ended::Shutdown);
    assert_eq!((stage.parked("").await, stage.effects().await), (2, 0));
    assert_eq!(stage.schema.number("SELECT max(releases)::bigint FROM inbox_parked").await, 1);
}

/// Without an owner the command says so, and the work is done when one comes. Times out with its own
/// code.
#[tokio::test]
async fn without_a_live_owner_it_is_done_later() {
    let stage = Stage::set("later", 1).await;
    let deploy = Deploy::bad();
    stage.send(&[charged("a", 1), counted("a", 2), charged("b", 1)]).await;
    assert_eq!(parked(&stage, &deploy, 3).await.stop().await, Ended::Shutdown);
    let all = ["parked", "release", "--all", "--yes", "--wait", "1s"];
    let (code, out, err) = typed(&stage, &all).await;
    assert_eq!(code, Some(7), "{out}{err}");
    assert!(out.contains("has no owner now; this is done once a consumer runs"), "{out}");
    assert!(err.contains("2 events still pending after 1s"), "{err}");
    let again = said(&stage, &["parked", "release", &seq(&stage, 0).await]).await;
    assert!(again.contains("anna@desk already requested that at 20"), "{again}");
    deploy.mend();
    let running = stage.start(deploy.routes()).await;
    eventually(SOON, "all are applied", async || stage.effects().await == 3).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    assert_eq!((stage.of("a").await, stage.parked("").await), (up_to(2), 0));
    assert_eq!(acts(&stage, "release").await, 2);
}

/// Two operators at once: each event is asked for once, has one effect, in order.
#[tokio::test]
async fn two_operators_release_everything_once() {
    let stage = Stage::set("two", 2).await;
    let deploy = Deploy::bad();
    let names: Vec<String> = (0..40).map(|n| format!("a{n}")).collect();
    for n in 1..=3 {
        let records: Vec<Record> = names.iter().map(|name| charged(name, n)).collect();
        stage.send(&records).await;
    }
    let running = parked(&stage, &deploy, 120).await;
    deploy.mend();
    let by = |who: &'static str| {
        let args =
            ["parked", "release", "--type", "Charged", "--yes", "--as", who, "--wait", "30s"];
        let stage = &stage;
        async move { typed(stage, &args).await }
    };
    let (one, other) = futures::join!(by("anna"), by("bert"));
    assert_eq!((one.0, other.0), (Some(0), Some(0)), "{one:?} {other:?}");
    eventually(SOON, "all are applied", async || stage.effects().await == 120).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    for name in &names {
        assert_eq!(stage.of(name).await, up_to(3), "{name}");
    }
    assert_eq!(stage.parked("").await, 0);
    let twice = "SELECT count(*) FROM (SELECT 1 FROM inbox_audit WHERE what = 'release' \
                 GROUP BY event_id HAVING count(*) > 1) twice";
    assert_eq!(stage.schema.number(twice).await, 0, "an event was asked for twice");
}

/// One releases, one discards, at the same time: every event ends one way, never both.
#[tokio::test]
async fn an_event_is_released_or_discarded_but_never_both() {
    let stage = Stage::set("opposed", 2).await;
    let deploy = Deploy::bad();
    let records: Vec<Record> = (0..60).map(|n| charged(&format!("a{n}"), 1)).collect();
    stage.send(&records).await;
    let running = parked(&stage, &deploy, 60).await;
    deploy.mend();
    let release = ["parked", "release", "--all", "--yes", "--as", "anna"];
    let discard = ["parked", "discard", "--all", "--yes", "--as", "bert", "--why", "given up"];
    let (one, other) = futures::join!(typed(&stage, &release), typed(&stage, &discard));
    for (code, out, err) in [one, other] {
        assert!(code == Some(0) || code == Some(6), "{code:?} {out}{err}");
    }
    eventually(SOON, "nothing is parked", async || stage.parked("").await == 0).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    let both = "SELECT count(*) FROM effects e JOIN inbox_audit a ON a.aggregate LIKE '%/' || e.aggregate \
                WHERE a.what = 'discard'";
    assert_eq!(stage.schema.number(both).await, 0, "an event was discarded and applied");
    let discarded = acts(&stage, "discard").await;
    assert_eq!(stage.effects().await + discarded, 60, "{discarded} discarded");
}

/// An event that may have had its effect waits for somebody who has looked.
#[tokio::test]
async fn a_torn_event_needs_force_and_a_look() {
    let stage = Stage::set("torn", 1).await;
    let deploy = Deploy::bad();
    stage.send(&[charged("a", 1)]).await;
    let running = parked(&stage, &deploy, 1).await;
    stage.schema.run("UPDATE inbox_parked SET reason = 'torn'").await;
    deploy.mend();
    let head = seq(&stage, 0).await;
    let (code, _, err) = typed(&stage, &["parked", "release", &head]).await;
    assert_eq!(code, Some(6), "{err}");
    for part in
        ["its effect may be committed", "check the tables that its handler writes to", "--force"]
    {
        assert!(err.contains(part), "{part:?} is missing: {err}");
    }
    let (code, _, err) = typed(&stage, &["parked", "release", "--all", "--yes"]).await;
    assert_eq!(code, Some(6), "{err}");
    assert!(err.contains("1 event skipped") && err.contains("--force"), "{err}");
    assert_eq!(acts(&stage, "release").await, 0);
    said(&stage, &["parked", "release", &head, "--force", "--wait", "20s"]).await;
    assert_eq!(stage.of("a").await, [1]);
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Discarding the head lets what follows it run, and discarding a follower leaves the head alone.
#[tokio::test]
async fn what_follows_a_discarded_event_runs() {
    let stage = Stage::set("heads", 1).await;
    let deploy = Deploy::bad();
    stage
        .send(&[
            charged("a", 1),
            counted("a", 2),
            counted("a", 3),
            charged("b", 1),
            counted("b", 2),
        ])
        .await;
    let running = parked(&stage, &deploy, 5).await;
    let (middle, head) = (seq(&stage, 1).await, seq(&stage, 3).await);
    for seq in [middle, head] {
        let args = ["parked", "discard", &seq, "--why", "given up", "--wait", "20s"];
        said(&stage, &args).await;
    }
    eventually(SOON, "b's second", async || stage.of("b").await == [2]).await;
    assert_eq!((stage.parked("").await, stage.effects().await), (2, 1));
    deploy.mend();
    said(&stage, &["parked", "release", "--aggregate", "a", "--yes", "--wait", "20s"]).await;
    eventually(SOON, "a's others", async || stage.of("a").await == [1, 3]).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
}
