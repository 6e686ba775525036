//! What the soak sends: every event is known from two numbers, so the checker needs no ledger.

use uuid::Uuid;

/// How many events over how many aggregates.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Aggregates.
    pub aggregates: u64,
    /// Events of each aggregate, numbered from 1.
    pub per_aggregate: u64,
    /// One event in so many is sent a second time, some time later.
    pub copy_every: u64,
    /// Makes ids differ between runs.
    pub seed: u64,
}

/// One record to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Planned {
    /// The aggregate.
    pub aggregate: u64,
    /// The event's number in its aggregate, from 1.
    pub n: u64,
    /// The event's id.
    pub id: Uuid,
}

impl Plan {
    /// At least `events` distinct events over 50,000 aggregates (fewer for small runs), 5 % sent twice.
    pub fn of(events: u64, seed: u64) -> Self {
        let aggregates = 50_000.min((events / 4).max(1));
        Self { aggregates, per_aggregate: events.div_ceil(aggregates), copy_every: 20, seed }
    }

    /// Distinct events.
    pub fn events(&self) -> u64 {
        self.aggregates * self.per_aggregate
    }

    /// The event at a place of the plan; places go round over the aggregates.
    pub fn event(&self, place: u64) -> Planned {
        let (n, aggregate) = (place / self.aggregates + 1, place % self.aggregates);
        let id = Uuid::from_u64_pair(self.seed ^ 0x5EED_50AC, place);
        Planned { aggregate, n, id }
    }

    /// Every record in the order to send it: an event, and now and then a copy of one sent before:
    /// right away, a little later, or a whole round of the aggregates later.
    pub fn records(&self) -> impl Iterator<Item = Planned> + '_ {
        (0..self.events()).flat_map(move |place| {
            let copied = place % self.copy_every == 0;
            let back =
                [0, 97, 1_000, self.aggregates][usize::try_from(place / 20 % 4).unwrap_or(0)];
            let copy = copied.then(|| self.event(place.saturating_sub(back)));
            std::iter::once(self.event(place)).chain(copy)
        })
    }
}
