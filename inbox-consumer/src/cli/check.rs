//! `check`: what keeps a consumer from starting, and what is doubtful.

use std::time::Duration;

use super::{Exit, Terminal};
use crate::{
    Routes,
    config::Config,
    consumer::{kafka_settings, schema_is_current, settings},
    kafka::{self, Retained},
    pipeline::port::{Finding, Store},
    router::RouteTable,
};

/// Looks at everything without changing anything and without joining the group.
pub(super) async fn check<DB: Store>(
    config: &Config,
    routes: Routes<DB>,
    terminal: &mut Terminal<'_>,
) -> Exit {
    let mut found: Vec<Finding> = config
        .validate()
        .into_iter()
        .map(|problem| Finding { fatal: problem.fatal, text: problem.text })
        .collect();
    let routes = match routes.declare(&config.handlers).freeze() {
        Ok(routes) => Some(routes),
        Err(text) => {
            found.push(Finding { fatal: true, text });
            None
        }
    };
    found.extend(database::<DB>(config, routes.as_ref()).await);
    found.extend(brokers(config).await);
    for finding in &found {
        if finding.fatal {
            terminal.complain(&finding.text);
        } else {
            terminal.warn(&finding.text);
        }
    }
    let fatal = found.iter().filter(|finding| finding.fatal).count();
    if fatal > 0 {
        return Exit::Findings;
    }
    terminal.say(match found.len() {
        0 => "nothing is wrong".to_owned(),
        doubts => format!("nothing keeps the consumer from starting; {doubts} to think about"),
    });
    Exit::Done
}

async fn database<DB: Store>(config: &Config, routes: Option<&RouteTable<DB>>) -> Vec<Finding> {
    let fatal = |text: String| vec![Finding { fatal: true, text }];
    let settings = match settings::<DB>(config) {
        Ok(settings) => settings,
        Err(error) => return fatal(error.to_string()),
    };
    let mut conn = match DB::open(&settings).await {
        Ok(conn) => conn,
        Err(error) => return fatal(error.to_string()),
    };
    let mut found = match schema_is_current::<DB>(&mut conn).await {
        Err(error) => fatal(error.to_string()),
        Ok(()) => DB::findings(&mut conn)
            .await
            .unwrap_or_else(|error| fatal(format!("the database cannot be looked at: {error}"))),
    };
    if let Some(routes) = routes {
        found.extend(statements(routes, &mut conn, settings).await);
    }
    DB::close_hard(conn).await;
    found
}

/// What the database says to the statements of declared handlers.
async fn statements<DB: Store>(
    routes: &RouteTable<DB>,
    conn: &mut DB::Connection,
    settings: DB::Settings,
) -> Vec<Finding> {
    let wrong = match routes.refused_statements(conn).await {
        Ok(wrong) => wrong,
        Err(error) => vec![format!("the database cannot look at the declared handlers: {error}")],
    };
    if wrong.is_empty() {
        let (_, doubt) = routes.equip(conn, settings).await;
        return doubt.into_iter().map(|text| Finding { fatal: false, text }).collect();
    }
    wrong.into_iter().map(|text| Finding { fatal: true, text }).collect()
}

async fn brokers(config: &Config) -> Vec<Finding> {
    if let Err(error) = kafka::inspect(kafka_settings(config)).await {
        return vec![Finding { fatal: true, text: error.to_string() }];
    }
    let retained = kafka::retained(kafka_settings(config)).await;
    retained.iter().filter_map(|topic| retention(topic, config.retention.inbox)).collect()
}

/// A copy that a producer sends within the topic's retention should be recognised.
pub(super) fn retention(topic: &Retained, inbox: Duration) -> Option<Finding> {
    let text = match topic.time {
        Some(time) if time <= inbox => return None,
        Some(time) => format!("keeps records for {}", humantime::format_duration(time)),
        None => "keeps records for ever".to_owned(),
    };
    Some(Finding {
        fatal: false,
        text: format!(
            "topic {} {text}, `retention.inbox` is {}: a group that is reset to the beginning is \
             still safe, but a copy that a producer sends later than that is taken for a new event; \
             raise `retention.inbox` if producers send that late",
            topic.topic,
            humantime::format_duration(inbox)
        ),
    })
}
