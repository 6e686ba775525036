//! Handlers in the relay's process, by event type: for mail, a search index, a cache.

use std::{collections::HashMap, error::Error as StdError, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use outbox_core::{CodecError, Decode, Envelope, Json, Payload};

use super::{Delivery, Outcome, Sink};

/// Any error, as `?` boxes it.
type AnyError = Box<dyn StdError + Send + Sync>;

/// Handles the events of one type. The same event may come twice, under the same id: what it does has to bear that.
///
/// It ends when its future is dropped, at an await, at the latest after [`Handlers::deadline`].
pub trait Handler: Send + Sync + 'static {
    /// What a payload is decoded to.
    type Event: Send + Sync + 'static;

    /// Handles one event. A panic counts as [`HandlerError::retry`].
    ///
    /// # Errors
    /// Why it is not handled, and what becomes of it: see [`HandlerError`].
    fn handle(
        &self,
        event: &Event<Self::Event>,
    ) -> impl Future<Output = Result<(), HandlerError>> + Send;
}

/// An event whose payload was decoded.
#[derive(Clone, Debug)]
pub struct Event<T> {
    /// What happened.
    pub payload: T,
    /// The event as it was appended.
    pub envelope: Envelope,
    /// Which attempt it is: 1 for the first.
    pub attempt: u32,
}

/// Why a handler did not handle its event. `?` turns any error into one that is tried again.
#[derive(Debug)]
pub struct HandlerError {
    kind: Kind,
    source: AnyError,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Retry(Option<Duration>),
    Reject,
    Unavailable,
}

/// A destination made of handlers. Events of one type share an outage; events of a type without a handler are refused.
///
/// ```
/// use outbox_relay::destination::{Event, Handler, HandlerError, Handlers};
///
/// struct Greet;
///
/// #[derive(serde::Deserialize)]
/// struct Registered {
///     mail: String,
/// }
///
/// impl Handler for Greet {
///     type Event = Registered;
///
///     async fn handle(&self, event: &Event<Registered>) -> Result<(), HandlerError> {
///         if !event.payload.mail.contains('@') {
///             return Err(HandlerError::reject("that is no address"));
///         }
///         println!("to {}: welcome", event.payload.mail);
///         Ok(())
///     }
/// }
///
/// let handlers = Handlers::default().on("Registered", Greet);
/// // Relay::builder(config).destination("mail", handlers)
/// ```
pub struct Handlers {
    routes: HashMap<String, Arc<dyn Route>>,
    calls_max: usize,
    deadline: Duration,
}

/// A handler with its codec.
#[async_trait]
trait Route: Send + Sync {
    async fn deliver(&self, delivery: &Delivery) -> Outcome;

    /// Has its codec get ready.
    async fn start(&self) -> Result<(), CodecError>;
}

struct Decoding<H, C>(H, C);

impl Default for Handlers {
    fn default() -> Self {
        Self { routes: HashMap::new(), calls_max: 16, deadline: Duration::from_secs(30) }
    }
}

impl Handlers {
    /// Adds a handler of one event type, whose payloads are JSON. The last one of a type counts.
    #[must_use]
    pub fn on<H>(self, event_type: impl Into<String>, handler: H) -> Self
    where
        H: Handler,
        Json: Decode<H::Event>,
    {
        self.on_with(event_type, Json, handler)
    }

    /// The same with another codec.
    #[must_use]
    pub fn on_with<H, C>(mut self, event_type: impl Into<String>, codec: C, handler: H) -> Self
    where
        H: Handler,
        C: Decode<H::Event>,
    {
        self.routes.insert(event_type.into(), Arc::new(Decoding(handler, codec)));
        self
    }

    /// Most handlers that run at once, each for an event of another aggregate; 16 unless said otherwise.
    #[must_use]
    pub fn calls_max(mut self, most: usize) -> Self {
        self.calls_max = most;
        self
    }

    /// The longest a handler may take; 30 s unless said otherwise. Then it has failed.
    #[must_use]
    pub fn deadline(mut self, longest: Duration) -> Self {
        self.deadline = longest;
        self
    }
}

#[async_trait]
impl Sink for Handlers {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(batch.len());
        for delivery in batch {
            let event_type = &*delivery.event.envelope().event_type;
            outcomes.push(match self.routes.get(event_type) {
                Some(route) => route.deliver(delivery).await,
                None => Outcome::refused(format!(
                    "no handler is registered for events of type {event_type}; register one, or \
                     route them elsewhere"
                )),
            });
        }
        outcomes
    }

    fn calls_max(&self) -> usize {
        self.calls_max
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }

    fn scope(&self, delivery: &Delivery) -> String {
        delivery.event.envelope().event_type.to_string()
    }

    async fn check(&self) -> Result<(), String> {
        if self.routes.is_empty() {
            return Err("no handler is registered; add one with `Handlers::on`".into());
        }
        // Beside each other, or one that is slow would hide what is wrong with the next. What is not there yet, deliveries
        // wait for.
        let starts = self.routes.iter().map(|(event_type, route)| async move {
            match tokio::time::timeout(self.deadline, route.start()).await {
                Ok(Err(error)) if !error.is_outage() => {
                    Err(format!("the codec of {event_type} cannot start: {error}"))
                }
                _ => Ok(()),
            }
        });
        futures::future::try_join_all(starts).await.map(drop)
    }
}

#[async_trait]
impl<H: Handler, C: Decode<H::Event>> Route for Decoding<H, C> {
    async fn deliver(&self, delivery: &Delivery) -> Outcome {
        let Self(handler, codec) = self;
        let envelope = delivery.event.envelope();
        let topic = delivery.topic.as_deref().unwrap_or_default();
        let payload = Payload::of(envelope, delivery.event.headers(), topic);
        // What it says besides, `decode` says again.
        if let Some(preparation) = codec.prepare(&payload)
            && let Err(CodecError::Unavailable(error)) = preparation.await
        {
            return Outcome::unavailable(error);
        }
        let payload = match codec.decode(&payload) {
            Ok(payload) => payload,
            Err(CodecError::Unavailable(error)) => return Outcome::unavailable(error),
            Err(error) => {
                return Outcome::refused(format!(
                    "{error}; fix its producer, or the handler's type"
                ));
            }
        };
        let event = Event { payload, envelope: envelope.clone(), attempt: delivery.attempt };
        match handler.handle(&event).await {
            Ok(()) => Outcome::Delivered,
            Err(error) => error.outcome(),
        }
    }

    async fn start(&self) -> Result<(), CodecError> {
        self.1.start().await
    }
}

impl HandlerError {
    /// Try again, with pauses that grow; after the last attempt the row is set aside.
    pub fn retry(error: impl Into<AnyError>) -> Self {
        Self { kind: Kind::Retry(None), source: error.into() }
    }

    /// Try again, not before this time has passed.
    pub fn retry_after(error: impl Into<AnyError>, after: Duration) -> Self {
        Self { kind: Kind::Retry(Some(after)), source: error.into() }
    }

    /// Set the row aside at once: no repetition can help.
    pub fn reject(error: impl Into<AnyError>) -> Self {
        Self { kind: Kind::Reject, source: error.into() }
    }

    /// What the handler needs is not there, for no event: no attempt is spent, and events of this type wait until a
    /// probe is handled.
    pub fn unavailable(error: impl Into<AnyError>) -> Self {
        Self { kind: Kind::Unavailable, source: error.into() }
    }

    fn outcome(self) -> Outcome {
        let error = self.to_string();
        match self.kind {
            Kind::Retry(after) => Outcome::Retry { error, after },
            Kind::Reject => Outcome::Refused { error },
            Kind::Unavailable => Outcome::Unavailable { error, after: None },
        }
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self::retry(error)
    }
}

/// The error and its causes. A cause that the text before it tells already is left out.
impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.source.to_string();
        let mut cause = self.source.source();
        while let Some(error) = cause {
            let more = error.to_string();
            if !text.contains(&more) {
                text.push_str(": ");
                text.push_str(&more);
            }
            cause = error.source();
        }
        f.write_str(&text)
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types: Vec<&String> = self.routes.keys().collect();
        f.debug_struct("Handlers").field("event_types", &types).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use outbox_core::{Aggregate, OutboxEvent, Preparation};

    use super::*;

    struct Checks;

    impl Handler for Checks {
        type Event = u32;

        async fn handle(&self, event: &Event<u32>) -> Result<(), HandlerError> {
            match event.payload {
                0 => Ok(()),
                1 => Err(HandlerError::reject("one")),
                2 => Err(HandlerError::unavailable("two")),
                3 => Err(HandlerError::retry_after("three", Duration::from_secs(3))),
                _ => {
                    let _: u8 = "x".parse()?;
                    Ok(())
                }
            }
        }
    }

    fn delivery(event_type: &str, payload: &impl serde::Serialize) -> Delivery {
        let aggregate = Aggregate::new("Order", "1").unwrap();
        let event = OutboxEvent::new(event_type, &aggregate, payload).unwrap();
        Delivery { event, topic: None, attempt: 1 }
    }

    #[tokio::test]
    async fn what_a_handler_answers_becomes_an_outcome() {
        let handlers = Handlers::default().on("Paid", Checks);
        let three = Outcome::Retry { error: "three".into(), after: Some(Duration::from_secs(3)) };
        let expected = [
            Outcome::Delivered,
            Outcome::refused("one"),
            Outcome::unavailable("two"),
            three,
            Outcome::retry("invalid digit found in string"),
        ];
        for (payload, expected) in expected.into_iter().enumerate() {
            let outcomes = handlers.deliver(&[delivery("Paid", &payload)]).await;
            assert_eq!(outcomes, [expected]);
        }
    }

    #[tokio::test]
    async fn what_no_handler_takes_is_refused() {
        let handlers = Handlers::default().on("Paid", Checks);
        for (delivery, word) in [
            (delivery("Sent", &1), "no handler is registered for events of type Sent"),
            (delivery("Paid", &"text"), "does not fit the event's type"),
        ] {
            let outcomes = handlers.deliver(&[delivery]).await;
            let [Outcome::Refused { error }] = &outcomes[..] else { panic!("{outcomes:?}") };
            assert!(error.contains(word), "{error}");
        }
        assert!(handlers.check().await.is_ok() && Handlers::default().check().await.is_err());
    }

    struct Starts(Option<CodecError>);

    impl Decode<u32> for Starts {
        fn decode(&self, _payload: &Payload<'_>) -> Result<u32, CodecError> {
            Ok(0)
        }

        fn start(&self) -> Preparation<'_> {
            Box::pin(std::future::ready(self.0.clone().map_or(Ok(()), Err)))
        }
    }

    #[tokio::test]
    async fn a_codec_that_does_not_start_is_told_and_an_outage_is_waited_for() {
        let away = CodecError::Unavailable("away".into());
        let wrong = CodecError::other("no key");
        let expected = "the codec of Paid cannot start: no key";
        for (said, expected) in
            [(None, Ok(())), (Some(away), Ok(())), (Some(wrong), Err(expected.to_owned()))]
        {
            let handlers = Handlers::default().on_with("Paid", Starts(said), Checks);
            assert_eq!(handlers.check().await, expected);
        }
    }
}
