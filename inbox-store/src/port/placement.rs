//! Which lane a record goes to, and what its aggregate is: known without decoding it.

use std::sync::Arc;

use inbox_engine::internal::{Lane, Offset, Rule};
use outbox_core::{ReadRules, Record, Sources};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128, xxh3_128_with_seed};

use super::release::DueQueue;
use crate::record_text::record;

/// The version of the lane hash. It is part of the lane rule that the database keeps: another hash
/// would change which lane an aggregate has, and so what `last_offset` means (finding 3). Anybody finds keys that
/// share a lane or a queue under it, and gains no more than by one key: a hot lane, and followers of what is parked
/// in their own topic.
const LANE_HASH: &str = "xxh3-64/1";

/// The same of aggregate keys: the order key alone, or behind the aggregate's type. Parked rows hold them.
const KEY_HASH: &str = "xxh3-128/1";
const TYPED_KEY_HASH: &str = "xxh3-128/2";

/// The rules that lanes and aggregates are found by, as the database keeps them.
///
/// An aggregate is type and id, its lane is that of the id alone: so what a record's key says of its lane
/// holds whatever the types are, and one aggregate is in one lane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    lane_rule: String,
    key_rule: String,
    /// Where the order key is.
    order: Sources,
    /// Where the aggregate's type is, if records differ in it and it is known without the payload.
    types: Option<Sources>,
}

impl Placement {
    /// As a reader's rules say.
    pub fn of(rules: &ReadRules) -> Self {
        Self::by(rules.aggregate_id.clone(), Some(rules.aggregate_type.clone()))
    }

    fn by(order: Sources, types: Option<Sources>) -> Self {
        let lane_rule = format!("{LANE_HASH}:{order}");
        let inside = |places: &Sources| places.pointers().next().is_some();
        // A partition whose aggregates are inside of payloads is one sequence, whatever their types are.
        let differ = |types: &Sources| types.varies() && !inside(types) && !inside(&order);
        let types = types.filter(|types| differ(types) && Rule::AggregateHasType.on());
        let key_rule = match &types {
            Some(types) => format!("{TYPED_KEY_HASH}:{types}/{order}"),
            None => format!("{KEY_HASH}:{order}"),
        };
        Self { lane_rule, key_rule, order, types }
    }

    /// The one whose lanes are by a rule that the database holds; `None` when this build cannot follow it.
    pub(crate) fn with_lane_rule(&self, lane_rule: &str) -> Option<Self> {
        let order = lane_rule.strip_prefix(LANE_HASH)?.strip_prefix(':')?;
        Some(Self::by(order.parse().ok()?, self.types.clone()))
    }

    /// The hash of lanes, its version, and where the order key comes from.
    pub fn lane_rule(&self) -> &str {
        &self.lane_rule
    }

    /// The same of the keys of aggregates.
    pub fn key_rule(&self) -> &str {
        &self.key_rule
    }

    /// Whether the order of a record is that of a key: neither alone nor one with its whole partition.
    pub fn has_key(&self, topic: &str, record: &Record) -> bool {
        self.order.outside_payload(topic, record).is_some_and(|key| !key.is_empty())
    }

    /// The lane and the key of the aggregate. Both come from what needs no decoding, so an unreadable
    /// record has its place, too, and what follows it is held.
    /// A record without a key asks for no order: it is an aggregate of its own, named by its offset.
    pub fn place(
        &self,
        topic: &str,
        offset: i64,
        record: &Record,
        lane_count: u16,
    ) -> (Lane, [u8; 16]) {
        let alone = offset.to_be_bytes();
        let key = match self.order.outside_payload(topic, record) {
            Some([]) if record.key.is_none() => &alone,
            key => key.unwrap_or_default(),
        };
        let lane = xxh3_64(key) % u64::from(lane_count.max(1));
        (Lane(u16::try_from(lane).unwrap_or_default()), self.aggregate(topic, record, key))
    }

    fn aggregate(&self, topic: &str, record: &Record, key: &[u8]) -> [u8; 16] {
        let Some(types) = &self.types else { return xxh3_128(key).to_be_bytes() };
        let aggregate_type = types.outside_payload(topic, record).unwrap_or_default();
        xxh3_128_with_seed(key, xxh3_64(aggregate_type)).to_be_bytes()
    }
}

/// The lanes of a partition: how many they are, and what is in which.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lanes {
    /// How many.
    pub count: u16,
    /// By which rules.
    pub placement: Arc<Placement>,
}

impl Lanes {
    /// The lane and the key of the aggregate of a record.
    pub fn place(&self, topic: &str, offset: Offset, record: &Record) -> (Lane, [u8; 16]) {
        self.placement.place(topic, offset.0, record, self.count)
    }

    /// The key of a parked row's aggregate; `None` when the row holds no record.
    pub(crate) fn parked_key(&self, topic: &str, offset: i64, text: &str) -> Option<[u8; 16]> {
        Some(self.place(topic, Offset(offset), &record(text)?).1)
    }

    /// The lane of a parked queue. A remap may have given its aggregate another one than was written with
    /// it; then its record is there to find it.
    pub fn of_queue(&self, topic: &str, queue: &DueQueue) -> Lane {
        let record = queue.record.as_deref().and_then(record);
        record.map_or(queue.lane, |record| self.place(topic, queue.offset, &record).0)
    }
}

#[cfg(test)]
mod tests {
    use outbox_core::Source;

    use super::*;

    fn rules(order: &str, types: &str) -> Placement {
        Placement::by(order.parse().unwrap(), Some(types.parse().unwrap()))
    }

    fn record(headers: &[(&str, &str)]) -> Record {
        let header = |(name, value): &(&str, &str)| outbox_core::Header {
            name: (*name).into(),
            value: Some(value.as_bytes().to_vec().into()),
        };
        Record {
            key: Some("7".into()),
            headers: headers.iter().map(header).collect(),
            ..Record::default()
        }
    }

    /// What the database holds: another text or another value is a remap, or new keys, for every user.
    #[test]
    fn rules_and_keys_stay_as_they_are() {
        let own = Placement::of(&ReadRules::own());
        assert_eq!(own.lane_rule(), "xxh3-64/1:header:aggregate_id|key");
        let key_rule = "xxh3-128/2:header:aggregate_type|topic/header:aggregate_id|key";
        assert_eq!(own.key_rule(), key_rule);
        let simple = Placement::of(&ReadRules::new(Source::Key, Source::Topic));
        assert_eq!((simple.lane_rule(), simple.key_rule()), ("xxh3-64/1:key", "xxh3-128/1:key"));
    }

    /// Golden values, of the hash's reference implementation.
    #[test]
    fn a_place_stays_what_it_is() {
        let typed = record(&[("aggregate_type", "Order")]);
        for (rules, golden) in [
            (ReadRules::own(), "5054ab7b861126c975a828b3687ac275"),
            (ReadRules::new(Source::Key, Source::Topic), "dbd6a1e71414294c06eed105b82285fa"),
        ] {
            let (lane, key) = Placement::of(&rules).place("t", 3, &typed, 16);
            let key = format!("{:032x}", u128::from_be_bytes(key));
            assert_eq!((lane, key.as_str()), (Lane(10), golden));
        }
    }

    #[test]
    fn types_part_aggregates_and_not_lanes() {
        let by_type = rules("key", "header:type|topic");
        let (order, customer) = (record(&[("type", "Order")]), record(&[("type", "Customer")]));
        let place = |record: &Record| by_type.place("t", 3, record, 16);
        assert_eq!(place(&order).0, place(&customer).0);
        assert_ne!(place(&order).1, place(&customer).1);
        assert_eq!(place(&record(&[])), place(&record(&[("type", "t")])), "the topic's name");
        let alone = Record { key: None, ..order.clone() };
        assert_ne!(by_type.place("t", 1, &alone, 16).1, by_type.place("t", 2, &alone, 16).1);
        for without in [
            rules("key", "topic"),
            rules("key", "pointer:/type"),
            rules("pointer:/id", "header:type"),
        ] {
            assert!(without.key_rule().starts_with(KEY_HASH), "{without:?}");
            assert_eq!(without.place("t", 3, &order, 16), without.place("t", 3, &customer, 16));
        }
    }

    #[test]
    fn a_stored_rule_is_followed_or_refused() {
        let wanted = rules("header:tenant", "header:type");
        for order in
            ["key", "key:hex", "topic", "header:a|header:b|key", "pointer:/a|b", "value:all"]
        {
            let stored = rules(order, "header:type");
            assert_eq!(wanted.with_lane_rule(stored.lane_rule()), Some(stored), "{order}");
        }
        for unknown in
            ["", "xxh3-64/2:key", "xxh3-64/1", "xxh3-64/1:", "xxh3-64/1:value:a|key", "xxh3-64/1:x"]
        {
            assert_eq!(wanted.with_lane_rule(unknown), None, "{unknown}");
        }
    }
}
