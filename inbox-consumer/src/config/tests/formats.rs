//! Formats of other systems, and what docs/formats.md shows of each.

use std::fmt::Write as _;

use outbox_core::{Envelope, Header, Record};

use super::{super::Config, MINIMAL, load, refusal};

/// A record as the page writes it: lines of a place and what it holds.
fn record(block: &str) -> (String, Record) {
    let (mut topic, mut record) = (String::new(), Record::default());
    for line in block.lines() {
        let (place, rest) = line.split_once(' ').unwrap_or((line, ""));
        match place {
            "topic" => rest.clone_into(&mut topic),
            "key" => record.key = Some(rest.to_owned().into()),
            "value" => record.payload = Some(rest.to_owned().into()),
            "header" => {
                let (name, value) = rest.split_once(' ').unwrap();
                let value = Some(value.to_owned().into());
                record.headers.push(Header { name: name.into(), value });
            }
            other => panic!("{other} is no place of a record"),
        }
    }
    (topic, record)
}

/// An event as the page writes it.
fn event(event: &Envelope) -> String {
    let mut text = format!("event_id {}\n", event.event_id);
    if let Some(id) = &event.source_id {
        let _ = writeln!(text, "source_id {id}");
    }
    let _ = writeln!(text, "event_type {}\naggregate {}", event.event_type, event.aggregate);
    for (name, value) in [
        ("aggregate_version", event.aggregate_version),
        ("occurred_at_ms", event.occurred_at_ms),
        ("schema_version", event.schema_version.map(i64::from)),
    ] {
        if let Some(value) = value {
            let _ = writeln!(text, "{name} {value}");
        }
    }
    if let Some(payload) = &event.payload {
        let _ = writeln!(text, "payload {}", String::from_utf8_lossy(payload));
    }
    text
}

/// Configuration, record and event stand one behind the other.
#[test]
fn every_record_of_the_page_gives_the_event_that_it_shows() {
    let page = include_str!("../../../../docs/formats.md");
    let blocks: Vec<(&str, &str)> = page
        .split("```")
        .skip(1)
        .step_by(2)
        .map(|block| block.split_once('\n').unwrap())
        .filter(|(kind, _)| ["toml", "text"].contains(kind))
        .collect();
    let mut shown = 0;
    for (at, (_, settings)) in blocks.iter().enumerate().filter(|(_, (kind, _))| *kind == "toml") {
        let [("text", before), ("text", after)] = blocks[at + 1..at + 3] else {
            panic!("a record and an event follow\n{settings}");
        };
        let config = load(&format!("{MINIMAL}{settings}"), &[], &[]).unwrap();
        let (topic, record) = record(before);
        let reader = config.reader().unwrap();
        let read = reader.read(&topic, 3, 7, &record);
        let told = read.map_or_else(|error| format!("parked {error}\n"), |read| event(&read));
        assert_eq!(told, after, "of\n{settings}{before}");
        shown += 1;
    }
    assert!(shown > 2);
}

#[test]
fn settings_of_the_router_come_from_everywhere_and_are_checked() {
    let text = format!(
        "{MINIMAL}[events]\nformat = \"debezium-outbox\"\n[events.debezium]\nroute.by.field = \"kind\"\n"
    );
    let env = [("INBOX_EVENTS__DEBEZIUM__VALUE_CONVERTER", "a.JsonConverter")];
    let flags = [("events.debezium.table.fields.additional.placement", "type:header:eventType")];
    let config = load(&text, &env, &flags).unwrap();
    let written = toml::to_string(&config).unwrap();
    for line in [
        "\"route.by.field\" = \"kind\"",
        "\"value.converter\" = \"a.JsonConverter\"",
        "\"table.fields.additional.placement\" = \"type:header:eventType\"",
    ] {
        assert!(written.contains(line), "{written}");
    }
    let refused = refusal(&text, &[], &[("events.debezium.route.by.feld", "kind")]);
    assert!(refused.contains("`route.by.feld` is not a setting of Debezium's"), "{refused}");
    let refused = refusal(MINIMAL, &[], &[("events.debezium.route.by.field", "kind")]);
    assert!(refused.starts_with("[events.debezium] is set but not used"), "{refused}");
    let untyped = [("events.debezium.table.fields.additional.placement", "a:header")];
    let refused = refusal(&text, &[], &untyped);
    assert!(refused.contains("places no column with the event's type"), "{refused}");
    let typed = [untyped[0], ("events.rules.type", "value:Changed")];
    assert!(load(&text, &[], &typed).is_ok());
}

#[test]
fn what_no_rule_reads_of_a_schema_registry_s_converters_is_told_before_the_start() {
    let avro = "io.confluent.connect.avro.AvroConverter";
    let text = format!(
        "{MINIMAL}[events]\nformat = \"debezium-outbox\"\n[events.debezium]\n\"key.converter\" = \"{avro}\"\n"
    );
    let told = |flags: &[(&str, &str)]| {
        let problems = load(&text, &[], flags).unwrap().validate().into_iter();
        let keys = problems.filter(|problem| problem.text.contains("`key.converter`"));
        keys.map(|problem| (problem.fatal, problem.text)).collect::<Vec<_>>()
    };
    let found = told(&[]);
    assert!(
        !found[0].0 && found[0].1.contains("`events.rules.aggregate_id` to `key:hex`"),
        "{found:?}"
    );
    assert!(told(&[("events.rules.aggregate_id", "key:hex")]).is_empty());
    let envelope = [
        ("events.debezium.table.fields.additional.placement", "type:envelope:eventType"),
        ("events.debezium.value.converter", avro),
    ];
    let refused = refusal(&text, &[], &envelope);
    assert!(refused.contains("place the columns in headers"), "{refused}");
}

#[test]
fn a_topic_is_read_in_its_own_way() {
    let text = format!(
        "{}\n[[events.topics]]\ntopic = \"outbox.event.order\"\nformat = \"debezium-outbox\"\nrules.type = \"value:Paid\"\n\
         debezium.route.by.field = \"kind\"\n[[events.topics]]\ntopic = \"clouds\"\nformat = \"cloudevents\"\n",
        MINIMAL.replace("\"orders\"", "\"orders\", \"outbox.event.order\", \"clouds\"")
    );
    let config = load(&text, &[], &[]).unwrap();
    let again: Config = toml::from_str(&toml::to_string(&config).unwrap()).unwrap();
    assert_eq!(again.events, config.events);
    let reader = config.reader().unwrap();
    let event_type = |topic: &str, headers: &[(&str, &str)]| {
        let header = |(name, value): &(&str, &str)| Header {
            name: (*name).into(),
            value: Some((*value).to_owned().into()),
        };
        let headers = headers.iter().map(header).collect();
        let record = Record { key: Some("7".into()), headers, ..Record::default() };
        reader.read(topic, 0, 0, &record).map(|event| event.event_type.to_string())
    };
    let own = [("event_id", "1"), ("event_type", "own")];
    assert_eq!(event_type("orders", &own).unwrap(), "own");
    assert_eq!(event_type("outbox.event.order", &[("id", "1")]).unwrap(), "Paid");
    let cloud = [("ce_id", "1"), ("ce_source", "a"), ("ce_type", "cloud")];
    assert_eq!(event_type("clouds", &cloud).unwrap(), "cloud");
    assert!(event_type("clouds", &own).is_err());
}

#[test]
fn tables_of_topics_are_checked() {
    let refused = |tables: &str| refusal(&format!("{MINIMAL}{tables}"), &[], &[]);
    for (tables, told) in [
        ("[[events.topics]]\ntopic = \"orders\"\n", "[[events.topics]]: missing field `format`"),
        ("[[events.topics]]\ntopic = \"orders\"\nformat = \"owm\"\n", "unknown variant `owm`"),
        (
            "[[events.topics]]\ntopic = \"other\"\nformat = \"own\"\n",
            "of \"other\": it is not in `kafka.topics`",
        ),
        (
            "[[events.topics]]\ntopic = \"orders\"\nformat = \"own\"\n[[events.topics]]\ntopic = \"orders\"\nformat = \"own\"\n",
            "there is another table for it",
        ),
        (
            "[[events.topics]]\ntopic = \"orders\"\nformat = \"custom\"\nrules.id = \"position\"\n",
            "`events.topics.rules.type` is missing",
        ),
        ("[events]\ntopics = \"orders\"\n", "expected list of tables"),
    ] {
        let refused = refused(tables);
        assert!(refused.contains(told), "{refused}");
    }
}
