//! The cloud as plain data: it is told the time, and asked.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_cloud::machine::{Machine, MachineId, MachineState, Notice, Token};
use berth_cloud::provider::Refusal;
use berth_core::catalog::{CapacityType, Catalog};
use berth_core::names::Text;
use berth_core::units::Price;
use jiff::{SignedDuration, Timestamp};

use super::fate::Fate;
use super::history::{Call, Ending, Event, Happening, Record, Shown};
use super::weather::{Odds, Reclaim, StockChange, Stranger, Weather};

/// An account at a simulated cloud, with its whole history.
///
/// The same catalog, weather, seed, calls and times give the same answers and the same history. Time never
/// goes back: what is asked at an earlier time is answered as of the latest.
#[derive(Clone, Debug)]
pub struct Account {
    pub(super) catalog: Arc<Catalog>,
    pub(super) weather: Weather,
    pub(super) fate: Fate,
    pub(super) now: Timestamp,
    pub(super) records: Vec<Record>,
    pub(super) purchases: u64,
    pub(super) by_id: BTreeMap<MachineId, usize>,
    pub(super) by_token: BTreeMap<Token, usize>,
    /// What is left of offerings that can run out.
    pub(super) stock: BTreeMap<Sold, u32>,
    /// Those that were told, in their order.
    pub(super) notices: Vec<Notice>,
    pub(super) notices_given: u64,
    pub(super) is_cut_off: bool,
    /// What provider ids are like: what stands before the zone, and before the id.
    provider_ids: (Text, Text),
    began: Timestamp,
    /// What is to happen: by time, then in the order of planning it.
    due: BTreeMap<(Timestamp, u64), Due>,
    planned: u64,
    calls: BTreeMap<Call, u64>,
    history: Vec<Happening>,
    /// How often the weather has struck: it may strike who only looks.
    struck: Cell<u64>,
}

/// Instance type, zone and capacity type.
pub(super) type Sold = (Text, Text, CapacityType);

#[derive(Clone, Debug)]
pub(super) enum Due {
    Stock(StockChange),
    Reclaim(Reclaim),
    Runs(usize),
    Joins(usize),
    JoinsAgain(usize),
    Stops(usize),
    Ends(usize, Ending),
}

/// An answer, and how long it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply<T> {
    pub answer: Result<T, Refusal>,
    pub after: Duration,
}

impl Account {
    pub fn new(catalog: Arc<Catalog>, mut weather: Weather, seed: u64, began: Timestamp) -> Self {
        weather.prices.sort_by_key(|change| change.at_ms);
        weather.quotas.sort_by_key(|quota| quota.at_ms);
        let mut account = Self {
            stock: bounded_from_the_start(&catalog),
            catalog,
            weather,
            fate: Fate(seed),
            now: began,
            records: Vec::new(),
            purchases: 0,
            by_id: BTreeMap::new(),
            by_token: BTreeMap::new(),
            notices: Vec::new(),
            notices_given: 0,
            is_cut_off: false,
            provider_ids: ("sim://".into(), "".into()),
            began,
            due: BTreeMap::new(),
            planned: 0,
            calls: BTreeMap::new(),
            history: Vec::new(),
            struck: Cell::new(0),
        };
        for stranger in account.weather.strangers.clone() {
            account.shelter(stranger);
        }
        for change in account.weather.stock.clone() {
            account.plan(change.at_ms, Due::Stock(change));
        }
        for reclaim in account.weather.reclaims.clone() {
            account.plan(reclaim.at_ms, Due::Reclaim(reclaim));
        }
        account
    }

    /// Gives machines from now on the provider ids of another cloud: `scheme://zone/cluster/id`.
    #[must_use]
    pub fn with_provider_ids(mut self, scheme: &str, cluster: &str) -> Self {
        self.provider_ids = (format!("{scheme}://").into(), format!("{cluster}/").into());
        self
    }

    /// Where provider ids are another cloud's, machines have addresses too, by their numbers.
    pub(super) fn address(&self, number: u64) -> Option<Text> {
        let (_, cluster) = &self.provider_ids;
        (!cluster.is_empty())
            .then(|| format!("10.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, number & 255).into())
    }

    pub(super) fn provider_id(&self, zone: &str, id: &MachineId) -> Text {
        let (scheme, cluster) = &self.provider_ids;
        format!("{scheme}{zone}/{cluster}{id}").into()
    }

    /// All that falls due until then happens, in its order.
    pub fn advance(&mut self, now: Timestamp) {
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((at, _), due) = entry.remove_entry();
            self.now = self.now.max(at);
            self.befall(due);
        }
        self.now = self.now.max(now);
    }

    /// When something happens next, if nobody asks for anything.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.due.keys().next().map(|(at, _)| *at)
    }

    /// All machines that ever were, in the order in which they came to be.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    pub fn record(&self, id: &MachineId) -> Option<&Record> {
        self.by_id.get(id).and_then(|index| self.records.get(*index))
    }

    /// All that ever happened, in its order.
    pub fn history(&self) -> &[Happening] {
        &self.history
    }

    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Every call goes through here, with what may go wrong on its way there and back.
    pub(super) fn call<T>(
        &mut self,
        call: Call,
        about: Option<&str>,
        now: Timestamp,
        perform: impl FnOnce(&mut Self, u64) -> Result<T, Refusal>,
    ) -> Reply<T> {
        self.advance(now);
        let number = *self.calls.entry(call).and_modify(|count| *count += 1).or_insert(1);
        let faults = self.weather.calls.get(&call).cloned().unwrap_or_default();
        let at_ms = self.elapsed_ms(self.now);
        let strikes = |account: &Self, odds: &Odds, fault: &str| {
            account.strikes(odds, &format!("{} {fault}", call.name()), number, at_ms)
        };
        let answer = if strikes(self, &faults.denied, "denied") {
            Err(Refusal::Denied("the credentials are not accepted".to_owned()))
        } else if strikes(self, &faults.throttled, "throttled") {
            Err(Refusal::Throttled { retry_after: faults.retry_after_ms.map(Duration::from_millis) })
        } else if self.is_cut_off || strikes(self, &faults.unreachable, "unreachable") {
            Err(Refusal::Unknown("the cloud cannot be reached".to_owned()))
        } else {
            let answer = perform(self, number);
            let lost = strikes(self, &faults.reply_lost, "reply lost");
            if lost { Err(Refusal::Unknown("the answer was lost".to_owned())) } else { answer }
        };
        let slow_by_ms = if strikes(self, &faults.slow, "slow") { faults.slow_by_ms } else { 0 };
        let usual_ms = self.fate.delay_ms(self.weather.times.answer, call.name(), number);
        let refusal = answer.as_ref().err().cloned();
        self.happen(Event::Asked { call, about: about.map(Text::from), refusal });
        Reply { answer, after: Duration::from_millis(usual_ms.saturating_add(slow_by_ms)) }
    }

    /// Whether it befalls the n-th subject. If so, it is counted.
    pub(super) fn strikes(&self, odds: &Odds, question: &str, nth: u64, at_ms: u64) -> bool {
        let strikes = self.fate.strikes(odds, question, nth, at_ms);
        if strikes {
            self.strike();
        }
        strikes
    }

    pub(super) fn strike(&self) {
        self.struck.set(self.struck.get() + 1);
    }

    /// How often the weather's odds struck, and its market had not what was asked for.
    pub fn faults_struck(&self) -> u64 {
        self.struck.get()
    }

    pub(super) fn happen(&mut self, event: Event) {
        self.history.push(Happening { at: self.now, event });
    }

    /// So long after the beginning.
    fn plan(&mut self, at_ms: u64, due: Due) {
        self.plan_at(later(self.began, at_ms), due);
    }

    /// So long from now.
    pub(super) fn plan_in(&mut self, ms: u64, due: Due) {
        self.plan_at(later(self.now, ms), due);
    }

    fn plan_at(&mut self, at: Timestamp, due: Due) {
        self.planned += 1;
        self.due.insert((at, self.planned), due);
    }

    pub(super) fn elapsed_ms(&self, at: Timestamp) -> u64 {
        u64::try_from(at.duration_since(self.began).as_millis()).unwrap_or(0)
    }

    fn shelter(&mut self, stranger: Stranger) {
        let id = self.next_id();
        self.by_id.insert(id.clone(), self.records.len());
        self.records.push(Record {
            machine: Machine {
                provider_id: self.provider_id(&stranger.zone, &id),
                id,
                token: Token::of_tags(&stranger.tags),
                name: stranger.name,
                address: None,
                instance_type: stranger.instance_type,
                zone: stranger.zone,
                capacity_type: stranger.capacity_type,
                price: Price::ZERO,
                state: MachineState::Running,
                tags: stranger.tags,
                launched_at: self.now,
                extras: Box::default(),
            },
            purchase: None,
            node: None,
            doomed_at: None,
            terminations_asked: Vec::new(),
            ended: None,
            shown: Shown {
                named_from: self.now,
                from: self.now,
                until: Timestamp::MAX,
                last_state: MachineState::Running,
                tagged: true,
            },
            ending: false,
        });
    }

    pub(super) fn next_id(&self) -> MachineId {
        let index = self.records.len() as u64;
        let lot = self.fate.lot("id", index) >> 32;
        MachineId::from(format!("i-{lot:08x}{index:08x}").as_str())
    }
}

pub(super) fn later(at: Timestamp, ms: u64) -> Timestamp {
    let passed = i64::try_from(ms).map_or(SignedDuration::MAX, SignedDuration::from_millis);
    at.checked_add(passed).unwrap_or(Timestamp::MAX)
}

/// Reservations say how many are left of them.
fn bounded_from_the_start(catalog: &Catalog) -> BTreeMap<Sold, u32> {
    let offerings = catalog.types.iter().flat_map(|t| t.offerings.iter().map(move |offering| (t, offering)));
    offerings
        .filter_map(|(t, offering)| {
            let sold = (t.name.clone(), offering.zone.clone(), offering.capacity_type);
            offering.remaining.map(|remaining| (sold, remaining))
        })
        .collect()
}
