//! Registration and look-up.

use inbox_engine::internal::Kind;
use sqlx::Sqlite;

use super::{RouteLookup, Routes, Schedule};
use crate::{BatchHandler, Event, Handler, HandlerResult, Tx};

struct One;

impl Handler<Sqlite> for One {
    type Event = i64;

    async fn handle(&self, _: &Event<i64>, _: &mut Tx<'_, Sqlite>) -> HandlerResult {
        Ok(())
    }
}

struct Many {
    one_per_aggregate: bool,
}

impl BatchHandler<Sqlite> for Many {
    type Event = i64;

    async fn handle(&self, _: &[Event<i64>], _: &mut Tx<'_, Sqlite>) -> HandlerResult {
        Ok(())
    }

    fn one_per_aggregate(&self) -> bool {
        self.one_per_aggregate
    }
}

fn routes() -> Routes<Sqlite> {
    Routes::default()
}

#[test]
fn a_type_is_handled_ignored_or_unknown() {
    let table = routes()
        .on("b", One)
        .on_batch("a", Many { one_per_aggregate: false })
        .on_batch("c", Many { one_per_aggregate: true })
        .ignore("d")
        .freeze()
        .unwrap();
    let kind = |route, whole_run, one_per_aggregate| {
        RouteLookup::Route(Kind { route, whole_run, one_per_aggregate })
    };
    assert_eq!(table.lookup("a"), kind(0, true, false));
    assert_eq!(table.lookup("b"), kind(1, false, false));
    assert_eq!(table.lookup("c"), kind(2, true, true));
    assert_eq!(table.lookup("d"), RouteLookup::Ignored);
    assert_eq!(table.lookup("A"), RouteLookup::Unknown);
    assert!(table.route(1).name().ends_with("tests::One"));
    let types: Vec<_> = table.names().into_iter().map(|(event_type, _)| event_type).collect();
    assert_eq!(types, ["a", "b", "c"]);
}

/// H6
#[test]
fn two_handlers_for_one_type_are_refused_by_name() {
    let refused =
        routes().on("paid", One).on_batch("paid", Many { one_per_aggregate: false }).freeze();
    let text = refused.unwrap_err();
    assert!(
        text.starts_with("events of type `paid` are registered twice, with the handler `")
            && text.contains("tests::One` and with the handler `")
            && text.ends_with("tests::Many`: remove one of them"),
        "{text}"
    );
    let text = routes().on("paid", One).ignore("paid").ignore("").freeze().unwrap_err();
    assert!(text.contains("and with `ignore`: remove one of them; `ignore` is"), "{text}");
}

#[test]
fn a_schedule_belongs_to_a_handled_type() {
    let often = Schedule { releases_max: 100, ..Schedule::NEVER };
    let table = routes().on("paid", One).schedule("paid", often).freeze().unwrap();
    assert_eq!((table.schedule("paid"), table.schedule("other")), (Some(often), None));
    let text = routes().on("paid", One).schedule("piad", often).freeze().unwrap_err();
    assert!(text.starts_with("events of type `piad` have a schedule, but no handler"), "{text}");
    let twice = routes().on("paid", One).schedule("paid", often).schedule("paid", often);
    assert!(twice.freeze().unwrap_err().contains("two schedules"));
}

#[test]
fn a_consumer_without_routes_is_refused() {
    assert!(routes().freeze().unwrap_err().starts_with("no event type has a handler"));
}
