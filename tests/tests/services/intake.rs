//! The HTTP intake on PostgreSQL, without Kafka.

use sqlx::Postgres;
use tests::{
    Services,
    intake::{EFFECTS, config, scenarios},
};

macro_rules! on_postgres {
    ($($scenario:ident)+) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $scenario() {
            let schema = Services::from_env().schema().await;
            inbox_consumer::migrate::<Postgres>(&config("any", &schema.url())).await.unwrap();
            schema.run(EFFECTS).await;
            scenarios::$scenario::<Postgres>(&schema.url(), &schema).await;
        })+
    };
}
tests::intake_scenarios!(on_postgres);
