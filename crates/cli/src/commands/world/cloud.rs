//! The cloud of a world: what it is like, and the machines that it has sold when the world begins.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use berth_api::Timestamp;
use berth_cloud::LoadError;
use berth_cloud::machine::{MachineId, Order, Token};
use berth_cloud::provider::Refusal;
use berth_core::catalog::{CapacityType, Catalog, InstanceType, Offering, OfferingPattern};
use berth_core::names::{self, Labels};
use berth_core::plan::Alternative;
use berth_core::resources::{CPU, MEMORY, Resources};
use berth_world::cloud::weather::{Delay, Times};
use berth_world::cloud::{Account, Ending, Event, Happening, Record, SimulatedCloud, Weather};

use crate::args;
use crate::out;

/// What machines are bought for.
const POOL: &str = "world";

/// What a machine of any type has at least.
const ROOM: [(&str, i64); 2] = [(CPU, 8000), (MEMORY, 32 << 30)];

/// How many types are named to who meant another one.
const NEAR_MAX: usize = 4;

/// A cloud that is asked too often, or does not answer, is asked again.
const TRIES: u32 = 100;

#[derive(Debug, thiserror::Error)]
pub(crate) enum CloudError {
    #[error(transparent)]
    Catalog(#[from] LoadError),
    #[error("--machine: the catalog {catalog} has no type {name}; near it are {near}")]
    NoSuchType { catalog: String, name: String, near: String },
    #[error("--machine: the catalog {catalog} sells no {pattern}; {sold}")]
    NotSold { catalog: String, pattern: String, sold: String },
    #[error("--weather: {name}: {problem}")]
    Weather { name: String, problem: String },
    #[error("--nodes: {node} was not sold: {refusal}")]
    Refused { node: String, refusal: Refusal },
}

/// Must be called where tokio runs.
pub(super) fn begin(args: &args::World, now: Timestamp) -> Result<SimulatedCloud, CloudError> {
    let catalog = Arc::new(berth_cloud::load(&args.catalog, &args.offers.options())?);
    let orders = orders(&catalog, &args.machines, args.nodes)?;
    let mut account = Account::new(catalog, weather(args.weather.as_deref())?, args.seed, now);
    for order in &orders {
        buy(&mut account, order, now)
            .map_err(|refusal| CloudError::Refused { node: order.name.to_string(), refusal })?;
    }
    Ok(SimulatedCloud::new(account))
}

/// Says what the cloud does to machines by itself, for as long as this is awaited.
pub(super) async fn tell(cloud: &SimulatedCloud) {
    let mut happenings = cloud.happenings();
    loop {
        let happening = happenings.next().await;
        let line = cloud.inspect(|account| told(&happening, |id| account.record(id)));
        // Whoever does not listen any more may still want the world.
        let _ = line.map(|line| out::text(&line));
    }
}

fn told<'a>(happening: &Happening, record: impl Fn(&MachineId) -> Option<&'a Record>) -> Option<String> {
    let (id, what) = match &happening.event {
        Event::Noticed { notice, told: true } => {
            let until = notice.deadline.map(|deadline| format!(", and ends it at {deadline:.0}"));
            (&notice.machine, format!("the cloud gives notice{}", until.unwrap_or_default()))
        }
        Event::Ends { machine, ending: Ending::Reclaimed } => (machine, "the cloud has ended it".to_owned()),
        Event::Ends { machine, ending: Ending::Stillborn } => (machine, "it never ran".to_owned()),
        _ => return None,
    };
    let machine = &record(id)?.machine;
    let (at, name, capacity_type) = (happening.at, &machine.name, machine.capacity_type);
    Some(format!(
        "{at:.0} {name} ({} in {} as {capacity_type}): {what}\n",
        machine.instance_type, machine.zone
    ))
}

fn weather(given: Option<&str>) -> Result<Weather, CloudError> {
    let at_once = Times { launch: Delay::secs(0), join: Delay::secs(0), ..Times::default() };
    let Some(given) = given else { return Ok(Weather { times: at_once, ..Weather::default() }) };
    let is_written_out = given.trim_start().starts_with('{');
    let name = if is_written_out { "the text" } else { given };
    let refused = |problem: String| CloudError::Weather { name: name.to_owned(), problem };
    let text = if is_written_out {
        given.to_owned()
    } else {
        fs::read_to_string(given).map_err(|error| refused(error.to_string()))?
    };
    let weather: Weather = serde_saphyr::from_str(&text).map_err(|error| refused(error.to_string()))?;
    let fields: serde_json::Value =
        serde_saphyr::from_str(&text).map_err(|error| refused(error.to_string()))?;
    let has_times = fields.get("times").is_some();
    Ok(if has_times { weather } else { Weather { times: at_once, ..weather } })
}

fn buy(account: &mut Account, order: &Order, now: Timestamp) -> Result<(), Refusal> {
    let mut tries = 1;
    loop {
        match account.launch(order, now).answer {
            Ok(_) => return Ok(()),
            Err(Refusal::Throttled { .. } | Refusal::Unknown(_)) if tries < TRIES => tries += 1,
            Err(refusal) => return Err(refusal),
        }
    }
}

/// The machines to buy: patterns by turns, and the zones of each by turns.
fn orders(catalog: &Catalog, patterns: &[OfferingPattern], count: u16) -> Result<Vec<Order>, CloudError> {
    let any = [OfferingPattern::default()];
    let patterns = if patterns.is_empty() { &any } else { patterns };
    let choices: Vec<Choice<'_>> =
        patterns.iter().map(|pattern| choose(catalog, pattern)).collect::<Result<_, _>>()?;
    let mut turns: BTreeMap<usize, usize> = BTreeMap::new();
    let numbered = (1..=count).zip((0..choices.len()).cycle());
    let orders = numbered.filter_map(|(number, which)| {
        let turn = turns.entry(which).or_default();
        let (kind, offerings) = choices.get(which)?;
        let offering = offerings.get(turn.checked_rem(offerings.len())?)?;
        *turn += 1;
        order(number, kind, offering)
    });
    Ok(orders.collect())
}

fn order(number: u16, kind: &InstanceType, offering: &Offering) -> Option<Order> {
    let labels: Labels = kind
        .labels
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()))
        .chain(offering.node_labels())
        .collect();
    Some(Order {
        labels: Arc::new(labels),
        ..Order::new(
            Token::parse(&format!("{POOL}-{number}"))?,
            format!("node-{number}"),
            POOL,
            vec![Alternative {
                instance_type: kind.name.clone(),
                zone: offering.zone.clone(),
                capacity_type: offering.capacity_type,
                price_per_hour: offering.price,
            }],
        )
    })
}

/// A type, and the offerings of it that will do, zone by zone; never none.
type Choice<'a> = (&'a InstanceType, Vec<&'a Offering>);

/// Any type is the cheapest that has room, any capacity type is on-demand if that is sold.
fn choose<'a>(catalog: &'a Catalog, pattern: &OfferingPattern) -> Result<Choice<'a>, CloudError> {
    if let Some(name) = &pattern.instance_type
        && catalog.types.iter().all(|kind| kind.name != *name)
    {
        let near = near(catalog, name).join(", ");
        return Err(CloudError::NoSuchType {
            catalog: catalog.name.to_string(),
            name: name.to_string(),
            near,
        });
    }
    let choices = catalog.types.iter().filter_map(|kind| {
        let is_meant = match &pattern.instance_type {
            Some(name) => kind.name == *name,
            None => has_room(kind),
        };
        let does = |offering: &&Offering| offering.available && pattern.matches(&kind.name, offering);
        let matching = || kind.offerings.iter().filter(does);
        let is_on_demand = |offering: &&Offering| offering.capacity_type == CapacityType::OnDemand;
        let wanted = matching().find(is_on_demand).or_else(|| matching().next())?.capacity_type;
        let mut offerings: Vec<&Offering> =
            matching().filter(|offering| offering.capacity_type == wanted).collect();
        // Of several offerings in a zone the first will do.
        offerings.dedup_by(|next, first| next.zone == first.zone);
        is_meant.then_some((&**kind, offerings))
    });
    let price = |choice: &Choice<'_>| choice.1.first().map(|offering| offering.price);
    choices.min_by_key(price).ok_or_else(|| not_sold(catalog, pattern))
}

fn has_room(kind: &InstanceType) -> bool {
    let is = |label: &str, value: &str| kind.labels.get(label).is_none_or(|known| **known == *value);
    is(names::OS, "linux")
        && is(names::ARCH, "amd64")
        && Resources::of(&ROOM).first_exceeding(&kind.capacity).is_none()
}

fn not_sold(catalog: &Catalog, pattern: &OfferingPattern) -> CloudError {
    let pattern_text = format!(
        "{}:{}:{}",
        pattern.instance_type.as_deref().unwrap_or("*"),
        pattern.zone.as_deref().unwrap_or("*"),
        pattern.capacity_type.map_or("*", CapacityType::name)
    );
    let kinds = catalog
        .types
        .iter()
        .filter(|kind| pattern.instance_type.as_ref().is_none_or(|name| kind.name == *name));
    let mut sold: Vec<String> = kinds
        .flat_map(|kind| &kind.offerings)
        .map(|offering| format!("{}:{}", offering.zone, offering.capacity_type))
        .collect();
    sold.sort();
    sold.dedup();
    let sold = match (&pattern.zone, &pattern.capacity_type) {
        (None, None) => "no type of it has 8 CPUs and 32 GiB: name a type".to_owned(),
        _ => format!("it sells {}", sold.join(", ")),
    };
    CloudError::NotSold { catalog: catalog.name.to_string(), pattern: pattern_text, sold }
}

/// Types whose names begin as this one does.
fn near<'a>(catalog: &'a Catalog, name: &str) -> Vec<&'a str> {
    let common = |other: &str| name.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let mut names: Vec<&str> = catalog.types.iter().map(|kind| &*kind.name).collect();
    names.sort_by_key(|other| (std::cmp::Reverse(common(other)), other.len().abs_diff(name.len())));
    names.truncate(NEAR_MAX);
    names
}

#[cfg(test)]
mod tests {
    use berth_cloud::CatalogOptions;

    use super::*;

    fn catalog() -> Catalog {
        berth_cloud::load("kwok", &CatalogOptions::default()).expect("it is built in")
    }

    fn pattern(text: &str) -> OfferingPattern {
        args::offering_pattern(text).expect("it is one")
    }

    #[test]
    fn machines_are_bought_by_turns() {
        let rows: [(&[&str], u16, &[&str]); 4] = [
            (&[], 0, &[]),
            (
                &[],
                5,
                &[
                    "node-1 s-8x-amd64-linux test-zone-a on-demand",
                    "node-2 s-8x-amd64-linux test-zone-b on-demand",
                    "node-3 s-8x-amd64-linux test-zone-c on-demand",
                    "node-4 s-8x-amd64-linux test-zone-d on-demand",
                    "node-5 s-8x-amd64-linux test-zone-a on-demand",
                ],
            ),
            (
                &["*:*:spot", "c-1x-arm64-linux:test-zone-b:*"],
                4,
                &[
                    "node-1 s-8x-amd64-linux test-zone-a spot",
                    "node-2 c-1x-arm64-linux test-zone-b on-demand",
                    "node-3 s-8x-amd64-linux test-zone-b spot",
                    "node-4 c-1x-arm64-linux test-zone-b on-demand",
                ],
            ),
            (&["*:*:spot", "*:*:on-demand"], 1, &["node-1 s-8x-amd64-linux test-zone-a spot"]),
        ];
        for (patterns, count, expected) in rows {
            let patterns: Vec<OfferingPattern> = patterns.iter().map(|text| pattern(text)).collect();
            let orders = orders(&catalog(), &patterns, count).expect("all of it is sold");
            let short: Vec<String> = orders
                .iter()
                .map(|order| {
                    let Alternative { instance_type, zone, capacity_type, .. } = &order.offerings[0];
                    assert_eq!(*order.labels[names::ZONE], **zone);
                    assert_eq!(*order.labels[names::CAPACITY_TYPE], *capacity_type.name());
                    assert_eq!(*order.labels[names::INSTANCE_TYPE], **instance_type);
                    format!("{} {instance_type} {zone} {capacity_type}", order.name)
                })
                .collect();
            assert_eq!(short, expected);
        }
    }

    #[test]
    fn what_is_not_sold() {
        let zones = "it sells test-zone-a:on-demand, test-zone-a:spot, test-zone-b:on-demand";
        for (text, complaint) in [
            (
                "s-8x:*:*",
                "the catalog kwok has no type s-8x; near it are s-8x-amd64-linux, s-8x-arm64-linux, s-8x-",
            ),
            ("m5.large:*:*", "has no type m5.large; near it are m-"),
            ("*:mars:*", zones),
            (
                "s-8x-amd64-linux:mars:spot",
                "sells no s-8x-amd64-linux:mars:spot; it sells test-zone-a:on-demand",
            ),
            ("*:*:reserved", zones),
        ] {
            let error = orders(&catalog(), &[pattern(text)], 1).expect_err(text).to_string();
            assert!(error.contains(complaint), "{text}: {error}");
        }
        let small = Catalog {
            name: "small".into(),
            types: catalog().types.into_iter().filter(|kind| kind.name.starts_with("c-1x")).collect(),
        };
        let error = orders(&small, &[], 1).expect_err("too small").to_string();
        assert!(error.ends_with("no type of it has 8 CPUs and 32 GiB: name a type"), "{error}");
    }

    #[test]
    fn weather_is_written_out_or_in_a_file() {
        let at_once = weather(None).expect("none is given").times;
        assert_eq!((at_once.launch, at_once.join), (Delay::secs(0), Delay::secs(0)));
        let reclaims = weather(Some("{reclaims: [{atMs: 60000, noticeMs: 30000}]}")).expect("it is weather");
        assert_eq!((reclaims.times, reclaims.reclaims[0].notice_ms), (at_once, 30_000));
        let slow = weather(Some("{times: {}}")).expect("it is weather");
        assert_eq!(slow.times, Times::default());
        for (given, complaint) in [
            ("{rain: true}", "--weather: the text: "),
            ("{reclaims: [{atMs: soon}]}", "--weather: the text: "),
            ("no-such-file", "--weather: no-such-file: "),
        ] {
            let error = weather(Some(given)).expect_err(given).to_string();
            assert!(error.starts_with(complaint), "{given}: {error}");
        }
    }

    #[test]
    fn what_the_cloud_does_is_told() {
        let began: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        let text =
            "{reclaims: [{atMs: 60000, noticeMs: 30000, machinesMax: 1}], launches: {stillborn: {nth: [2]}}}";
        let weather = weather(Some(text)).expect("it is weather");
        let mut account = Account::new(Arc::new(catalog()), weather, 1, began);
        for order in orders(&catalog(), &[pattern("*:*:spot")], 2).expect("all of it is sold") {
            buy(&mut account, &order, began).expect("it is sold");
        }
        account.advance("2026-01-01T01:00:00Z".parse().expect("a time"));
        let lines: Vec<String> = account
            .history()
            .iter()
            .filter_map(|happening| told(happening, |id| account.record(id)))
            .collect();
        assert_eq!(
            lines,
            [
                "2026-01-01T00:00:00Z node-2 (s-8x-amd64-linux in test-zone-b as spot): it never ran\n",
                "2026-01-01T00:01:00Z node-1 (s-8x-amd64-linux in test-zone-a as spot): the cloud gives notice, and ends it at 2026-01-01T00:01:30Z\n",
                "2026-01-01T00:01:30Z node-1 (s-8x-amd64-linux in test-zone-a as spot): the cloud has ended it\n",
            ]
        );
    }
}
