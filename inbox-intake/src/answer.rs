//! What a sender is told of each event, and of its request.

use std::time::Duration;

use axum::{
    body::Body,
    http::{HeaderValue, Response, StatusCode, header},
};
use inbox_runtime::internal::Settlement;
use serde::Serialize;

/// Why an event is to be sent again of which nobody knows what became of it.
pub(crate) const UNKNOWN: &str =
    "the outcome of the commit is unknown; the answer to the next attempt reports it";

/// What became of one event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// Something that is committed, or refused for good.
    Settled(Settlement),
    /// Nothing is written, or nobody knows: sending it again after so long helps.
    Again { error: &'static str, after: Duration },
}

impl Answer {
    pub(crate) fn again(error: &'static str, seconds: u64) -> Self {
        Self::Again { error, after: Duration::from_secs(seconds) }
    }

    /// How it counts for its request, where the highest tells.
    fn status(&self) -> StatusCode {
        match self {
            Self::Settled(Settlement::Parked { .. } | Settlement::ParkedCopy) => {
                StatusCode::ACCEPTED
            }
            Self::Settled(Settlement::Mismatch(_)) => StatusCode::CONFLICT,
            Self::Settled(_) => StatusCode::OK,
            Self::Again { .. } => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// An event in the body of an answer.
#[derive(Serialize)]
struct Told<'a> {
    event_id: &'a str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

/// The body of an answer to a list.
#[derive(Serialize)]
struct ToldList<'a> {
    events: &'a [Told<'a>],
}

impl<'a> Told<'a> {
    fn of(event_id: &'a str, answer: &'a Answer) -> Self {
        let (status, reason) = match answer {
            Answer::Settled(Settlement::Applied) => ("applied", None),
            Answer::Settled(Settlement::Copy) => ("copy", None),
            Answer::Settled(Settlement::Stale) => ("stale", None),
            Answer::Settled(Settlement::ParkedCopy) => ("parked", Some("copy")),
            Answer::Settled(Settlement::Parked { reason, .. }) => ("parked", Some(*reason)),
            Answer::Settled(Settlement::Ignored) => ("ignored", None),
            Answer::Settled(Settlement::DeadLettered) => ("dead_lettered", None),
            Answer::Settled(Settlement::Mismatch(_)) => {
                let reason = "another event with this id was accepted before, with different \
                              type, aggregate or payload";
                ("mismatch", Some(reason))
            }
            Answer::Again { error, .. } => ("again", Some(*error)),
        };
        Self { event_id, status, reason }
    }
}

/// The answer to a request whose events were tried.
pub(crate) fn of_events(ids: &[String], answers: &[Answer], is_list: bool) -> Response<Body> {
    let status = answers.iter().map(Answer::status).max().unwrap_or(StatusCode::OK);
    let after = answers.iter().filter_map(|answer| match answer {
        Answer::Again { after, .. } => Some(*after),
        Answer::Settled(_) => None,
    });
    let told: Vec<Told<'_>> =
        ids.iter().zip(answers).map(|(id, answer)| Told::of(id, answer)).collect();
    let body = match told.as_slice() {
        [one] if !is_list => serde_json::to_vec(one),
        events => serde_json::to_vec(&ToldList { events }),
    };
    json(status, body.unwrap_or_default(), after.max())
}

/// The answer to a request that holds nothing that was tried.
pub(crate) fn refusal(
    status: StatusCode,
    error: &str,
    at: Option<usize>,
    after: Option<Duration>,
) -> Response<Body> {
    let body = match at {
        Some(at) => serde_json::json!({ "error": error, "event": at }),
        None => serde_json::json!({ "error": error }),
    };
    json(status, body.to_string().into_bytes(), after)
}

fn json(status: StatusCode, body: Vec<u8>, after: Option<Duration>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(after) = after {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(answers: &[Answer]) -> (u16, Option<String>) {
        let ids: Vec<String> = answers.iter().map(|_| "id".into()).collect();
        let response = of_events(&ids, answers, true);
        let after = response.headers().get(header::RETRY_AFTER);
        (response.status().as_u16(), after.map(|after| after.to_str().unwrap().to_owned()))
    }

    #[test]
    fn a_request_is_answered_by_its_worst_event() {
        let settled = Answer::Settled;
        let parked = || settled(Settlement::Parked { reason: "rejected", error: String::new() });
        assert_eq!(of(&[]), (200, None));
        assert_eq!(of(&[settled(Settlement::Copy), settled(Settlement::Applied)]), (200, None));
        assert_eq!(of(&[settled(Settlement::Applied), parked()]), (202, None));
        assert_eq!(of(&[parked(), settled(Settlement::Mismatch(String::new()))]), (409, None));
        let again = [settled(Settlement::Mismatch(String::new())), Answer::again("out", 7)];
        assert_eq!(of(&again), (503, Some("7".into())));
    }
}
