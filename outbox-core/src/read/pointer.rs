//! JSON pointers, and how the values behind them are taken out of a payload in one pass.
//!
//! Only the objects on the way to a pointer are looked into; everything else is skipped without
//! building it. A key that occurs twice counts as its last occurrence.

use std::{fmt, str::FromStr};

use bytes::Bytes;
use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

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

/// The most pointers that one pass can take: one bit for each.
pub(super) const POINTERS_MAX: usize = 64;

/// Takes what `pointers` point at, in their order. `pointers` has [`POINTERS_MAX`] entries at most.
pub(super) fn take(pointers: &[Pointer], payload: &Bytes) -> Result<Vec<Pointed>, JsonFault> {
    let mut found = vec![Pointed::Absent; pointers.len()];
    let active = (0..pointers.len()).fold(0, |mask, i| mask | bit(i));
    let mut json = serde_json::Deserializer::from_slice(payload);
    Walk { pointers, payload, found: &mut found, active, depth: 0 }
        .deserialize(&mut json)
        .and_then(|()| json.end())
        .map_err(|error| JsonFault::of(&error))?;
    Ok(found)
}

fn bit(pointer: usize) -> u64 {
    1 << (pointer % POINTERS_MAX)
}

/// One value on the way: `active` are the pointers that lead through it or to it.
struct Walk<'a> {
    pointers: &'a [Pointer],
    payload: &'a Bytes,
    found: &'a mut [Pointed],
    active: u64,
    depth: usize,
}

impl<'a> Walk<'a> {
    /// The active pointers whose next step fits.
    fn onward(&self, fits: impl Fn(&Step) -> bool) -> u64 {
        let next = |pointer: &Pointer| pointer.steps.get(self.depth).is_some_and(&fits);
        self.each().filter(|i| next(&self.pointers[*i])).fold(0, |mask, i| mask | bit(i))
    }

    fn each(&self) -> impl Iterator<Item = usize> + use<'a> {
        let active = self.active;
        (0..self.pointers.len()).filter(move |i| active & bit(*i) != 0)
    }

    fn child(&mut self, active: u64) -> Walk<'_> {
        Walk {
            pointers: self.pointers,
            payload: self.payload,
            found: self.found,
            active,
            depth: self.depth + 1,
        }
    }

    /// Stores the value for the pointers that end here, and forgets what an earlier value under
    /// the same key had for those that lead further.
    fn settle(&mut self, value: &Pointed) {
        for i in self.each() {
            let ends = self.pointers[i].steps.len() == self.depth;
            self.found[i] = if ends { value.clone() } else { Pointed::Absent };
        }
    }

    fn number(&mut self, number: impl fmt::Display) {
        self.settle(&Pointed::Scalar(Bytes::from(number.to_string())));
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: de::Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_borrowed_str<E>(mut self, text: &'de str) -> Result<(), E> {
        // Borrowed from the payload: a slice of it will do.
        let value = Pointed::Scalar(self.payload.slice_ref(text.as_bytes()));
        self.settle(&value);
        Ok(())
    }

    fn visit_str<E>(mut self, text: &str) -> Result<(), E> {
        self.settle(&Pointed::Scalar(Bytes::copy_from_slice(text.as_bytes())));
        Ok(())
    }

    fn visit_i64<E>(mut self, number: i64) -> Result<(), E> {
        self.number(number);
        Ok(())
    }

    fn visit_u64<E>(mut self, number: u64) -> Result<(), E> {
        self.number(number);
        Ok(())
    }

    fn visit_f64<E>(mut self, _: f64) -> Result<(), E> {
        self.settle(&Pointed::Unfit);
        Ok(())
    }

    fn visit_bool<E>(mut self, _: bool) -> Result<(), E> {
        self.settle(&Pointed::Unfit);
        Ok(())
    }

    fn visit_unit<E>(mut self) -> Result<(), E> {
        self.settle(&Pointed::Absent);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        self.settle(&Pointed::Unfit);
        while let Some(onward) = map.next_key_seed(Key(&self))? {
            if onward == 0 {
                map.next_value::<IgnoredAny>()?;
            } else {
                map.next_value_seed(self.child(onward))?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        self.settle(&Pointed::Unfit);
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
}

/// A key of an object: which pointers lead through it.
struct Key<'a, 'b>(&'a Walk<'b>);

impl<'de> DeserializeSeed<'de> for Key<'_, '_> {
    type Value = u64;

    fn deserialize<D: de::Deserializer<'de>>(self, key: D) -> Result<u64, D::Error> {
        key.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_, '_> {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<u64, E> {
        Ok(self.0.onward(|step| step.name == key))
    }
}
