//! A pool's ledger as text: the annotation that holds what the pool has committed itself to.

use std::collections::BTreeMap;

use berth_core::commitment::{Commitments, Departure};
use berth_core::disruption::DisruptionReason;
use berth_core::names::Text;
use berth_core::resources::Resources;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

/// The annotation of a pool that is its ledger.
pub const LEDGER: &str = "berth.dev/ledger";

/// The form that is written and read. A record in another form is somebody else's, who knows more.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Written {
    version: u32,
    epoch: u64,
    next: u64,
    /// Claims of one capacity together: a pool has thousands of nodes of a few sizes.
    claims: Vec<Alike>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    unborn: BTreeMap<Text, i64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    leaving: BTreeMap<Text, WrittenDeparture>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replaced: Option<i64>,
}

#[derive(Serialize, Deserialize)]
struct Alike {
    capacity: BTreeMap<Text, i64>,
    names: Vec<Text>,
}

#[derive(Serialize, Deserialize)]
struct WrittenDeparture {
    reason: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    replacements: Vec<Text>,
    since: i64,
}

/// A record that cannot be read, so that nothing may be added to it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the annotation {LEDGER} cannot be read: {0}; it is Berth's own, and nothing is bought until it is right or removed"
)]
pub struct Unreadable(String);

/// The record of a pool.
pub fn of(pool: &ObjectMeta) -> Result<Commitments, Unreadable> {
    let annotations = pool.annotations.as_ref();
    parse(annotations.and_then(|all| all.get(LEDGER)).map(String::as_str))
}

/// The record of a pool with this annotation; a pool without one has committed itself to nothing.
pub fn parse(annotation: Option<&str>) -> Result<Commitments, Unreadable> {
    let Some(text) = annotation else { return Ok(Commitments::default()) };
    let written: Written = serde_json::from_str(text).map_err(|error| Unreadable(error.to_string()))?;
    if written.version != VERSION {
        return Err(Unreadable(format!("it is of version {}, and {VERSION} is known", written.version)));
    }
    let claims = written.claims.into_iter().flat_map(|Alike { capacity, names }| {
        let mut resources = Resources::new();
        for (resource, amount) in &capacity {
            resources.set(resource, *amount);
        }
        names.into_iter().map(move |name| (name, resources.clone()))
    });
    let departure = |(name, departure): (Text, WrittenDeparture)| {
        let WrittenDeparture { reason, replacements, since: since_secs } = departure;
        let reason = DisruptionReason::ALL.into_iter().find(|known| known.name() == reason);
        let reason =
            reason.ok_or_else(|| Unreadable(format!("{name} leaves for no reason that is known")))?;
        Ok((name, Departure { reason, replacements, since_secs }))
    };
    Ok(Commitments {
        epoch: written.epoch,
        next: written.next,
        claims: claims.collect(),
        unborn: written.unborn,
        leaving: written.leaving.into_iter().map(departure).collect::<Result<_, _>>()?,
        replaced_secs: written.replaced,
    })
}

pub fn written(record: &Commitments) -> String {
    let mut alike: BTreeMap<BTreeMap<Text, i64>, Vec<Text>> = BTreeMap::new();
    for (name, capacity) in &record.claims {
        let key = capacity.iter().map(|(resource, amount)| (resource.clone(), amount)).collect();
        alike.entry(key).or_default().push(name.clone());
    }
    let departure = |(name, departure): (&Text, &Departure)| {
        let Departure { reason, replacements, since_secs } = departure;
        let written = WrittenDeparture {
            reason: reason.name().to_owned(),
            replacements: replacements.clone(),
            since: *since_secs,
        };
        (name.clone(), written)
    };
    let written = Written {
        version: VERSION,
        epoch: record.epoch,
        next: record.next,
        unborn: record.unborn.clone(),
        claims: alike.into_iter().map(|(capacity, names)| Alike { capacity, names }).collect(),
        leaving: record.leaving.iter().map(departure).collect(),
        replaced: record.replaced_secs,
    };
    // Maps with text for keys, lists and numbers: there is nothing that could not be written.
    serde_json::to_string(&written).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let cpu = |milli| Resources::of(&[("cpu", milli)]);
        let departure = Departure {
            reason: DisruptionReason::Underutilized,
            replacements: vec!["p-3".into()],
            since_secs: 1700,
        };
        let record = Commitments {
            epoch: 4,
            next: 3,
            unborn: BTreeMap::from([("p-3".into(), 1710)]),
            claims: [("p-1", 4000), ("p-2", 2000), ("p-3", 4000)]
                .into_iter()
                .map(|(name, milli)| (name.into(), cpu(milli)))
                .collect(),
            leaving: BTreeMap::from([("p-2".into(), departure)]),
            replaced_secs: Some(1700),
        };
        let text = written(&record);
        assert_eq!(
            text,
            r#"{"version":1,"epoch":4,"next":3,"claims":[{"capacity":{"cpu":2000},"names":["p-2"]},{"capacity":{"cpu":4000},"names":["p-1","p-3"]}],"unborn":{"p-3":1710},"leaving":{"p-2":{"reason":"Underutilized","replacements":["p-3"],"since":1700}},"replaced":1700}"#
        );
        assert_eq!(parse(Some(&text)), Ok(record));
        assert_eq!(parse(None), Ok(Commitments::default()));
    }

    #[test]
    fn records_of_others_are_left_alone() {
        for (text, complaint) in [
            ("", "EOF"),
            ("{}", "missing field"),
            (r#"{"version":2,"epoch":1,"next":1,"claims":[]}"#, "it is of version 2"),
            (
                r#"{"version":1,"epoch":1,"next":1,"claims":[],"leaving":{"a":{"reason":"Bored","since":0}}}"#,
                "a leaves for no reason",
            ),
        ] {
            let error = parse(Some(text)).unwrap_err().to_string();
            assert!(error.contains(complaint), "{error}");
        }
    }
}
