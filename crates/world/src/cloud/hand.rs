//! What somebody does to a cloud by hand, now, whatever its weather was to be.

use jiff::Timestamp;

use super::account::Account;
use super::simulated::SimulatedCloud;
use super::weather::{NewPrice, PriceChange, Reclaim, Which};

impl Account {
    /// Gives notice at once, whenever it was to be. To how many machines.
    pub fn reclaim_now(&mut self, reclaim: &Reclaim, now: Timestamp) -> u64 {
        self.advance(now);
        let given = self.notices_given;
        self.reclaim(&Reclaim { at_ms: self.elapsed_ms(self.now), ..reclaim.clone() });
        self.notices_given - given
    }

    /// From now on these offerings cost so much of what the catalog says, instead of what was last said of them.
    pub fn reprice(&mut self, which: &Which, permille: u32, now: Timestamp) {
        self.advance(now);
        let at_ms = self.elapsed_ms(self.now);
        let prices = &mut self.weather.prices;
        prices.retain(|change| change.at_ms > at_ms || change.which != *which);
        let change = PriceChange { at_ms, which: which.clone(), price: NewPrice::Permille(permille) };
        let place = prices.partition_point(|known| known.at_ms <= at_ms);
        prices.insert(place, change);
    }

    /// While it is cut off no call reaches it. Its machines go on running.
    pub fn cut_off(&mut self, is_cut_off: bool, now: Timestamp) {
        self.advance(now);
        self.is_cut_off = is_cut_off;
    }
}

impl SimulatedCloud {
    /// See [`Account::reclaim_now`].
    pub fn reclaim_now(&self, reclaim: &Reclaim) -> u64 {
        self.touch(|account, now| account.reclaim_now(reclaim, now))
    }

    /// See [`Account::reprice`].
    pub fn reprice(&self, which: &Which, permille: u32) {
        self.touch(|account, now| account.reprice(which, permille, now));
    }

    /// See [`Account::cut_off`].
    pub fn cut_off(&self, is_cut_off: bool) {
        self.touch(|account, now| account.cut_off(is_cut_off, now));
    }
}
