//! `[intake]`, with Kafka and without.

use crate::config::Config;

fn config(listen: &str) -> Config {
    let mut config =
        Config::new("billing", "", Vec::<String>::new(), "postgres://localhost/billing");
    config.intake.listen = listen.into();
    config
}

fn fatal(config: &Config) -> Vec<String> {
    let problems = config.validate().into_iter().filter(|problem| problem.fatal);
    problems.map(|problem| problem.text).collect()
}

#[cfg(feature = "intake")]
#[test]
fn nothing_of_kafka_is_wanted_where_events_come_by_http() {
    for listen in ["mounted", "127.0.0.1:8080"] {
        assert!(fatal(&config(listen)).is_empty(), "{:?}", fatal(&config(listen)));
        assert!(!config(listen).reads_kafka());
    }
    let mut half = config("mounted");
    half.kafka.topics = vec!["orders".into()];
    assert!(half.reads_kafka() && fatal(&half).len() == 1, "{:?}", fatal(&half));
}

#[test]
fn without_an_intake_kafka_is_wanted() {
    let wanted = fatal(&config("off"));
    assert!(wanted.iter().any(|text| text.contains("kafka.bootstrap")), "{wanted:?}");
    assert!(wanted.iter().any(|text| text.contains("kafka.topics")), "{wanted:?}");
}

#[test]
fn what_is_no_address_and_no_pointer_is_refused() {
    assert!(fatal(&config("8080")).iter().any(|text| text.contains("no address")));
    let mut config = config("0.0.0.0:8080");
    config.intake.webhook_aggregate_id = Some("data.id".into());
    assert!(fatal(&config).iter().any(|text| text.contains("JSON pointer")));
    let doubts = config.validate().into_iter().filter(|problem| !problem.fatal);
    assert!(doubts.into_iter().any(|doubt| doubt.text.contains("intake.secret_files")));
}
