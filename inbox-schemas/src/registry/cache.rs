//! Schemas by their ids: each is fetched once, however many ask at a time, and kept.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::{Duration, Instant},
};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use outbox_core::CodecError;

use super::{
    client::{Client, limited},
    settings::{RegistrySettings, SettingsError},
};
use crate::{schema::Schema, wire::SchemaName};

/// So long an id that the registry does not know is not asked for again.
const REFUSED_FOR: Duration = Duration::from_secs(30);

/// So many ids that no schema has are kept. Anybody can make them up, and all of a batch have to be there when it is
/// decoded: they are more than the events that a process has at a time, and small.
const REFUSED_MAX: usize = 100_000;

/// So long a schema is young, and kept however many there are: an event that waits for its batch's others needs it still.
const YOUNG_FOR: Duration = Duration::from_mins(1);

/// A schema, or why there is none; since when.
type Known = (Result<Arc<Schema>, CodecError>, Instant);

/// What a registry is asked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Question {
    /// Whether it answers.
    Look,
    /// For the schema of an id.
    Schema(SchemaName),
}

type Flight = Shared<BoxFuture<'static, Result<(), CodecError>>>;

/// The schemas of a registry.
pub(crate) struct Schemas {
    client: Client,
    known: RwLock<Kept>,
    under_way: Mutex<HashMap<Question, Flight>>,
}

struct Kept {
    known: HashMap<SchemaName, Known>,
    /// The ids of schemas, in the order that they came in.
    schemas: VecDeque<SchemaName>,
    /// The ids that have none.
    refused: VecDeque<SchemaName>,
    schemas_max: usize,
    young_for: Duration,
}

impl Schemas {
    pub(crate) fn new(settings: &RegistrySettings) -> Result<Arc<Self>, SettingsError> {
        let kept = Kept {
            known: HashMap::new(),
            schemas: VecDeque::new(),
            refused: VecDeque::new(),
            schemas_max: settings.schemas_max.max(1),
            young_for: YOUNG_FOR,
        };
        Ok(Arc::new(Self {
            client: Client::new(settings)?,
            known: RwLock::new(kept),
            under_way: Mutex::default(),
        }))
    }

    /// Whether the registry answers; with all others that want to know, such as each route at the start.
    pub(crate) fn look(self: &Arc<Self>) -> Flight {
        self.ask(Question::Look)
    }

    /// The schema of an id, which was fetched.
    pub(crate) fn get(&self, id: SchemaName) -> Result<Arc<Schema>, CodecError> {
        let kept = self.known.read().unwrap_or_else(PoisonError::into_inner);
        match kept.known.get(&id) {
            // However old: at an attempt nothing changes.
            Some((known, _)) => known.clone(),
            None => Err(CodecError::Unavailable(format!("the schema {id} is not fetched"))),
        }
    }

    /// Whether an id has to be asked for.
    pub(crate) fn lacks(&self, id: SchemaName) -> bool {
        let kept = self.known.read().unwrap_or_else(PoisonError::into_inner);
        match kept.known.get(&id) {
            Some((Ok(_), _)) => false,
            Some((Err(_), since)) => since.elapsed() > REFUSED_FOR,
            None => true,
        }
    }

    /// Fetches the schema of an id, with all others that ask for it.
    pub(crate) fn fetch(self: &Arc<Self>, id: SchemaName) -> Flight {
        self.ask(Question::Schema(id))
    }

    fn ask(self: &Arc<Self>, question: Question) -> Flight {
        let mut under_way = self.under_way();
        if let Some(flight) = under_way.get(&question) {
            return flight.clone();
        }
        let schemas = Arc::clone(self);
        let flight = async move {
            let _landing = Landing { schemas: &schemas, question };
            match question {
                Question::Look => schemas.client.look().await,
                Question::Schema(id) => schemas.fetch_alone(id).await,
            }
        };
        let flight = flight.boxed().shared();
        under_way.insert(question, flight.clone());
        flight
    }

    async fn fetch_alone(&self, id: SchemaName) -> Result<(), CodecError> {
        let known = match self.client.fetch(id).await {
            Ok(fetched) => Schema::read(&fetched).map(Arc::new).map_err(|why| {
                let why = limited(&why);
                CodecError::Other(format!(
                    "the schema {id} of the payload cannot be used: {why}; fix it, then release \
                     the event"
                ))
            }),
            Err(error) if error.is_outage() => return Err(error),
            Err(error) => Err(error),
        };
        let answer = known.as_ref().map(drop).map_err(Clone::clone);
        let mut kept = self.known.write().unwrap_or_else(PoisonError::into_inner);
        kept.insert(id, (known, Instant::now()));
        answer
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<Question, Flight>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a flight from those that are under way, however it ends: nobody could ask the same again.
struct Landing<'a> {
    schemas: &'a Schemas,
    question: Question,
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        self.schemas.under_way().remove(&self.question);
    }
}

impl Kept {
    fn insert(&mut self, id: SchemaName, known: Known) {
        let (is_refused, now) = (known.0.is_err(), known.1);
        let before = self.known.insert(id, known);
        if before.as_ref().is_some_and(|(before, _)| before.is_err() == is_refused) {
            return;
        }
        let (queue, other) = if is_refused {
            (&mut self.refused, &mut self.schemas)
        } else {
            (&mut self.schemas, &mut self.refused)
        };
        queue.push_back(id);
        if before.is_some() {
            other.retain(|other| *other != id);
        }
        while self.refused.len() > REFUSED_MAX
            && let Some(id) = self.refused.pop_front()
        {
            self.known.remove(&id);
        }
        while self.schemas.len() > self.schemas_max
            && let Some(id) = self.schemas.front()
            && self.known.get(id).is_none_or(|known| now.duration_since(known.1) >= self.young_for)
        {
            self.known.remove(id);
            self.schemas.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetched::{Fetched, Format};

    fn kept(young_for: Duration) -> Kept {
        Kept {
            known: HashMap::new(),
            schemas: VecDeque::new(),
            refused: VecDeque::new(),
            schemas_max: 2,
            young_for,
        }
    }

    fn schema() -> Arc<Schema> {
        let fetched =
            Fetched { format: Format::Json, text: "{}".to_owned(), references: Vec::new() };
        Arc::new(Schema::read(&fetched).unwrap())
    }

    fn refusal() -> Result<Arc<Schema>, CodecError> {
        Err(CodecError::other("unknown"))
    }

    #[test]
    fn the_oldest_schema_goes_where_there_are_too_many_and_none_that_is_young() {
        for (young_for, left) in [(Duration::ZERO, vec![3, 4]), (YOUNG_FOR, vec![1, 2, 3, 4])] {
            let mut kept = kept(young_for);
            for id in 1..=4 {
                kept.insert(SchemaName::Id(id), (Ok(schema()), Instant::now()));
            }
            let mut ids: Vec<SchemaName> = kept.known.into_keys().collect();
            ids.sort_unstable_by_key(ToString::to_string);
            assert_eq!(ids, left.into_iter().map(SchemaName::Id).collect::<Vec<_>>());
        }
    }

    #[test]
    fn ids_without_a_schema_push_out_none_and_are_so_many_at_most() {
        let mut kept = kept(Duration::ZERO);
        kept.insert(SchemaName::Id(1), (Ok(schema()), Instant::now()));
        let made_up = u32::try_from(REFUSED_MAX).unwrap() + 10;
        for id in 0..made_up {
            kept.insert(SchemaName::Id(100 + id), (refusal(), Instant::now()));
        }
        assert_eq!(kept.known.len(), REFUSED_MAX + 1);
        assert!(
            kept.known[&SchemaName::Id(1)].0.is_ok()
                && !kept.known.contains_key(&SchemaName::Id(109))
        );
        // It was registered since.
        kept.insert(SchemaName::Id(110), (Ok(schema()), Instant::now()));
        assert_eq!((kept.schemas.len(), kept.refused.len()), (2, REFUSED_MAX - 1));
    }

    #[test]
    fn an_id_without_a_schema_is_asked_for_again_later() {
        let schemas = Schemas::new(&RegistrySettings::new("http://127.0.0.1:1")).unwrap();
        let insert =
            |since| schemas.known.write().unwrap().insert(SchemaName::Id(7), (refusal(), since));
        insert(Instant::now());
        assert!(!schemas.lacks(SchemaName::Id(7)));
        insert(Instant::now().checked_sub(REFUSED_FOR * 2).unwrap());
        assert!(schemas.lacks(SchemaName::Id(7)));
    }

    #[test]
    fn a_flight_that_ends_by_a_panic_is_under_way_no_more() {
        let schemas = Schemas::new(&RegistrySettings::new("http://127.0.0.1:1")).unwrap();
        let flight: Flight = futures::future::ready(Ok(())).boxed().shared();
        let question = Question::Schema(SchemaName::Id(7));
        schemas.under_way().insert(question, flight);
        drop(Landing { schemas: &schemas, question });
        assert!(schemas.under_way().is_empty());
    }
}
