//! What happens to machines in time.

use std::sync::Arc;

use berth_cloud::machine::{MachineState, Notice, NoticeKind, POOL_TAG};
use berth_core::names::{self, Labels, Text};
use berth_core::pod::Taint;

use super::account::{Account, Due, later};
use super::history::{Ending, Event, Record, Registration};
use super::weather::{Delay, Odds, Reclaim};

/// What a label says that is wrong.
const WRONG: &str = "elsewhere";

impl Account {
    pub(super) fn befall(&mut self, due: Due) {
        match due {
            Due::Stock(change) => self.restock(&change),
            Due::Reclaim(reclaim) => self.reclaim(&reclaim),
            Due::Runs(index) => self.run(index),
            Due::Joins(index) => self.join(index),
            Due::JoinsAgain(index) => self.join_again(index),
            Due::Stops(index) => self.stop(index),
            Due::Ends(index, ending) => self.end(index, ending),
        }
    }

    /// Whether something befalls a machine, as of when it was bought. Strangers are left alone.
    pub(super) fn befalls(&self, index: usize, odds: &Odds, question: &str) -> bool {
        self.records.get(index).is_some_and(|record| {
            let at_ms = self.elapsed_ms(record.machine.launched_at);
            number(record).is_some_and(|number| self.strikes(odds, question, number, at_ms))
        })
    }

    pub(super) fn draw(&self, index: usize, delay: Delay, question: &str) -> u64 {
        let subject = self.records.get(index).and_then(number).unwrap_or(0);
        self.fate.delay_ms(delay, question, subject)
    }

    fn run(&mut self, index: usize) {
        let stillborn = self.befalls(index, &self.weather.launches.stillborn, "stillborn");
        let Some(record) = self.records.get_mut(index) else { return };
        if record.machine.state != MachineState::Pending {
            return;
        }
        if stillborn {
            return self.end(index, Ending::Stillborn);
        }
        record.machine.state = MachineState::Running;
        let machine = record.machine.id.clone();
        self.happen(Event::Runs { machine });
        let joins = &self.weather.joins;
        if self.befalls(index, &joins.never, "never joins") {
            return;
        }
        let late = self.befalls(index, &joins.late, "joins late");
        let late_by_ms = if late { self.draw(index, joins.late_by, "joins late by") } else { 0 };
        let join_ms = self.draw(index, self.weather.times.join, "join takes");
        self.plan_in(join_ms.saturating_add(late_by_ms), Due::Joins(index));
    }

    fn join(&mut self, index: usize) {
        if !self.register(index) {
            return;
        }
        let joins = &self.weather.joins;
        if self.befalls(index, &joins.again, "joins again") {
            let after_ms = self.draw(index, joins.again_after, "joins again after");
            self.plan_in(after_ms, Due::JoinsAgain(index));
        }
    }

    fn join_again(&mut self, index: usize) {
        self.leave(index);
        self.register(index);
    }

    /// Whether there was a kubelet to do so.
    fn register(&mut self, index: usize) -> bool {
        let Some(registration) = self.registration(index) else { return false };
        let Some(record) = self.records.get_mut(index) else { return false };
        record.node = Some(registration.node.clone());
        self.happen(Event::Joins(registration));
        true
    }

    fn registration(&self, index: usize) -> Option<Registration> {
        let record = self.records.get(index)?;
        let purchase = record.purchase.as_ref().filter(|_| record.machine.state == MachineState::Running)?;
        let joins = &self.weather.joins;
        let bare = self.befalls(index, &joins.unlabelled, "unlabelled");
        let untainted = self.befalls(index, &joins.untainted, "untainted");
        let wrong = self.befalls(index, &joins.mislabelled, "mislabelled");
        let mut labels: Arc<Labels> = if bare { Arc::default() } else { purchase.order.labels.clone() };
        if wrong {
            let places = [names::ZONE, names::CAPACITY_TYPE];
            Arc::make_mut(&mut labels).extend(places.map(|key| (key.into(), WRONG.into())));
        }
        let taints: Arc<[Taint]> = if untainted { [].into() } else { purchase.order.taints.clone() };
        let hostname = &purchase.hostname;
        let provider_id = if self.befalls(index, &joins.unidentified, "unidentified") {
            Text::default()
        } else if self.befalls(index, &joins.misidentified, "misidentified") {
            format!("metal://{hostname}").into()
        } else {
            record.machine.provider_id.clone()
        };
        let is_renamed = self.befalls(index, &joins.renamed, "renamed");
        let node = if is_renamed { format!("node-{}", purchase.number).into() } else { hostname.clone() };
        Some(Registration {
            machine: record.machine.id.clone(),
            provider_id,
            node,
            address: record.machine.address.clone(),
            instance_type: purchase.instance_type.clone(),
            labels,
            taints,
        })
    }

    fn leave(&mut self, index: usize) {
        let Some(record) = self.records.get_mut(index) else { return };
        if let Some(node) = record.node.take() {
            let machine = record.machine.id.clone();
            self.happen(Event::Leaves { machine, node });
        }
    }

    fn stop(&mut self, index: usize) {
        let Some(record) = self.records.get_mut(index).filter(|record| record.is_alive()) else { return };
        record.machine.state = MachineState::Stopping;
        self.leave(index);
        let stop_ms = self.draw(index, self.weather.times.stop, "stop takes");
        self.plan_in(stop_ms, Due::Ends(index, Ending::Terminated));
    }

    fn end(&mut self, index: usize, ending: Ending) {
        let disappear_ms = self.draw(index, self.weather.times.disappear, "disappearing takes");
        let now = self.now;
        let Some(record) = self.records.get_mut(index).filter(|record| record.is_alive()) else { return };
        record.shown.last_state = record.machine.state;
        record.shown.until = later(now, disappear_ms);
        record.machine.state = MachineState::Gone;
        record.ended = Some((now, ending));
        let machine = &record.machine;
        let sold = (machine.instance_type.clone(), machine.zone.clone(), machine.capacity_type);
        let id = machine.id.clone();
        if let Some(left) = self.stock.get_mut(&sold) {
            *left = left.saturating_add(1);
        }
        self.leave(index);
        self.happen(Event::Ends { machine: id, ending });
    }

    pub(super) fn reclaim(&mut self, reclaim: &Reclaim) {
        let struck = |record: &Record| {
            let machine = &record.machine;
            machine.state < MachineState::Stopping
                && (record.doomed_at.is_none() || reclaim.kind == NoticeKind::Rebalance)
                && reclaim.which.matches(&machine.instance_type, &machine.zone, machine.capacity_type)
                && reclaim.pool.as_ref().is_none_or(|pool| machine.tags.get(POOL_TAG) == Some(pool))
        };
        let question = format!("reclaim at {}", reclaim.at_ms);
        let mut lots: Vec<(u64, usize)> = self
            .records
            .iter()
            .enumerate()
            .filter(|(_, record)| struck(record))
            .filter_map(|(index, record)| Some((self.fate.lot(&question, number(record)?), index)))
            .collect();
        lots.sort_unstable();
        let share = (lots.len() * usize::from(reclaim.share_permille)).div_ceil(1000);
        let most = reclaim.machines_max.map_or(usize::MAX, |most| most as usize);
        let mut chosen: Vec<usize> = lots.into_iter().take(share.min(most)).map(|(_, index)| index).collect();
        chosen.sort_unstable();
        for index in chosen {
            self.give_notice(index, reclaim);
        }
    }

    fn give_notice(&mut self, index: usize, reclaim: &Reclaim) {
        let ends = reclaim.kind != NoticeKind::Rebalance;
        let deadline = ends.then(|| later(self.now, reclaim.notice_ms));
        let now = self.now;
        let Some(record) = self.records.get_mut(index) else { return };
        record.doomed_at = record.doomed_at.or(deadline);
        let notice =
            Notice { machine: record.machine.id.clone(), kind: reclaim.kind, given_at: now, deadline };
        self.notices_given += 1;
        let (nth, at_ms) = (self.notices_given, self.elapsed_ms(now));
        let told = !self.strikes(&self.weather.notices.lost, "notice lost", nth, at_ms);
        let repeated = self.strikes(&self.weather.notices.repeated, "notice repeated", nth, at_ms);
        let times = if !told {
            0
        } else if repeated {
            2
        } else {
            1
        };
        self.notices.extend(std::iter::repeat_n(notice.clone(), times));
        self.happen(Event::Noticed { notice, told });
        if ends {
            self.plan_in(reclaim.notice_ms, Due::Ends(index, Ending::Reclaimed));
        }
    }
}

fn number(record: &Record) -> Option<u64> {
    record.purchase.as_ref().map(|purchase| purchase.number)
}
