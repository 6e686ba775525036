//! `[[handlers]]`: tables of one section.

use super::{super::*, MINIMAL, load, refusal};

const HANDLER: &str = r#"
[[handlers]]
event_type = "OrderPaid"
columns = { account = "uuid", amount = "int8 from /amount" }
sql = "UPDATE accounts SET balance = balance + e.amount FROM events e WHERE accounts.id = e.account"
"#;

#[test]
fn a_configuration_declares_handlers() {
    let more = "[[handlers]]\nevent_type = \"Gone\"\nmode = \"run\"\none_per_aggregate = true\nsql = \"DELETE FROM a\"\n[handlers.columns]\nid = \"int8\"\n";
    let config = load(&format!("{MINIMAL}{HANDLER}{more}"), &[], &[]).unwrap();
    let [first, second] = &config.handlers[..] else { panic!("{:?}", config.handlers) };
    assert_eq!(first.event_type, "OrderPaid");
    assert_eq!((first.mode, first.one_per_aggregate), (DeclaredMode::Each, None));
    assert_eq!(first.columns["amount"], "int8 from /amount");
    assert_eq!((second.mode, second.one_per_aggregate), (DeclaredMode::Run, Some(true)));
    assert_eq!(second.columns["id"], "int8");
    assert!(load(MINIMAL, &[], &[]).unwrap().handlers.is_empty());
}

#[test]
fn what_is_wrong_with_a_handler_names_its_line() {
    let table = [
        (
            HANDLER.replace("columns", "colums"),
            "unknown key `handlers.colums` in consumer.toml, line 12; did you mean `handlers.columns`?",
        ),
        (
            format!("{HANDLER}mode = \"all\"\n"),
            "`handlers.mode` in consumer.toml, line 14: expected one of each, run, found \"all\"",
        ),
        (
            format!("{HANDLER}one_per_aggregate = \"yes\"\n"),
            "`handlers.one_per_aggregate` in consumer.toml, line 14: expected true or false, found \"yes\"",
        ),
        (
            HANDLER.replace("\"uuid\"", "7"),
            "`handlers.columns` in consumer.toml, line 12: expected table such as { amount = \"int8 from /amount\" }, found a table",
        ),
        (
            HANDLER.replace("\"OrderPaid\"", "\"\""),
            "`handlers.event_type` in consumer.toml, line 11: expected non-empty string, found \"\"",
        ),
        (
            HANDLER.replace("event_type = \"OrderPaid\"\n", ""),
            "`event_type` is missing in the [[handlers]] of consumer.toml, line 10",
        ),
        (
            HANDLER.replace("[[handlers]]", "[handlers]"),
            "`handlers` in consumer.toml, line 10 is a list of tables: write [[handlers]] and its keys below",
        ),
        ("handlers = [\"x\"]".to_owned(), "`database.handlers`"),
    ];
    for (text, expected) in table {
        let refusal = refusal(&format!("{MINIMAL}{text}"), &[], &[]);
        assert!(refusal.starts_with(expected) || refusal.contains(expected), "{refusal}");
        assert_eq!(refusal.lines().count(), 1, "{refusal}");
    }
    let refusal = refusal(&format!("handlers = [1]\n{MINIMAL}"), &[], &[]);
    assert_eq!(
        refusal,
        "`handlers` in consumer.toml, line 1 is a list of tables: write [[handlers]] and its keys below"
    );
}
