//! The HTTP intake on SQLite, without Kafka.

use sqlx::Sqlite;
use tests::intake::{EFFECTS, File, Look as _, config, scenarios};

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
