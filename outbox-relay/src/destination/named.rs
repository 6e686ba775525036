//! Destinations by their names, and the routes to them.

use std::{fmt, sync::Arc};

use service_kit::{Problem, is_name};

use super::Sink;
use crate::{
    config::{Config, Route, Webhook},
    routes::{KAFKA, Routes},
};

/// A destination besides Kafka, by the name that routes have for it.
#[derive(Clone)]
pub(crate) struct Destination {
    pub(crate) name: String,
    pub(crate) sink: Arc<dyn Sink>,
    /// All its events share one outage, whatever they are.
    pub(crate) one_scope: bool,
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Destination").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The destinations of a configuration, and what is wrong with those that it cannot have.
pub(crate) fn of(config: &Config) -> (Vec<Destination>, Vec<Problem>) {
    let (mut found, mut wrong) = (Vec::new(), Vec::new());
    for webhook in &config.webhooks {
        match open(webhook) {
            Ok(sink) => {
                found.push(Destination { name: webhook.name.clone(), sink, one_scope: true });
            }
            Err(error) => wrong.push(Problem::fatal(&["webhooks.name"], error)),
        }
    }
    (found, wrong)
}

#[cfg(feature = "webhook")]
fn open(webhook: &Webhook) -> Result<Arc<dyn Sink>, String> {
    Ok(Arc::new(super::webhook::WebhookSink::new(webhook)?))
}

/// The configuration has been refused before.
#[cfg(not(feature = "webhook"))]
fn open(webhook: &Webhook) -> Result<Arc<dyn Sink>, String> {
    Err(format!("the webhook {:?} needs a build with the feature `webhook`", webhook.name))
}

/// What is wrong or doubtful about destinations and the routes to them.
pub(crate) async fn problems(config: &Config, destinations: &[Destination]) -> Vec<Problem> {
    let names = names(destinations);
    let mut found = Vec::new();
    for (at, name) in names.iter().enumerate() {
        if name == KAFKA || !is_name(name, 100) || names[..at].contains(name) {
            found.push(Problem::fatal(&[], format!(
                "a destination is named {name:?}; names are unique, not `{KAFKA}`, and consist of \
                 letters, digits, `.`, `_` and `-`, at most 100"
            )));
        }
    }
    match read(config, &names) {
        Err(error) => found.push(Problem::fatal(&["routes.to"], format!("[[routes]]: {error}"))),
        Ok(routes) => {
            found.extend(routes.unused(&names).into_iter().map(|name| {
                Problem::doubt(
                    &["routes.to"],
                    format!("no route leads to the destination `{name}`; add one to [[routes]]"),
                )
            }));
            if let Some(number) = routes.hides_others() {
                found.push(Problem::doubt(
                    &["routes.event_type"],
                    format!(
                        "[[routes]]: no event reaches the routes after route {number}, which \
                         matches all; move it to the end"
                    ),
                ));
            }
            if !routes.take_all() {
                found.push(Problem::doubt(
                    &["routes.event_type"],
                    "an event that matches no route \
                                                                   of [[routes]] is parked; \
                                                                   unless you want that, let the \
                                                                   last route match all: \
                                                                   `event_type = \"*\"`",
                ));
            }
        }
    }
    for Destination { name, sink, .. } in destinations {
        if let Err(error) = sink.check().await {
            found.push(Problem::fatal(&[], format!("destination `{name}`: {error}")));
        }
    }
    found
}

/// The routes of a configuration to these destinations.
///
/// # Errors
/// One sentence with the name that is no destination.
pub(crate) fn routes(config: &Config, destinations: &[Destination]) -> Result<Routes, String> {
    read(config, &names(destinations))
}

fn names(destinations: &[Destination]) -> Vec<String> {
    destinations.iter().map(|destination| destination.name.clone()).collect()
}

fn read(config: &Config, names: &[String]) -> Result<Routes, String> {
    let routes = config.routes.iter();
    let routes = routes.map(|Route { event_type, aggregate_type, to }| {
        (event_type.as_str(), aggregate_type.as_str(), to.as_str())
    });
    Routes::read(routes, names)
}
