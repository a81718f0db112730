//! A play is a weather, a script and what is seen: every answer, and all that happens to machines.

mod plays;
mod runs;
mod time;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use berth_cloud::machine::{Machine, MachineId, MachineState, Order, Token};
use berth_cloud::provider::{Launched, PageMark, Refusal};
use berth_core::catalog::{CapacityType, Catalog, InstanceType, Offering};
use berth_core::names::{self, Labels, Text};
use berth_core::plan::Alternative;
use berth_core::pod::{Taint, TaintEffect};
use berth_core::resources::{CPU, Resources};
use berth_core::units::Price;
use jiff::Timestamp;

use super::account::later;
use super::weather::Reclaim;
use super::{Account, Event, Weather};

/// `c-1`, `c-2` and `m-4` with as many CPUs, in zones a and b, for a cent a CPU; spot for half.
fn catalog() -> Arc<Catalog> {
    let offering = |zone: &str, capacity_type, micro_usd| Offering {
        zone: zone.into(),
        capacity_type,
        price: Price::from_micro_usd(micro_usd),
        estimated: false,
        available: true,
        remaining: None,
        labels: Labels::new(),
    };
    let types = [("c-1", 1), ("c-2", 2), ("m-4", 4)].map(|(name, cpus)| {
        Arc::new(InstanceType {
            name: name.into(),
            labels: Labels::new(),
            capacity: Resources::of(&[(CPU, cpus * 1000)]),
            overhead: Resources::new(),
            volume_limits: BTreeMap::new(),
            offerings: vec![
                offering("a", CapacityType::OnDemand, cpus * 10_000),
                offering("a", CapacityType::Spot, cpus * 5000),
                offering("b", CapacityType::OnDemand, cpus * 10_000),
                offering("b", CapacityType::Spot, cpus * 5000),
            ],
        })
    });
    Arc::new(Catalog { name: "test".into(), types: types.into() })
}

fn began() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// `c-1/a/spot`
fn alternative(text: &str) -> Alternative {
    let mut parts = text.split('/');
    let mut part = || parts.next().unwrap_or_else(|| panic!("{text} is not type/zone/capacity type"));
    Alternative {
        instance_type: part().into(),
        zone: part().into(),
        capacity_type: CapacityType::parse(part()).unwrap(),
        price_per_hour: Price::ZERO,
    }
}

/// For node `n-<token>` of the pool that the token begins with.
fn order(token: &str, offerings: &str) -> Order {
    Order {
        labels: Arc::new(Labels::from([
            (names::ZONE.into(), "a".into()),
            (names::CAPACITY_TYPE.into(), "spot".into()),
            ("team".into(), "quay".into()),
        ])),
        taints: [Taint::new("team", "quay", TaintEffect::NoSchedule)].into(),
        ..Order::new(
            Token::parse(token).unwrap(),
            format!("n-{token}"),
            &token[..1],
            offerings.split(',').filter(|text| !text.is_empty()).map(alternative).collect(),
        )
    }
}

struct Play {
    account: Account,
    mark: Option<PageMark>,
    seen: usize,
    text: String,
}

impl Play {
    fn new(weather: Weather, seed: u64) -> Self {
        let account = Account::new(catalog(), weather, seed, began());
        Self { account, mark: None, seen: 0, text: String::new() }
    }

    /// Machines are called m0, m1, … in the order in which they came to be.
    fn called(&self, id: &MachineId) -> String {
        let place = self.account.records().iter().position(|record| record.machine.id == *id);
        place.map_or_else(|| id.to_string(), |place| format!("m{place}"))
    }

    fn id(&self, called: &str) -> MachineId {
        let place: usize = called[1..].parse().unwrap();
        self.account.records().get(place).map_or_else(|| called.into(), |record| record.machine.id.clone())
    }

    fn described(&self, machine: &Machine) -> String {
        let state = match machine.state {
            MachineState::Pending => "pending",
            MachineState::Running => "running",
            MachineState::Halted => "halted",
            MachineState::Stopping => "stopping",
            MachineState::Gone => "gone",
        };
        let token = machine.token.as_ref().map_or("-", Token::as_str);
        format!("{}:{token}:{state}", self.called(&machine.id))
    }

    fn shown(&self, answer: Result<String, Refusal>) -> String {
        match answer {
            Ok(text) => text,
            Err(Refusal::NotFound(id)) => format!("! not found {}", self.called(&id)),
            Err(Refusal::Throttled { retry_after }) => format!("! throttled {retry_after:?}"),
            Err(refusal) => format!("! {refusal}"),
        }
    }

    /// One line: the second, what is asked, and about what.
    fn step(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (second, asked) = (words[0].parse::<u64>().unwrap(), words[1]);
        let about = words.get(2).copied().unwrap_or_default();
        let now = later(began(), second * 1000);
        self.account.advance(now);
        self.report();
        let answer = match asked {
            "wait" => return,
            "launch" => {
                let offerings = words.get(3).copied().unwrap_or("c-1/a/spot");
                let reply = self.account.launch(&order(about, offerings), now);
                reply.answer.map(|launched| match launched {
                    Launched::Underway => "underway".to_owned(),
                    Launched::Nothing => "nothing".to_owned(),
                    Launched::Machine { machine, passed_over } => {
                        let passed: Vec<String> =
                            passed_over.iter().map(|unavailable| format!("; {unavailable}")).collect();
                        let Machine { instance_type, zone, capacity_type, price, .. } = &machine;
                        let described = self.described(&machine);
                        format!(
                            "{described} {instance_type}/{zone}/{capacity_type} {price}{}",
                            passed.concat()
                        )
                    }
                })
            }
            "get" => self.account.get(&self.id(about), now).answer.map(|machine| self.described(&machine)),
            "terminate" => {
                self.account.terminate(&self.id(about), now).answer.map(|()| "accepted".to_owned())
            }
            "list" => {
                let from = if about == "on" { self.mark.take() } else { None };
                let page = self.account.list(from.as_ref(), now).answer;
                page.map(|page| {
                    let more = if page.next.is_some() { " and more" } else { "" };
                    self.mark = page.next;
                    let machines: Vec<String> = page.machines.iter().map(|m| self.described(m)).collect();
                    format!("[{}]{more}", machines.join(" "))
                })
            }
            "notices" => self.account.notices(now).answer.map(|notices| {
                let texts = notices.iter().map(|n| format!("{} {:?}", self.called(&n.machine), n.kind));
                format!("[{}]", texts.collect::<Vec<_>>().join(", "))
            }),
            "price" => {
                let wanted = alternative(about);
                self.account.catalog(now).answer.map(|catalog| {
                    let mut found = catalog.types.iter().filter(|t| t.name == wanted.instance_type);
                    let offerings = found.next().map(|t| t.offerings.clone()).unwrap_or_default();
                    let offering = offerings
                        .iter()
                        .find(|o| o.zone == wanted.zone && o.capacity_type == wanted.capacity_type);
                    offering.map_or("none".to_owned(), |offering| offering.price.to_string())
                })
            }
            "reclaim" => {
                let reclaim = Reclaim { share_permille: about.parse().unwrap(), ..Reclaim::default() };
                Ok(self.account.reclaim_now(&reclaim, now).to_string())
            }
            "reprice" => {
                self.account.reprice(&Reclaim::default().which, about.parse().unwrap(), now);
                return;
            }
            "cut" => {
                self.account.cut_off(about == "off", now);
                return;
            }
            other => panic!("{other} is nothing to ask for"),
        };
        let shown = self.shown(answer);
        writeln!(self.text, "{} = {shown}", words.join(" ")).unwrap();
        self.report();
    }

    fn report(&mut self) {
        let mut text = String::new();
        for happening in &self.account.history()[self.seen..] {
            let told = match &happening.event {
                Event::Asked { .. } | Event::Launched { .. } => continue,
                Event::Runs { machine } => format!("{} runs", self.called(machine)),
                Event::Joins(registration) => {
                    let label = |key: &str, short: &str| {
                        registration.labels.get(key).map(|value: &Text| format!(" {short}={value}"))
                    };
                    let labels = [label(names::ZONE, "zone"), label("team", "team")];
                    let labels: String = labels.into_iter().flatten().collect();
                    let taints = if registration.taints.is_empty() { "" } else { " tainted" };
                    format!(
                        "{} joins as {}{labels}{taints}",
                        self.called(&registration.machine),
                        registration.node
                    )
                }
                Event::Leaves { machine, node } => format!("{} leaves as {node}", self.called(machine)),
                Event::Noticed { notice, told } => {
                    let told = if *told { "told" } else { "not told" };
                    format!("{} has notice of {:?}, {told}", self.called(&notice.machine), notice.kind)
                }
                Event::Ends { machine, ending } => format!("{} ends {ending:?}", self.called(machine)),
            };
            let seconds = happening.at.duration_since(began()).as_secs();
            writeln!(text, "{seconds} {told}").unwrap();
        }
        self.seen = self.account.history().len();
        self.text.push_str(&text);
    }
}

fn play(weather: &str, script: &str) -> String {
    let weather = serde_json::from_str(weather).unwrap_or_else(|error| panic!("{weather}: {error}"));
    let mut play = Play::new(weather, 1);
    script.split(';').for_each(|line| play.step(line));
    play.text
}

/// The weather, the script with a semicolon between its lines, and what is seen.
fn check(weather: &str, script: &str, expected: &[&str]) {
    let found = play(weather, script);
    assert_eq!(found.lines().collect::<Vec<_>>(), expected, "in the weather {weather}");
}
