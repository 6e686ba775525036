//! Every request five times, from 16 connections, through a proxy that cuts them, to a server that is killed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use serde_json::{Value, json};
use service_kit::Random;
use sqlx::Postgres;
use tests::{
    Proxy, SOON, Schema, Services, Worker, eventually,
    intake::{Answer, Client, config},
    soak::checker::EFFECTS,
};
use uuid::Uuid;
use xtask::server::free_ports;

use crate::programs::WORKER;

const CLIENTS: usize = 16;
const EVENTS: usize = 600;
const COPIES: usize = 5;
const KILLS: usize = 20;
/// Events of a request, each as often: a list of 24 is in two transactions.
const SIZES: [usize; 6] = [1, 1, 1, 1, 5, 24];

fn event(n: usize) -> Value {
    json!({
        "event_id": Uuid::now_v7().to_string(), "event_type": "Counted", "aggregate_type": "Account",
        "aggregate_id": format!("a{}", n % 37), "payload": { "n": n },
    })
}

fn server(schema: &Schema, name: &str, port: u16) -> Worker {
    let mut command = WORKER.command();
    command
        .arg("run")
        .env("INBOX_CONSUMER__NAME", name)
        .env("INBOX_DATABASE__URL", schema.url())
        .env("INBOX_INTAKE__LISTEN", format!("127.0.0.1:{port}"))
        .env("INBOX_HTTP__LISTEN", "off")
        .env("INBOX_LOG__FORMAT", "human");
    Worker::spawn(&mut command)
}

/// Sends a request until it is settled; answers how often it was sent.
async fn settle(client: &Client, body: &Value) -> (Answer, usize) {
    for sent in 1.. {
        let answer =
            client.try_send(&[("content-type", "application/json")], body.to_string()).await;
        match answer {
            Ok(answer) if answer.status == 200 => return (answer, sent),
            Ok(answer) => assert_eq!(answer.status, 503, "{answer:?}"),
            Err(_) => {}
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    unreachable!("it is sent for ever")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_event_has_one_effect_whatever_is_sent_twice_cut_and_killed() {
    let schema = Services::from_env().schema().await;
    inbox_consumer::migrate::<Postgres>(&config("killed", &schema.url())).await.unwrap();
    schema.run(EFFECTS).await;
    let [port] = free_ports().unwrap();
    let proxy = Proxy::start(&format!("127.0.0.1:{port}")).await;

    let mut random = Random::new(7);
    let mut requests: Vec<Value> = Vec::new();
    let mut n = 0;
    while n < EVENTS {
        let size = SIZES[usize::try_from(random.below(SIZES.len() as u64)).unwrap()];
        let size = size.min(EVENTS - n);
        let events: Vec<Value> = (n..n + size).map(event).collect();
        requests.push(if size == 1 { events[0].clone() } else { Value::from(events) });
        n += size;
    }
    let mut sent: Vec<Value> = requests.iter().flat_map(|one| vec![one.clone(); COPIES]).collect();
    for at in (1..sent.len()).rev() {
        let other = usize::try_from(random.below(at as u64 + 1)).unwrap();
        sent.swap(at, other);
    }

    let done = Arc::new(AtomicUsize::new(0));
    let all = sent.len();
    let dealt = (0..CLIENTS).map(|client| {
        let mine: Vec<Value> = sent.iter().skip(client).step_by(CLIENTS).cloned().collect();
        let (client, done) = (Client::new(&proxy.address()), Arc::clone(&done));
        tokio::spawn(async move {
            let mut attempts = 0;
            for body in mine {
                attempts += settle(&client, &body).await.1;
                done.fetch_add(1, Ordering::SeqCst);
            }
            attempts
        })
    });
    let clients: Vec<_> = dealt.collect();

    let mut worker = server(&schema, "killed", port);
    for kill in 1..=KILLS {
        let until = all * kill / (KILLS + 1);
        eventually(SOON * 4, "requests are settled", async || done.load(Ordering::SeqCst) >= until)
            .await;
        if kill % 2 == 0 {
            proxy.cut();
            tokio::time::sleep(Duration::from_millis(20)).await;
            proxy.heal();
        } else {
            proxy.lose_answer_to(b"POST /events", 3);
        }
        worker.kill();
        worker = server(&schema, "killed", port);
    }
    let attempts = join_all(clients).await.into_iter().map(Result::unwrap).sum::<usize>();
    assert!(attempts > all, "nothing was sent again: {attempts} attempts of {all} requests");

    let events = i64::try_from(EVENTS).unwrap();
    assert_eq!(schema.number("SELECT count(*) FROM effects").await, events);
    assert_eq!(schema.number("SELECT count(DISTINCT event_id) FROM effects").await, events);
    assert_eq!(schema.number("SELECT count(*) FROM inbox_parked").await, 0);
    // What asks now is told that all of it is there.
    let client = Client::new(&proxy.address());
    for body in &requests {
        let (answer, _) = settle(&client, body).await;
        let copies = if body.is_array() { answer.events() } else { vec![answer.event()] };
        assert!(copies.iter().all(|status| *status == "copy"), "{answer:?}");
    }
    worker.terminate();
    assert!(worker.ended(SOON).await.success(), "{}", worker.log());
}
