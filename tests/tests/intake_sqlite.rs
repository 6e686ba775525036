//! The HTTP intake on SQLite, without Kafka.

use sqlx::Sqlite;
use tests::intake::{EFFECTS, File, Look as _, Server, config, scenarios};

macro_rules! on_sqlite {
    ($($scenario:ident)+) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $scenario() {
            let file = File::create().await;
            inbox_consumer::migrate::<Sqlite>(&config("any", file.url())).await.unwrap();
            file.run(EFFECTS).await;
            scenarios::$scenario::<Sqlite>(file.url(), &file).await;
        })+
    };
}
tests::intake_scenarios!(on_sqlite);

/// Here a handler cannot end what is not its own: nothing is written, and a person is told.
#[tokio::test]
async fn a_commit_of_a_handler_is_rejected() {
    let file = File::create().await;
    inbox_consumer::migrate::<Sqlite>(&config("any", file.url())).await.unwrap();
    file.run(EFFECTS).await;
    let server = Server::start::<Sqlite>(config("commits", file.url())).await;
    let event = scenarios::envelope(&scenarios::id(), "a", 1, "commits");
    let answer = server.client().envelope(&event).await;
    assert_eq!((answer.status, answer.body["reason"].as_str()), (202, Some("rejected")));
    assert_eq!(file.number("SELECT count(*) FROM effects").await, 0);
    server.stop().await;
}
