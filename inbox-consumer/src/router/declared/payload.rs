//! Values out of a JSON payload, as the raw text behind each pointer, in one pass.
//!
//! Only the objects on the way to a pointer are looked into. A key that occurs twice counts as its last
//! occurrence.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::column::{Column, Source};

/// Which columns are behind which steps.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// Columns whose pointer ends here.
    here: Vec<usize>,
    below: Vec<(String, Self)>,
}

impl Wanted {
    /// What the columns that come from the payload want of it.
    pub(super) fn of(columns: &[Column]) -> Self {
        let mut all = Self::default();
        for (at, column) in columns.iter().enumerate() {
            if let Source::Payload { steps, .. } = &column.source {
                steps.iter().fold(&mut all, |wanted, step| wanted.child(step)).here.push(at);
            }
        }
        all
    }

    fn child(&mut self, step: &str) -> &mut Self {
        let at = match self.below.iter().position(|(name, _)| name == step) {
            Some(at) => at,
            None => {
                self.below.push((step.to_owned(), Self::default()));
                self.below.len() - 1
            }
        };
        &mut self.below[at].1
    }

    /// Nothing comes from the payload, so it need not be JSON.
    pub(super) fn is_nothing(&self) -> bool {
        self.here.is_empty() && self.below.is_empty()
    }

    /// Takes the values out of a payload; `found` has a place for each column.
    pub(super) fn take<'p>(
        &self,
        payload: &'p [u8],
        found: &mut [Option<&'p str>],
    ) -> Result<(), serde_json::Error> {
        if self.here.is_empty() {
            let mut json = serde_json::Deserializer::from_slice(payload);
            Walk { wanted: self, found }.deserialize(&mut json)?;
            return json.end();
        }
        let whole: &RawValue = serde_json::from_slice(payload)?;
        self.settle(whole.get(), found)
    }

    /// A value was found.
    fn settle<'p>(
        &self,
        raw: &'p str,
        found: &mut [Option<&'p str>],
    ) -> Result<(), serde_json::Error> {
        self.forget(found);
        for at in &self.here {
            found[*at] = Some(raw);
        }
        if self.below.is_empty() {
            return Ok(());
        }
        Walk { wanted: self, found }.deserialize(&mut serde_json::Deserializer::from_str(raw))
    }

    /// What an earlier value under the same key had does not count.
    fn forget(&self, found: &mut [Option<&str>]) {
        self.here.iter().for_each(|at| found[*at] = None);
        self.below.iter().for_each(|(_, below)| below.forget(found));
    }
}

/// A value on the way to those that are wanted.
struct Walk<'w, 'f, 'p> {
    wanted: &'w Wanted,
    found: &'f mut [Option<&'p str>],
}

impl<'p> DeserializeSeed<'p> for Walk<'_, '_, 'p> {
    type Value = ();

    fn deserialize<D: Deserializer<'p>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'p> Visitor<'p> for Walk<'_, '_, 'p> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'p>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(below) = map.next_key_seed(Key(self.wanted))? {
            match below {
                None => _ = map.next_value::<IgnoredAny>()?,
                Some(wanted) => {
                    let raw: &'p RawValue = map.next_value()?;
                    wanted.settle(raw.get(), self.found).map_err(serde::de::Error::custom)?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'p>>(self, mut list: A) -> Result<(), A::Error> {
        // "01" is no index.
        let index = |name: &String| name.parse().ok().filter(|at: &usize| at.to_string() == *name);
        let below = self.wanted.below.iter();
        let below: Vec<(usize, &Wanted)> =
            below.filter_map(|(name, below)| Some((index(name)?, below))).collect();
        for at in 0.. {
            let more = match below.iter().find(|(wanted, _)| *wanted == at) {
                None => list.next_element::<IgnoredAny>()?.is_some(),
                Some((_, wanted)) => match list.next_element::<&'p RawValue>()? {
                    None => false,
                    Some(raw) => {
                        wanted.settle(raw.get(), self.found).map_err(serde::de::Error::custom)?;
                        true
                    }
                },
            };
            if !more {
                break;
            }
        }
        Ok(())
    }

    // Scalars lead nowhere: what is wanted below them is missing.

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// A key of an object: what is wanted below it.
struct Key<'w>(&'w Wanted);

impl<'p, 'w> DeserializeSeed<'p> for Key<'w> {
    type Value = Option<&'w Wanted>;

    fn deserialize<D: Deserializer<'p>>(self, key: D) -> Result<Self::Value, D::Error> {
        key.deserialize_str(self)
    }
}

impl<'w> Visitor<'_> for Key<'w> {
    type Value = Option<&'w Wanted>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.below.iter().find(|(name, _)| name == key).map(|(_, below)| below))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::column, *};

    /// What is found behind pointers, in their order.
    fn found<'p>(pointers: &[&str], payload: &'p str) -> Result<Vec<Option<&'p str>>, String> {
        let columns: Vec<Column> = pointers
            .iter()
            .map(|pointer| {
                let text = format!("jsonb from {pointer}");
                column::read([(&"c".to_owned(), &text)]).unwrap().remove(0)
            })
            .collect();
        let mut found = vec![None; columns.len()];
        let taken = Wanted::of(&columns).take(payload.as_bytes(), &mut found);
        taken.map(|()| found).map_err(|error| error.to_string())
    }

    #[test]
    fn raw_texts_are_behind_their_pointers() {
        let payload = r#"{"a": 1.50, "b": {"c": "x\n", "d": [true, {"e": null}]}, "f": {}}"#;
        let all = found(&["/a", "/b/c", "/b/d/0", "/b/d/1/e", "/b/d", "/g", "/a/x"], payload);
        let expected = [
            Some("1.50"),
            Some(r#""x\n""#),
            Some("true"),
            Some("null"),
            Some(r#"[true, {"e": null}]"#),
            None,
            None,
        ];
        assert_eq!(all.unwrap(), expected);
        assert_eq!(
            found(&["payload", "/a"], r#" {"a":1} "#).unwrap(),
            [Some(r#"{"a":1}"#), Some("1")]
        );
        assert_eq!(found(&["payload"], "7").unwrap(), [Some("7")]);
        assert_eq!(found(&["/0"], "[1, 2]").unwrap(), [Some("1")]);
    }

    #[test]
    fn the_last_of_equal_keys_counts() {
        let payload = r#"{"a": {"b": 1}, "a": {"c": 2}}"#;
        assert_eq!(found(&["/a/b", "/a/c"], payload).unwrap(), [None, Some("2")]);
        assert_eq!(found(&["/a"], r#"{"a": 1, "a": 2}"#).unwrap(), [Some("2")]);
    }

    #[test]
    fn what_is_no_json_is_told() {
        for payload in ["{", "{\"a\": 1} x", "", "{\"a\": tru}"] {
            assert!(found(&["/a"], payload).is_err(), "{payload}");
        }
    }
}
