//! `[intake]`, with Kafka and without.

use crate::config::Config;

fn config(listen: &str) -> Config {
    let mut config =
        Config::new("billing", "", Vec::<String>::new(), "postgres://app@localhost/billing");
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
    assert!(fatal(&config("8080")).iter().any(|text| text.contains("not an address")));
    let mut config = config("0.0.0.0:8080");
    config.intake.webhook_aggregate_id = Some("data.id".into());
    assert!(fatal(&config).iter().any(|text| text.contains("JSON pointer")));
    let doubts = config.validate().into_iter().filter(|problem| !problem.fatal);
    assert!(doubts.into_iter().any(|doubt| doubt.text.contains("intake.secret_files")));
}

/// A place that leads nowhere is refused wherever it is written; each request would be read as if it were not set.
#[cfg(feature = "intake")]
#[test]
fn places_that_lead_nowhere_are_refused_in_every_key() {
    type Change = fn(&mut crate::config::Intake, String);
    let with = |change: Change, place: &str| {
        let mut config = config("127.0.0.1:8080");
        (config.intake.map_id, config.intake.map_type) = (Some("/id".into()), Some("/type".into()));
        change(&mut config.intake, place.to_owned());
        fatal(&config)
    };
    let in_body: [(&str, Change); 4] = [
        ("intake.map_id", |intake, place| intake.map_id = Some(place)),
        ("intake.map_type", |intake, place| intake.map_type = Some(place)),
        ("intake.map_payload", |intake, place| intake.map_payload = Some(place)),
        ("intake.webhook_aggregate_id", |intake, place| intake.webhook_aggregate_id = Some(place)),
    ];
    for (key, change) in in_body {
        for place in ["", "id", "/a~2", "/a~", &"/a".repeat(33), "header:"] {
            let found = with(change, place);
            assert!(found.len() == 1 && found[0].contains(key), "{key} = {place:?}: {found:?}");
        }
        assert!(with(change, "/a~0b/0").is_empty(), "{key}");
    }
    for (key, change) in &in_body[..2] {
        assert!(with(*change, "header:X-Id").is_empty(), "{key}");
        assert_eq!(with(*change, "header:X Id").len(), 1, "{key}");
    }
}
