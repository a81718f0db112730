//! The world's time and its lots: both are given, neither is looked up.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Time as tokio counts it: real, or virtual where tokio's clock is paused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    began: Instant,
    at: Timestamp,
}

impl Clock {
    /// It is `at` now.
    pub(crate) fn starting(at: Timestamp) -> Self {
        Self { began: Instant::now(), at }
    }

    pub(crate) fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.began.elapsed()).unwrap_or(SignedDuration::MAX);
        self.at.checked_add(passed).unwrap_or(Timestamp::MAX)
    }

    /// When it will be, or was, `at`: now if that has passed.
    pub(crate) fn instant(&self, at: Timestamp) -> Instant {
        let ahead = at.duration_since(self.now());
        Instant::now() + std::time::Duration::try_from(ahead).unwrap_or_default()
    }
}

/// How far a clock is ahead of the world's, and how fast it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Skew {
    /// At that time.
    ahead: SignedDuration,
    since: Timestamp,
    pace_percent: u32,
}

impl Default for Skew {
    fn default() -> Self {
        Self { ahead: SignedDuration::ZERO, since: Timestamp::UNIX_EPOCH, pace_percent: 100 }
    }
}

impl Skew {
    /// How far it is ahead.
    pub(crate) fn at(self, now: Timestamp) -> SignedDuration {
        let gains = i32::try_from(self.pace_percent).unwrap_or(i32::MAX).saturating_sub(100);
        let passed = now.duration_since(self.since);
        let gained = passed.checked_mul(gains).and_then(|gained| gained.checked_div(100));
        self.ahead.saturating_add(gained.unwrap_or_default())
    }

    pub(crate) fn set(&mut self, by: SignedDuration) {
        self.ahead = self.ahead.saturating_add(by);
    }

    pub(crate) fn run(&mut self, pace_percent: u32, now: Timestamp) {
        *self = Self { ahead: self.at(now), since: now, pace_percent };
    }
}

/// Identities, drawn from a seed (SplitMix64): the same seed gives the same ones in the same order.
#[derive(Clone, Debug)]
pub(crate) struct Lots(u64);

/// What the API server makes suffixes of: no vowels, so that no words come of it.
const SUFFIX_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;

impl Lots {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Goes on with other lots than a copy of these will draw.
    pub(crate) fn part(&mut self) {
        self.0 = self.next();
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A random UUID, as the API server gives every object one.
    pub(crate) fn uid(&mut self) -> String {
        let (high, low) = (self.next(), self.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            0x8000 | ((low >> 48) & 0x3fff),
            low & 0xffff_ffff_ffff,
        )
    }

    /// What follows a `generateName`.
    pub(crate) fn suffix(&mut self) -> String {
        let letters = SUFFIX_LETTERS.len() as u64;
        (0..SUFFIX_LENGTH)
            .filter_map(|_| {
                let index = usize::try_from(self.next() % letters).ok()?;
                SUFFIX_LETTERS.get(index).map(|letter| char::from(*letter))
            })
            .collect()
    }
}

/// The lot that falls to a text, always the same (FNV-1a, mixed as above).
pub(crate) fn lot_of(text: &str) -> u64 {
    let hashed = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    Lots(hashed).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_jump_stand_still_and_drift() {
        let mut skew = Skew::default();
        let begin = Timestamp::from_second(1_767_225_600).unwrap();
        // After so many seconds it is set, or runs at this pace; so far ahead it is a minute later.
        for (after, jump, pace, ahead) in [
            (0, 0, 100, 0),
            (100, 3600, 100, 3600),
            (200, -7200, 100, -3600),
            (300, 3600, 0, -60),
            (360, 60, 50, -30),
            (420, 30, 200, 60),
            (480, 0, 100, 60),
        ] {
            let now = begin + SignedDuration::from_secs(after);
            skew.set(SignedDuration::from_secs(jump));
            skew.run(pace, now);
            assert_eq!(skew.at(now + SignedDuration::from_mins(1)).as_secs(), ahead, "after {after} s");
        }
    }

    #[test]
    fn lots_have_their_forms_and_repeat() {
        let mut lots = Lots::new(7);
        let (uid, suffix) = (lots.uid(), lots.suffix());
        assert_eq!(uid.len(), 36);
        assert_eq!(uid.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert!(uid.split('-').nth(2).is_some_and(|part| part.starts_with('4')));
        assert_eq!(suffix.len(), SUFFIX_LENGTH);
        let mut again = Lots::new(7);
        assert_eq!((again.uid(), again.suffix()), (uid.clone(), suffix));
        assert_ne!(Lots::new(8).uid(), uid);
    }
}
