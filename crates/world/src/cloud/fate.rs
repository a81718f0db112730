//! Whom something befalls, and how long it takes.
//!
//! Each question has its own lot: the answer follows from the seed, the question and whom it is about, not
//! from what was asked before. So one call more or less does not change the fate of every machine after it,
//! and a failing run can be cut down.

use super::weather::{Delay, Odds};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Fate(pub(crate) u64);

impl Fate {
    /// An evenly spread number for this question about this subject.
    pub(crate) fn lot(self, question: &str, subject: u64) -> u64 {
        // FNV-1a tells the questions apart, SplitMix64 spreads them.
        let question = question.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        spread(spread(self.0 ^ question).wrapping_add(subject))
    }

    /// Whether it befalls the n-th subject, at this time since the beginning.
    pub(crate) fn strikes(self, odds: &Odds, question: &str, nth: u64, at_ms: u64) -> bool {
        let in_time = odds.between.is_none_or(|window| window.holds(at_ms));
        let meant = odds.nth.contains(&nth);
        in_time && (meant || self.lot(question, nth) % 1000 < u64::from(odds.permille))
    }

    pub(crate) fn delay_ms(self, delay: Delay, question: &str, nth: u64) -> u64 {
        let choices = delay.most_ms.saturating_sub(delay.least_ms).saturating_add(1);
        delay.least_ms.saturating_add(self.lot(question, nth) % choices)
    }
}

fn spread(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odds_strike_as_often_as_they_say() {
        let fate = Fate(7);
        for (odds, least, most) in [
            (Odds::never(), 0, 0),
            (Odds::always(), 1000, 1000),
            (Odds::nth(3), 1, 1),
            (Odds::permille(300), 250, 350),
            (Odds::always().between(10, 20), 0, 0),
        ] {
            let struck = (1..=1000).filter(|nth| fate.strikes(&odds, "whether", *nth, 5)).count();
            assert!((least..=most).contains(&struck), "{odds:?}: {struck}");
        }
        assert!(fate.strikes(&Odds::always().between(10, 20), "whether", 1, 10));
        assert!(!fate.strikes(&Odds::always().between(10, 20), "whether", 1, 20));
    }

    #[test]
    fn delays_stay_in_their_bounds() {
        for delay in [Delay::secs(0), Delay::secs(20), Delay { least_ms: 5, most_ms: 9 }] {
            for nth in 0..100 {
                let drawn = Fate(1).delay_ms(delay, "how long", nth);
                assert!((delay.least_ms..=delay.most_ms).contains(&drawn), "{delay:?}: {drawn}");
            }
        }
        assert_eq!(Fate(1).delay_ms(Delay { least_ms: 9, most_ms: 5 }, "how long", 1), 9);
        assert_ne!(Fate(1).delay_ms(Delay { least_ms: 0, most_ms: u64::MAX }, "how long", 1), 0);
    }
}
