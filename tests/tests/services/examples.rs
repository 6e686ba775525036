//! Every lesson of `examples` on real services. Each asserts what it teaches.

use tests::Services;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders() {
    let services = Services::from_env();
    let topic = services.topic("lesson", 3).await;
    let (orders, accounts) = (services.schema().await, services.schema().await);
    examples::orders::run(&services.kafka, topic.name(), &orders.url(), &accounts.url())
        .await
        .unwrap();
}

/// A lesson with one topic and one database.
macro_rules! lessons {
    ($($name:ident)+) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let services = Services::from_env();
            let (topic, schema) = (services.topic("lesson", 3).await, services.schema().await);
            let (kafka, topic) = (&services.kafka, topic.name());
            examples::$name::run(kafka, topic, &schema.url()).await.unwrap();
        }
    )+ };
}

lessons! { batch embedded retries state two_consumers }
