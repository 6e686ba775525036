//! A share of something, from 0 to 1.

/// A share of something, from 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Share(f64);

/// It is a number: what is none cannot be made one.
impl Eq for Share {}

impl Share {
    /// All of it.
    pub const ALL: Self = Self(1.0);

    /// A number from 0 to 1.
    pub fn new(share: f64) -> Option<Self> {
        (0.0..=1.0).contains(&share).then_some(Self(share))
    }

    /// Reads a text such as `0.05`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        text.trim().parse().ok().and_then(Self::new)
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use toml::Value;

    use crate::Kind;

    #[test]
    fn a_share_is_a_number_from_0_to_1() {
        let read = |value: Value, loose| Kind::Share.read(&value, loose);
        assert_eq!(read(0.25.into(), false), Ok(0.25.into()));
        assert_eq!(read(1.into(), false), Ok(1.0.into()));
        assert_eq!(read("0.05".into(), true), Ok(0.05.into()), "as the environment has it");
        let complaint = |found| Err(format!("expected number 0–1, found {found}"));
        assert_eq!(read("0.05".into(), false), complaint("\"0.05\""));
        assert_eq!(read(1.5.into(), false), complaint("`1.5`"));
        assert_eq!(read(2.into(), false), complaint("`2`"));
        assert_eq!(read(f64::NAN.into(), false), complaint("`nan`"));
        assert_eq!(read("half".into(), true), complaint("\"half\""));
    }
}
