//! JSON pointers, and how the values behind them are taken out of a payload in one pass.
//!
//! Only the objects on the way to a pointer are looked into; everything else is skipped without
//! building it. A key that occurs twice counts as its last occurrence.

use std::{fmt, iter, str::FromStr};

use bytes::Bytes;
use serde::de::{
    Deserialize as _, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

use super::SourceError;
use crate::JsonFault;

/// A JSON pointer (RFC 6901), such as `/order/id`. The empty one is the whole payload.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Pointer {
    steps: Vec<Step>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Step {
    name: String,
    /// The same step into an array, if it can be one.
    index: Option<usize>,
}

impl Pointer {
    const STEPS_MAX: usize = 32;

    /// Finds the JSON text behind each of `pointers`, in one pass: `found` has a place for each of them. A pointer
    /// that leads nowhere finds nothing; null is found as `null`. At most 128 pointers.
    ///
    /// # Errors
    ///
    /// When the payload is not JSON. What lies beside the way of all pointers is only known to be balanced.
    ///
    /// # Panics
    ///
    /// When `found` has fewer places than there are pointers.
    #[doc(hidden)]
    pub fn find_all<'p>(
        pointers: &[Self],
        payload: &'p [u8],
        found: &mut [Option<&'p str>],
    ) -> Result<(), serde_json::Error> {
        debug_assert!(pointers.len() <= POINTERS_MAX, "one bit for each");
        found.fill(None);
        let active = (0..pointers.len()).fold(0, |mask, i| mask | bit(i));
        let mut json = serde_json::Deserializer::from_slice(payload);
        Walk { pointers, found, active, depth: 0 }.deserialize(&mut json)?;
        json.end()
    }

    /// The whole payload.
    pub(super) fn whole() -> Self {
        Self { steps: Vec::new() }
    }

    /// One step on, to a member of that name, or an element of that number.
    pub(super) fn child(mut self, name: &str) -> Self {
        self.steps.extend(step(name));
        self
    }

    /// The same in a member of that name.
    pub(super) fn below(&self, name: &str) -> Self {
        let steps = step(name).into_iter().chain(self.steps.iter().cloned());
        Self { steps: steps.collect() }
    }

    /// It is the whole payload.
    #[doc(hidden)]
    pub fn is_whole(&self) -> bool {
        self.steps.is_empty()
    }
}

impl FromStr for Pointer {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        let wrong = || SourceError::Pointer(text.to_owned());
        if text.is_empty() {
            return Ok(Self { steps: Vec::new() });
        }
        let steps = text.strip_prefix('/').ok_or_else(wrong)?.split('/');
        let steps: Vec<Step> = steps.map(step).collect::<Option<_>>().ok_or_else(wrong)?;
        if steps.len() > Self::STEPS_MAX {
            return Err(wrong());
        }
        Ok(Self { steps })
    }
}

/// `None` when a `~` is not followed by 0 or 1.
fn step(text: &str) -> Option<Step> {
    let mut tildes = text.split('~').skip(1);
    if !tildes.all(|after| after.starts_with(['0', '1'])) {
        return None;
    }
    let name = text.replace("~1", "/").replace("~0", "~");
    let digits = !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit());
    let index =
        if digits && (name == "0" || !name.starts_with('0')) { name.parse().ok() } else { None };
    Some(Step { name, index })
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            write!(f, "/{}", step.name.replace('~', "~0").replace('/', "~1"))?;
        }
        Ok(())
    }
}

/// What stands behind a pointer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) enum Pointed {
    /// Nothing, or null.
    #[default]
    Absent,
    /// A text, or a whole number in decimal.
    Scalar(Bytes),
    /// An object, an array, a fraction or a boolean.
    Unfit,
}

/// One bit for each pointer.
type Mask = u128;

/// The most pointers that one pass can take: eight places of eight parts, and those of a format.
pub(super) const POINTERS_MAX: usize = 128;

/// Takes what `pointers` point at, in their order. `pointers` has [`POINTERS_MAX`] entries at most.
pub(super) fn take(pointers: &[Pointer], payload: &Bytes) -> Result<Vec<Pointed>, JsonFault> {
    let mut found = vec![None; pointers.len()];
    Pointer::find_all(pointers, payload, &mut found)
        .map_err(|error| JsonFault::of(payload, &error))?;
    found
        .into_iter()
        .map(|json| json.map_or(Ok(Pointed::Absent), |json| value(payload, json)))
        .collect()
}

/// What a JSON text is, which is a part of the payload.
pub(super) fn value(payload: &Bytes, json: &str) -> Result<Pointed, JsonFault> {
    let part = |text: &str| Pointed::Scalar(payload.slice_ref(text.as_bytes()));
    let plain = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    Ok(match (plain, json) {
        (Some(text), _) if !text.contains('\\') => part(text),
        (Some(_), _) => match serde_json::from_str::<String>(json) {
            Ok(text) => Pointed::Scalar(text.into()),
            Err(error) => return Err(JsonFault::inside(payload, json, &error)),
        },
        (None, "null") => Pointed::Absent,
        // Minus nought is a fraction.
        (None, "-0") => Pointed::Unfit,
        (None, number) if number.parse::<u64>().is_ok() || number.parse::<i64>().is_ok() => {
            part(number)
        }
        (None, _) => Pointed::Unfit,
    })
}

fn bit(pointer: usize) -> Mask {
    1 << (pointer % POINTERS_MAX)
}

/// The pointers of a mask.
fn bits(mut mask: Mask) -> impl Iterator<Item = usize> {
    iter::from_fn(move || {
        let lowest = (mask != 0).then(|| mask.trailing_zeros() as usize);
        mask &= mask.wrapping_sub(1);
        lowest
    })
}

/// One value on the way: `active` are the pointers that lead through it or to it.
struct Walk<'a, 'p> {
    pointers: &'a [Pointer],
    found: &'a mut [Option<&'p str>],
    active: Mask,
    depth: usize,
}

impl<'p> Walk<'_, 'p> {
    /// The active pointers of which this holds.
    fn those(&self, holds: impl Fn(&Pointer) -> bool) -> Mask {
        let those = bits(self.active).filter(|i| holds(&self.pointers[*i]));
        those.fold(0, |mask, i| mask | bit(i))
    }

    /// The active pointers whose next step fits.
    fn onward(&self, fits: impl Fn(&Step) -> bool) -> Mask {
        self.those(|pointer| pointer.steps.get(self.depth).is_some_and(&fits))
    }

    fn find(&mut self, pointers: Mask, json: Option<&'p str>) {
        for i in bits(pointers) {
            self.found[i] = json;
        }
    }

    fn child(&mut self, active: Mask) -> Walk<'_, 'p> {
        let depth = self.depth + 1;
        Walk { pointers: self.pointers, found: self.found, active, depth }
    }
}

impl<'p> DeserializeSeed<'p> for Walk<'_, 'p> {
    type Value = ();

    fn deserialize<D: Deserializer<'p>>(mut self, json: D) -> Result<(), D::Error> {
        let ends = self.those(|pointer| pointer.steps.len() == self.depth);
        // What an earlier value under the same key had does not count.
        self.find(self.active, None);
        if ends == 0 {
            return json.deserialize_any(self);
        }
        let raw = <&RawValue>::deserialize(json)?.get();
        self.find(ends, Some(raw));
        self.active &= !ends;
        if self.active == 0 {
            return Ok(());
        }
        let further = self.deserialize(&mut serde_json::Deserializer::from_str(raw));
        further.map_err(serde::de::Error::custom)
    }
}

impl<'p> Visitor<'p> for Walk<'_, 'p> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'p>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(onward) = map.next_key_seed(Key(&self))? {
            if onward == 0 {
                map.next_value::<IgnoredAny>()?;
            } else {
                map.next_value_seed(self.child(onward))?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'p>>(mut self, mut list: A) -> Result<(), A::Error> {
        for at in 0.. {
            let onward = self.onward(|step| step.index == Some(at));
            let more = if onward == 0 {
                list.next_element::<IgnoredAny>()?.is_some()
            } else {
                list.next_element_seed(self.child(onward))?.is_some()
            };
            if !more {
                break;
            }
        }
        Ok(())
    }

    // Scalars lead nowhere: what is looked for below them is missing.

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

/// A key of an object: which pointers lead through it.
struct Key<'w, 'a, 'p>(&'w Walk<'a, 'p>);

impl<'p> DeserializeSeed<'p> for Key<'_, '_, '_> {
    type Value = Mask;

    fn deserialize<D: Deserializer<'p>>(self, key: D) -> Result<Mask, D::Error> {
        key.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_, '_, '_> {
    type Value = Mask;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Mask, E> {
        Ok(self.0.onward(|step| step.name == key))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Pointed::{Absent, Unfit},
        *,
    };

    /// What is found behind pointers, in their order.
    fn found<'p>(pointers: &[&str], payload: &'p str) -> Result<Vec<Option<&'p str>>, String> {
        let pointers: Vec<Pointer> = pointers.iter().map(|text| text.parse().unwrap()).collect();
        let mut found = vec![None; pointers.len()];
        let taken = Pointer::find_all(&pointers, payload.as_bytes(), &mut found);
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
        assert_eq!(found(&["", "/a"], r#" {"a":1} "#).unwrap(), [Some(r#"{"a":1}"#), Some("1")]);
        assert_eq!(found(&[""], "7").unwrap(), [Some("7")]);
        assert_eq!(found(&["/0", "/00"], "[1, 2]").unwrap(), [Some("1"), None]);
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

    #[test]
    fn texts_and_whole_numbers_are_values() {
        let payload = Bytes::from_static(
            br#"{"a": "\u00e4", "b": -12, "c": 1.0, "d": null, "e": -0, "f": 18446744073709551616}"#,
        );
        let pointers = ["/a", "/b", "/c", "/d", "/e", "/f"].map(|text| text.parse().unwrap());
        let scalar = |text: &'static str| Pointed::Scalar(Bytes::from_static(text.as_bytes()));
        let expected = [scalar("ä"), scalar("-12"), Unfit, Absent, Unfit, Unfit];
        assert_eq!(take(&pointers, &payload).unwrap(), expected);
        let broken = Bytes::from_static(b"{\n \"a\": \"\\ud800\"}");
        let fault = take(&pointers[..1], &broken).unwrap_err();
        assert_eq!((fault.line, fault.column > 7), (2, true), "{fault}");
    }
}
