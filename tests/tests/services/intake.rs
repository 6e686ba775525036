//! The HTTP intake on PostgreSQL, without Kafka.

use sqlx::Postgres;
use tests::{
    Services,
    intake::{
        EFFECTS, config, scenarios,
        torn::{a_commit_is_torn_whoever_passes_it, a_commit_of_a_handler_is_torn},
    },
};

async fn schema() -> tests::Schema {
    let schema = Services::from_env().schema().await;
    inbox_consumer::migrate::<Postgres>(&config("any", &schema.url())).await.unwrap();
    schema.run(EFFECTS).await;
    schema
}

macro_rules! on_postgres {
    ($($scenario:ident)+) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $scenario() {
            let schema = schema().await;
            scenarios::$scenario::<Postgres>(&schema.url(), &schema).await;
        })+
    };
}
tests::intake_scenarios!(on_postgres);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_goes_during_a_release() {
    let schema = schema().await;
    scenarios::a_secret_goes_during_a_release::<Postgres>(&schema.url(), &schema).await;
}

/// Only a server lets a handler end what is not its own.
mod torn {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn at_once() {
        let schema = schema().await;
        a_commit_of_a_handler_is_torn::<Postgres>(&schema.url(), &schema).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn whoever_passes_it() {
        let schema = schema().await;
        a_commit_is_torn_whoever_passes_it::<Postgres>(&schema.url(), &schema).await;
    }
}
