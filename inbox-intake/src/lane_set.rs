//! A set of lanes.

/// Words that hold every number of a lane: `intake.lanes` is 256 at most. More share bits, and wait for each other.
const WORDS: usize = 4;

/// Lanes; cheap to copy and to compare.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct LaneSet([u64; WORDS]);

impl LaneSet {
    fn insert(&mut self, lane: u16) {
        self.0[usize::from(lane / 64) % WORDS] |= 1 << (lane % 64);
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine |= theirs);
    }

    pub(crate) fn remove(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine &= !theirs);
    }

    pub(crate) fn has(self, lane: u16) -> bool {
        self.0[usize::from(lane / 64) % WORDS] & (1 << (lane % 64)) != 0
    }

    /// Whether a lane is in both.
    pub(crate) fn meets(self, other: Self) -> bool {
        self.0.iter().zip(other.0).any(|(mine, theirs)| mine & theirs != 0)
    }

    /// Whether all lanes of the other are in it.
    pub(crate) fn holds(self, other: Self) -> bool {
        self.0.iter().zip(other.0).all(|(mine, theirs)| theirs & !mine == 0)
    }
}

impl FromIterator<u16> for LaneSet {
    fn from_iter<I: IntoIterator<Item = u16>>(lanes: I) -> Self {
        let mut set = Self::default();
        lanes.into_iter().for_each(|lane| set.insert(lane));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_meet_in_lanes_that_both_have() {
        let of = |lanes: &[u16]| lanes.iter().copied().collect::<LaneSet>();
        let mut set = of(&[0, 63, 64, 255]);
        for lane in [0, 63, 64, 255] {
            assert!(set.meets(of(&[lane])) && set.has(lane), "{lane}");
            assert!(!set.has(lane ^ 2), "{lane}");
        }
        assert!(!set.meets(of(&[1, 62, 65, 128, 254])) && !set.meets(of(&[])));
        assert!(set.holds(of(&[0, 255])) && set.holds(of(&[])) && !set.holds(of(&[0, 1])));
        set.remove(of(&[63, 255, 7]));
        assert_eq!(set, of(&[0, 64]));
        set.add(of(&[255]));
        assert_eq!(set, of(&[0, 64, 255]));
    }
}
