//! Machines are bought and given back.

use berth_cloud::machine::{Machine, MachineId, MachineState, Order};
use berth_cloud::provider::{Launched, Refusal};
use berth_core::plan::Alternative;
use jiff::Timestamp;

use super::account::{Account, Due, Reply, later};
use super::history::{Call, Event, Purchase, Record, Shown};
use super::market::Pick;

impl Account {
    pub fn launch(&mut self, order: &Order, now: Timestamp) -> Reply<Launched> {
        self.call(Call::Launch, Some(order.token.as_str()), now, |account, _| {
            order.check()?;
            if let Some(record) = account.by_token.get(&order.token).and_then(|i| account.records.get(*i)) {
                return Ok(account.named(record));
            }
            if order.is_given_up {
                return Ok(Launched::Nothing);
            }
            let mut passed_over = Vec::new();
            for wanted in &order.offerings {
                match account.pick(wanted) {
                    Ok(pick) => {
                        return Ok(match account.buy(order, pick) {
                            Launched::Machine { machine, .. } => Launched::Machine { machine, passed_over },
                            other => other,
                        });
                    }
                    Err(unavailable) => {
                        account.strike();
                        passed_over.push(unavailable);
                    }
                }
            }
            Err(Refusal::Unavailable(passed_over))
        })
    }

    pub fn terminate(&mut self, id: &MachineId, now: Timestamp) -> Reply<()> {
        self.call(Call::Terminate, Some(id.as_str()), now, |account, number| {
            let at = account.now;
            let ignored = &account.weather.terminations.ignored;
            let ignored = account.strikes(ignored, "termination ignored", number, account.elapsed_ms(at));
            let found = account.by_id.get(id).copied();
            let record = found.and_then(|index| account.records.get_mut(index));
            let (Some(index), Some(record)) = (found, record.filter(|record| record.is_alive())) else {
                return Err(Refusal::NotFound(id.clone()));
            };
            record.terminations_asked.push(at);
            if ignored || record.ending {
                return Ok(());
            }
            record.ending = true;
            let faults = &account.weather.terminations;
            let slow_by_ms = if account.befalls(index, &faults.slow, "slow termination") {
                account.draw(index, faults.slow_by, "slow termination takes")
            } else {
                0
            };
            account.plan_in(slow_by_ms, Due::Stops(index));
            account.advance(at);
            Ok(())
        })
    }

    /// The machine of an order, or that it has no name yet.
    fn named(&self, record: &Record) -> Launched {
        if self.now < record.shown.named_from {
            return Launched::Underway;
        }
        Launched::Machine { machine: record.machine.clone(), passed_over: Vec::new() }
    }

    fn buy(&mut self, order: &Order, pick: Pick) -> Launched {
        let (index, number) = (self.records.len(), self.purchases + 1);
        let at_ms = self.elapsed_ms(self.now);
        let faults = &self.weather.launches;
        let pick = if self.strikes(&faults.substituted, "substituted", number, at_ms) {
            self.another(order, &pick).unwrap_or(pick)
        } else {
            pick
        };
        let launch_ms = self.fate.delay_ms(self.weather.times.launch, "launch takes", number);
        let appear_ms = self.fate.delay_ms(self.weather.times.appear, "appearing takes", number);
        let underway = self.strikes(&faults.underway, "underway", number, at_ms);
        let shown = Shown {
            named_from: if underway { later(self.now, launch_ms) } else { self.now },
            from: later(self.now, appear_ms),
            until: Timestamp::MAX,
            last_state: MachineState::Pending,
            tagged: !self.strikes(&faults.untagged, "untagged", number, at_ms),
        };
        let namesake = self.strikes(&self.weather.joins.namesake, "namesake", number, at_ms);
        let before = self.records.iter().rev().find_map(|record| record.purchase.as_ref());
        let hostname = match before {
            Some(before) if namesake => before.hostname.clone(),
            _ => order.name.clone(),
        };
        let id = self.next_id();
        let machine = Machine {
            provider_id: self.provider_id(&pick.zone, &id),
            id: id.clone(),
            token: Some(order.token.clone()),
            name: order.name.clone(),
            address: self.address(number),
            instance_type: pick.instance_type.name.clone(),
            zone: pick.zone,
            capacity_type: pick.capacity_type,
            price: pick.price,
            state: MachineState::Pending,
            tags: order.machine_tags(),
            launched_at: self.now,
            extras: Box::default(),
        };
        let sold = (machine.instance_type.clone(), machine.zone.clone(), machine.capacity_type);
        if let Some(left) = self.stock.get_mut(&sold) {
            *left = left.saturating_sub(1);
        }
        let record = Record {
            machine,
            purchase: Some(Purchase {
                number,
                order: order.clone(),
                instance_type: pick.instance_type,
                hostname,
            }),
            node: None,
            doomed_at: None,
            terminations_asked: Vec::new(),
            ended: None,
            shown,
            ending: false,
        };
        let launched = self.named(&record);
        self.purchases = number;
        self.by_id.insert(id.clone(), index);
        self.by_token.insert(order.token.clone(), index);
        self.records.push(record);
        self.happen(Event::Launched { machine: id });
        self.plan_in(launch_ms, Due::Runs(index));
        launched
    }

    /// A type that nobody asked for, from the same shelf.
    fn another(&self, order: &Order, pick: &Pick) -> Option<Pick> {
        let types = &self.catalog.types;
        let place = types.iter().position(|t| t.name == pick.instance_type.name)?;
        let others = types.iter().cycle().skip(place + 1).take(types.len());
        others.filter(|t| order.offerings.iter().all(|wanted| wanted.instance_type != t.name)).find_map(|t| {
            let other = Alternative {
                instance_type: t.name.clone(),
                zone: pick.zone.clone(),
                capacity_type: pick.capacity_type,
                price_per_hour: pick.price,
            };
            self.pick(&other).ok()
        })
    }
}
