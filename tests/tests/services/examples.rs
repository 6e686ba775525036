//! Every lesson of `examples` on real services. Each asserts what it teaches.

use tests::Services;

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

lessons! { batch embedded state two_consumers }
