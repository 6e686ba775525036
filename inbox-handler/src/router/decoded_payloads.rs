//! Payloads decoded before their turn, while the database is busy with the transaction's beginning.
//!
//! Only those of handlers that take whole runs: they decode all of a run before the first call. A handler
//! that takes events one by one decodes between its statements, and nothing of an event behind one that fails.

use std::{any::Any, fmt};

use inbox_store::internal::port::Sessions;

use super::{RunEvent, attempt::DecodeFault, table::RouteTable};
use crate::Event;

/// After so many events others have their turn: what the database answered is looked at.
const AT_ONCE: usize = 32;

/// What one route has decoded, by the places of the events in their batch.
pub(super) type Decoded<T> = Vec<Option<Result<Event<T>, DecodeFault>>>;

/// What the routes of a batch have decoded: each a `Decoded` of its own type.
#[derive(Default)]
pub struct DecodedPayloads(Vec<(u32, Box<dyn Any + Send>)>);

/// What was decoded of the events of a run.
pub struct DecodedRun<'a> {
    decoded: Option<&'a mut (dyn Any + Send)>,
    places: &'a [usize],
}

impl fmt::Debug for DecodedPayloads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(route, _)| route)).finish()
    }
}

impl fmt::Debug for DecodedRun<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AheadOfRun").field("places", &self.places).finish_non_exhaustive()
    }
}

impl DecodedPayloads {
    /// Decodes for the routes that take whole runs. `events`: their places in the batch, and their routes.
    pub async fn decode<'a, DB: Sessions>(
        table: &RouteTable<DB>,
        events: impl Iterator<Item = (usize, u32, RunEvent<'a>)>,
    ) -> Self {
        let mut payloads = Self::default();
        let mut count = 0;
        for (place, number, event) in events {
            let route = table.route(number);
            let known = payloads.0.iter().position(|(known, _)| *known == number);
            let at = known.or_else(|| {
                payloads.0.push((number, route.payload_buffer()?));
                Some(payloads.0.len() - 1)
            });
            let Some((_, decoded)) = at.and_then(|at| payloads.0.get_mut(at)) else { continue };
            route.decode(place, event, &mut **decoded);
            count += 1;
            if count % AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
        }
        payloads
    }

    /// What was decoded of the events at `places` for a route.
    pub fn run<'a>(&'a mut self, number: u32, places: &'a [usize]) -> DecodedRun<'a> {
        let decoded = self.0.iter_mut().find(|(known, _)| *known == number);
        DecodedRun { decoded: decoded.map(|(_, decoded)| &mut **decoded), places }
    }
}

impl DecodedRun<'_> {
    /// Nothing was decoded.
    pub fn none() -> Self {
        Self { decoded: None, places: &[] }
    }

    /// What was decoded of the run's event at `at`; `None` when it was not, or was taken.
    pub(super) fn take<T: 'static>(&mut self, at: usize) -> Option<Result<Event<T>, DecodeFault>> {
        let decoded = self.decoded.as_deref_mut()?.downcast_mut::<Decoded<T>>()?;
        decoded.get_mut(*self.places.get(at)?)?.take()
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    #![expect(clippy::unwrap_used, reason = "what cannot fail here ends the test")]

    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering::Relaxed},
        },
        time::Duration,
    };

    use outbox_core::{CodecError, Decode, Json, Payload};
    use sqlx::{Connection as _, Sqlite, SqliteConnection};

    use super::{super::run_tests::delivery, AT_ONCE, DecodedPayloads, DecodedRun};
    use crate::{
        BatchHandler, Delivery, Event, HandlerResult, Routes, Tx,
        router::{RouteTable, RunEnd, RunEvent},
    };

    /// JSON, and how often it was decoded.
    #[derive(Clone, Default)]
    struct Counted(Arc<AtomicUsize>);

    impl Decode<i64> for Counted {
        fn decode(&self, payload: &Payload<'_>) -> Result<i64, CodecError> {
            self.0.fetch_add(1, Relaxed);
            Json.decode(payload)
        }
    }

    /// Looks whether each payload is at its event.
    struct Looks;

    impl BatchHandler<Sqlite> for Looks {
        type Event = i64;

        async fn handle(&self, events: &[Event<i64>], _: &mut Tx<'_, Sqlite>) -> HandlerResult {
            assert!(events.iter().all(|event| event.offset() == event.payload));
            Ok(())
        }
    }

    fn table(codec: &Counted) -> RouteTable<Sqlite> {
        Routes::default().on_batch_with("type", codec.clone(), Looks).freeze().unwrap()
    }

    /// Payloads that say their offsets; one of them says nothing.
    fn deliveries(wrong: Option<i64>) -> Vec<Arc<Delivery>> {
        let payload = |at: i64| if wrong == Some(at) { "\"?\"".to_owned() } else { at.to_string() };
        (0..100).map(|at| delivery(Some(&payload(at)), at)).collect()
    }

    fn events(of: &[Arc<Delivery>]) -> impl Iterator<Item = (usize, u32, RunEvent<'_>)> {
        let event = |delivery| RunEvent { delivery, attempt: 1 };
        of.iter().enumerate().map(move |(place, delivery)| (place, 0, event(delivery)))
    }

    async fn run(
        table: &RouteTable<Sqlite>,
        of: &[Arc<Delivery>],
        places: &[usize],
        payloads: DecodedRun<'_>,
    ) -> RunEnd {
        let mut conn = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        let run: Vec<_> =
            places.iter().map(|&at| RunEvent { delivery: &of[at], attempt: 1 }).collect();
        let deadline = Duration::from_secs(5);
        table.run(0, &run, payloads, &mut Tx::new(&mut conn, 0), deadline).await
    }

    #[tokio::test]
    async fn nothing_is_decoded_twice_whatever_a_run_leaves_out() {
        let codec = Counted::default();
        let (table, deliveries) = (table(&codec), deliveries(None));
        let mut payloads = DecodedPayloads::decode(&table, events(&deliveries)).await;
        for places in [[3, 50, 99], [0, 1, 2]] {
            let decoded = payloads.run(0, &places);
            assert_eq!(run(&table, &deliveries, &places, decoded).await, RunEnd::Done);
        }
        assert_eq!(codec.0.load(Relaxed), deliveries.len());
        // What a run has taken is decoded once more for the next one.
        let again = run(&table, &deliveries, &[3], payloads.run(0, &[3])).await;
        assert_eq!((again, codec.0.load(Relaxed)), (RunEnd::Done, deliveries.len() + 1));
    }

    #[tokio::test]
    async fn what_cannot_be_decoded_is_told_at_its_place_in_the_run() {
        let codec = Counted::default();
        let (table, deliveries) = (table(&codec), deliveries(Some(50)));
        let mut payloads = DecodedPayloads::decode(&table, events(&deliveries)).await;
        let places = [3, 50, 99];
        let end = run(&table, &deliveries, &places, payloads.run(0, &places)).await;
        let RunEnd::Undecodable { at: 1, ran: 0, error } = end else { panic!("{end:?}") };
        assert!(!error.contains('?'), "the payload is redacted: {error}");
    }

    /// While it decodes, the database's answer is looked at.
    #[tokio::test]
    async fn others_have_their_turn() {
        let codec = Counted::default();
        let (table, deliveries) = (table(&codec), deliveries(None));
        let mut payloads = std::pin::pin!(DecodedPayloads::decode(&table, events(&deliveries)));
        assert!(futures::poll!(payloads.as_mut()).is_pending());
        assert_eq!(codec.0.load(Relaxed), AT_ONCE);
        payloads.await;
        assert_eq!(codec.0.load(Relaxed), deliveries.len());
    }
}
