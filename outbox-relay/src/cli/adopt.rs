//! `adopt`: rows of another outbox table are copied into ours, by a trigger.

use outbox_debezium::internal::{Place, Placement};

use super::{Exit, Terminal, failed_call, on, open, options};
use crate::{
    config::{Config, Debezium, RecordFormat, ValueConverter},
    port::{Adoption, DebeziumNeeds, FurtherColumn, Operators, TableMapping, whole},
    relay::address,
};

/// Makes the trigger, or removes it, or writes the statements out.
pub(super) async fn adopt(
    config: &Config,
    (table, print, end): (String, bool, bool),
    terminal: &mut Terminal<'_>,
) -> Exit {
    let options = match options(config, terminal) {
        Ok(options) => options,
        Err(exit) => return exit,
    };
    let mapping = match mapping(config, table) {
        Ok(mapping) => mapping,
        Err(wrong) => return complain(&wrong, terminal),
    };
    on!(&options, adopted(settings, mapping, (print, end), terminal), &address(config))
}

/// What `[debezium]` says of the table.
fn mapping(config: &Config, table: String) -> Result<TableMapping, Vec<String>> {
    let debezium = &config.debezium;
    let placements = Placement::read(&debezium.table_fields_additional_placement)
        .map_err(|error| vec![format!("`debezium.table_fields_additional_placement`: {error}")])?;
    let own = config.kafka.format == RecordFormat::Own;
    let json = debezium.value_converter == ValueConverter::Json;
    let envelope_schema = json && debezium.value_converter_schemas_enable;
    let mut wrong = Vec::new();
    let mut further = Vec::new();
    for Placement { column, place, alias } in placements {
        if own && place != Place::Header {
            wrong.push(format!(
                "`debezium.table_fields_additional_placement` places the column {column} outside \
                 of headers, which requires `kafka.format = \"debezium-outbox\"`"
            ));
        }
        further.push(FurtherColumn {
            name: column,
            alias,
            partition: place == Place::Partition,
            schema_sent: place == Place::Envelope && envelope_schema,
        });
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let Debezium {
        table_field_event_id: id,
        table_field_event_key: key,
        table_field_event_type: event_type,
        table_field_event_payload: payload,
        table_field_event_timestamp: timestamp,
        route_by_field: aggregate_type,
        ..
    } = debezium.clone();
    let needs = DebeziumNeeds {
        bytes: debezium.value_converter == ValueConverter::Bytes,
        any_payload: debezium.value_converter != ValueConverter::String,
        payload_schema: envelope_schema,
        key_schema: debezium.key_converter == crate::config::KeyConverter::Json
            && debezium.key_converter_schemas_enable,
    };
    let debezium = (!own).then_some(needs);
    Ok(TableMapping {
        table,
        id,
        key,
        event_type,
        payload,
        timestamp,
        aggregate_type,
        further,
        debezium,
    })
}

async fn adopted<F: Operators>(
    settings: F::Settings,
    mapping: TableMapping,
    (print, end): (bool, bool),
    terminal: &mut Terminal<'_>,
) -> Exit {
    let mut session = match open::<F>(&settings, terminal).await {
        Ok(session) => session,
        Err(exit) => return exit,
    };
    let found =
        whole::<F, _>(&settings, &mut session, async |s| F::adoption(s, &mapping).await).await;
    let adoption = match found {
        Ok(Ok(adoption)) => adoption,
        Ok(Err(wrong)) => {
            F::close_hard(session).await;
            return complain(&wrong, terminal);
        }
        Err(error) => {
            F::close_hard(session).await;
            return failed_call(&error, terminal);
        }
    };
    let Adoption { table, begin, end: ending, doubts } = adoption;
    if !end {
        for doubt in &doubts {
            terminal.warn(doubt);
        }
    }
    let statements = if end { ending } else { begin };
    if print {
        F::close_hard(session).await;
        terminal.say(statements.trim_end());
        return Exit::Done;
    }
    let done =
        whole::<F, _>(&settings, &mut session, async |s| F::carry_out(s, statements).await).await;
    F::close_hard(session).await;
    let position = match done {
        Ok(position) => position,
        Err(error) => return failed_call(&error, terminal),
    };
    terminal.say(if end {
        format!("rows of {table} are no longer copied")
    } else {
        format!("each row inserted into {table} is copied into outbox_events from now on")
    });
    if let Some(position) = position {
        terminal.say(format!("the database log is at position {position}"));
    }
    Exit::Done
}

fn complain(wrong: &[String], terminal: &mut Terminal<'_>) -> Exit {
    for text in wrong {
        terminal.complain(text);
    }
    Exit::Usage
}
