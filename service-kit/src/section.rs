//! A key is declared once. Of its declaration are made the field of a type with its default, the row of the table
//! of keys, which reading, checking and the documents go by, and how it is read and written.

use std::time::Duration;

use crate::{Key, Kind};

/// The keys of one section of a configuration, declared by `section!`.
pub trait Section {
    /// In the order of the documentation.
    const KEYS: &'static [Key];
    /// Whether it occurs any number of times.
    const REPEATED: bool = false;
}

impl<S: Section> Section for Vec<S> {
    const KEYS: &'static [Key] = S::KEYS;
    const REPEATED: bool = true;
}

/// How many keys there are.
pub const fn count(parts: &[&[Key]]) -> usize {
    let (mut count, mut part) = (0, 0);
    while part < parts.len() {
        count += parts[part].len();
        part += 1;
    }
    count
}

/// All of them, one part behind the other. `N` is their [`count`].
pub const fn join<const N: usize>(parts: &[&[Key]]) -> [Key; N] {
    let mut all = [Key::NONE; N];
    let (mut at, mut part) = (0, 0);
    while part < parts.len() {
        let mut key = 0;
        while key < parts[part].len() {
            all[at] = parts[part][key];
            (at, key) = (at + 1, key + 1);
        }
        part += 1;
    }
    all
}

/// The kind that two bounds mean by their unit: `1ms..=5m`, `1KiB..=4MiB`, or none for a number.
pub const fn bounded(min: &str, max: &str) -> Kind {
    let ((min, _), (max, unit)) = (bound(min), bound(max));
    match unit {
        Unit::One => Kind::Number { min, max },
        Unit::Byte => Kind::Bytes { min, max },
        Unit::Millisecond => {
            Kind::Duration { min: Duration::from_millis(min), max: Duration::from_millis(max) }
        }
    }
}

/// What a bound counts.
#[derive(Clone, Copy)]
enum Unit {
    One,
    Byte,
    Millisecond,
}

const fn bound(text: &str) -> (u64, Unit) {
    let (mut rest, mut number) = (text.as_bytes(), 0);
    while let [digit @ (b'0'..=b'9' | b'_'), behind @ ..] = rest {
        rest = behind;
        if *digit != b'_' {
            number = number * 10 + (*digit - b'0') as u64;
        }
    }
    let (factor, unit) = match rest {
        b"" => (1, Unit::One),
        b"kB" => (1_000, Unit::Byte),
        b"GB" => (1_000_000_000, Unit::Byte),
        b"KiB" => (1 << 10, Unit::Byte),
        b"MiB" => (1 << 20, Unit::Byte),
        b"GiB" => (1 << 30, Unit::Byte),
        b"ms" => (1, Unit::Millisecond),
        b"s" => (1_000, Unit::Millisecond),
        b"m" => (60_000, Unit::Millisecond),
        b"h" => (3_600_000, Unit::Millisecond),
        b"d" => (86_400_000, Unit::Millisecond),
        _ => panic!(
            "a bound is a number, behind it kB, GB, KiB, MiB, GiB, ms, s, m, h, d or nothing"
        ),
    };
    (number * factor, unit)
}

/// The type of a section and its keys. Of a key it tells what it does (the field's documentation and the
/// document's), the field with its type, and what applies of these, in this order:
///
/// - `= "30s"`: its default; `= required` if it has to be set. Without it that of the type.
/// - `, in 1s..=5m`: bounds, with their unit.
/// - `, of ["a", "b"]`: the words that it may be.
/// - `, shown "text"`: what the document says in place of the default.
/// - `{ … }`: it is a table, and these are its keys, each a place in a record, or of some words.
///
/// `..flatten field: Type` takes in the keys of another section's type, which is of the same name.
#[macro_export]
macro_rules! section {
    (@text $type:ty, [required] []) => { "" };
    (@text $type:ty, [$($default:literal)?] [$shown:literal]) => { $shown };
    (@text $type:ty, [$default:literal] []) => { $default };
    (@text $type:ty, [] []) => { <$type as $crate::Setting>::DEFAULT };
    (@need required) => { $crate::Need::Always };
    (@need $($default:literal)?) => { $crate::Need::Never };
    (@kind $type:ty, [$min:tt $max:tt] []) => {
        $crate::section::bounded(stringify!($min), stringify!($max))
    };
    (@kind $type:ty, [] [[$($word:literal),+]]) => { $crate::Kind::Choice(&[$($word),+]) };
    (@kind $type:ty, [] []) => { <$type as $crate::Setting>::KIND };
    (@inner [$words:tt]) => { $crate::section!(@kind String, [] [$words]) };
    (@inner []) => { $crate::Kind::Place };
    (@row $path:expr, $type:ty, $kind:expr, [$($doc:expr),+] [$($default:tt)?] [$($shown:literal)?]) => {
        $crate::Key {
            path: $path,
            kind: $kind,
            default: $crate::section!(@text $type, [$($default)?] [$($shown)?]),
            need: $crate::section!(@need $($default)?),
            doc: concat!($($doc),+).trim_ascii(),
        }
    };
    (@rows [flatten] $section:literal $field:ident $type:ty, $($rest:tt)*) => {
        <$type as $crate::Section>::KEYS
    };
    (@rows [] $section:literal $field:ident $type:ty, $doc:tt [] [] [] [] [{ $(
        $(#[doc = $inner_doc:expr])+ $inner:ident $(= $default:tt)? $(, of $words:tt)? ;
    )+ }]) => { &[ $( $crate::section!(
        @row concat!($section, ".", stringify!($field), ".", stringify!($inner)), String,
        $crate::section!(@inner [$($words)?]), [$($inner_doc),+] [$($default)?] []
    ) ),+ ] };
    (@rows [] $section:literal $field:ident $type:ty, $doc:tt $default:tt $bounds:tt $words:tt $shown:tt []) => {
        &[$crate::section!(
            @row concat!($section, ".", stringify!($field)), $type,
            $crate::section!(@kind $type, $bounds $words), $doc $default $shown
        )]
    };
    ($(#[$about:meta])* pub struct $name:ident as $section:literal { $(
        $(#[doc = $doc:expr])+
        $(.. $flatten:ident)? $field:ident: $type:ty
            $(= $default:tt)?
            $(, in $min:tt ..= $max:tt)?
            $(, of $words:tt)?
            $(, shown $shown:literal)?
            $({ $($inner:tt)+ })? ;
    )+ }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name { $(
            $(#[doc = $doc])+
            #[serde(with = "service_kit::setting")]
            #[serde(skip_serializing_if = "service_kit::Setting::is_unset")]
            $(#[serde($flatten)])?
            pub $field: $type,
        )+ }

        impl Default for $name {
            fn default() -> Self {
                Self { $(
                    $field: $crate::Setting::of($crate::section!(@text $type, [$($default)?] [])),
                )+ }
            }
        }

        /// For a section that takes its keys in.
        impl $crate::Setting for $name {
            const KIND: $crate::Kind = $crate::Kind::Settings;
            fn of(_: &str) -> Self {
                Self::default()
            }
            fn write<S: serde::Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
                serde::Serialize::serialize(self, output)
            }
            fn read<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
                serde::Deserialize::deserialize(input)
            }
        }

        impl $crate::Section for $name {
            const KEYS: &'static [$crate::Key] = {
                const PARTS: &[&[$crate::Key]] = &[ $( $crate::section!(
                    @rows [$($flatten)?] $section $field $type,
                    [$($doc),+] [$($default)?] [$($min $max)?] [$($words)?] [$($shown)?]
                    [$({ $($inner)+ })?]
                ) ),+ ];
                &$crate::section::join::<{ $crate::section::count(PARTS) }>(PARTS)
            };
        }
    };
}

/// An enum of few words, each a variant's; the first one is the default.
#[macro_export]
macro_rules! choice {
    ($(#[$about:meta])* pub enum $name:ident {
        $(#[$first_about:meta])* $first:ident = $first_word:literal
        $(, $(#[$variant_about:meta])* $variant:ident = $word:literal)* $(,)?
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $(#[$first_about])*
            #[default]
            #[serde(rename = $first_word)]
            $first,
            $( $(#[$variant_about])* #[serde(rename = $word)] $variant, )*
        }

        impl $name {
            /// The word for it.
            pub fn name(self) -> &'static str {
                match self {
                    Self::$first => $first_word,
                    $( Self::$variant => $word, )*
                }
            }
        }

        impl $crate::Setting for $name {
            const KIND: $crate::Kind = $crate::Kind::Choice(&[$first_word $(, $word)*]);
            const DEFAULT: &'static str = $first_word;
            fn of(default: &str) -> Self {
                match default {
                    $( $word => Self::$variant, )*
                    _ => Self::$first,
                }
            }
            fn write<S: serde::Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
                serde::Serialize::serialize(self, output)
            }
            fn read<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
                serde::Deserialize::deserialize(input)
            }
        }
    };
}

/// A whole configuration: its type, a field for each section; `KEYS`, all keys in their order; and `TABLE`, which
/// reads, checks and documents it. The head has what variables of the environment begin with, the page that lists
/// all keys, the name of the program's own lines in the log, and the port of metrics and health. A section that is a `Vec` occurs any number of times.
#[macro_export]
macro_rules! configuration {
    ($(#[$about:meta])* pub struct $name:ident: $env:literal, $page:literal, $target:literal, $port:literal {
        $( $(#[$section_about:meta])* $section:ident: $type:ty, )+
    }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            /// What reading it has noticed: no later look finds it.
            #[serde(skip)]
            pub noticed: Vec<$crate::Problem>,
            $( $(#[$section_about])* pub $section: $type, )+
        }

        /// Every key, in the order of the documentation.
        pub const KEYS: &[$crate::Key] = {
            const PARTS: &[&[$crate::Key]] = &[ $( <$type as $crate::Section>::KEYS ),+ ];
            &$crate::section::join::<{ $crate::section::count(PARTS) }>(PARTS)
        };

        /// The table as reading, checking and documenting it need it.
        pub(crate) const TABLE: $crate::KeyTable = $crate::KeyTable {
            keys: KEYS,
            sections: &[ $( (stringify!($section), <$type as $crate::Section>::REPEATED) ),+ ],
            env: $env,
            page: $page,
            target: $target,
            port: $port,
        };
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_what_their_units_say() {
        let millis = Duration::from_millis;
        assert_eq!(bounded("1", "10_000"), Kind::Number { min: 1, max: 10_000 });
        assert_eq!(bounded("1kB", "4MiB"), Kind::Bytes { min: 1_000, max: 4 << 20 });
        let day = Kind::Duration { min: millis(0), max: millis(24 * 3_600_000) };
        assert_eq!(bounded("0s", "1d"), day);
    }
}
