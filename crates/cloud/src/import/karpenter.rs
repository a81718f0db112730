//! The instance types of Karpenter's KWOK provider (`instance_types.json`).
//!
//! Both of its schemas are read: the present one, where an offering is a price with requirements, and the
//! older flat one with `zone` and `capacityType`. A requirement with several values stands for an offering
//! of each. Unlike Karpenter, which makes every offering available, Berth believes `"Available": false`.

use std::collections::BTreeMap;

use berth_core::catalog::{CapacityType, Catalog, InstanceType, Offering};
use berth_core::names::{self, Labels, Text, label_value_problem};
use berth_core::resources::{CPU, MEMORY, PODS};

use super::{Draft, PODS_DEFAULT, Repeated, capacity_type, unknown_capacity_type};
use crate::error::{CatalogError, Problem};
use crate::field::Field;
use crate::kwok;

/// More would be a mistake, or an attempt to fill the memory.
const OFFERINGS_PER_LINE_MAX: usize = 1000;

pub(super) fn read(list: &Field, name: &str) -> Result<Catalog, CatalogError> {
    let mut draft = Draft::default();
    for item in list.items("a list of instance types")? {
        draft.add(instance_type(&item)?, Repeated::Refused, || item.get("name").place())?;
    }
    draft.finish(name)
}

fn instance_type(item: &Field) -> Result<InstanceType, CatalogError> {
    let name = item.get("name").label_value("the type's name")?;
    let resources = item.get("resources");
    let mut capacity = resources.resources()?;
    for (resource, wanted) in [(CPU, "a quantity such as 4"), (MEMORY, "a quantity such as 16Gi")] {
        if !capacity.names(resource) {
            return Err(resources.get(resource).error(Problem::Missing(wanted)));
        }
    }
    if !capacity.names(PODS) {
        capacity.set(PODS, PODS_DEFAULT);
    }
    let arch = item.get("architecture").label_value("amd64 or arm64")?;
    let mut labels = kwok::labels(&name, &arch, &capacity);
    let systems = operating_systems(&item.get("operatingSystems"))?;
    if let [only] = systems.as_slice() {
        labels.insert(names::OS.into(), only.clone());
    }
    let mut offerings = Vec::new();
    for line in item.get("offerings").items("the list of offerings")? {
        read_offerings(&line, &systems, &mut offerings)?;
    }
    Ok(InstanceType {
        name,
        labels,
        capacity,
        overhead: kwok::overhead(),
        volume_limits: BTreeMap::new(),
        offerings,
    })
}

/// A list of names, or in the older schema an object with the names as keys.
fn operating_systems(field: &Field) -> Result<Vec<Text>, CatalogError> {
    const WANTED: &str = "a list such as [\"linux\"]";
    let mut systems: Vec<Text> = match field.object(WANTED) {
        Ok(by_name) => by_name
            .keys()
            .map(|name| match label_value_problem(name) {
                None => Ok(Text::from(name.as_str())),
                Some(problem) => Err(field.error(Problem::Label { found: name.clone(), problem })),
            })
            .collect::<Result<_, _>>()?,
        Err(_) => field
            .items(WANTED)?
            .map(|system| system.label_value("an operating system such as linux"))
            .collect::<Result<_, _>>()?,
    };
    systems.sort();
    systems.dedup();
    if systems.is_empty() {
        return Err(field.error(Problem::Missing(WANTED)));
    }
    Ok(systems)
}

/// One line of a type's offerings: an offering for each combination of its requirements' values.
fn read_offerings(line: &Field, systems: &[Text], into: &mut Vec<Offering>) -> Result<(), CatalogError> {
    let price = line.get_any(&["Price", "price"]).price()?;
    let available = line.get_any(&["Available", "available"]).boolean_or(true)?;
    let reservation = line.get_any(&["ReservationCapacity", "reservationCapacity"]);
    let requirements = line.get_any(&["Requirements", "requirements"]);
    let mut choices = if requirements.is_present() {
        required_values(&requirements)?
    } else {
        let zone = line.get("zone").label_value("the zone's name")?;
        let capacity_type = capacity_type(&line.get("capacityType"))?.name();
        BTreeMap::from([
            (names::ZONE.into(), vec![zone]),
            (names::CAPACITY_TYPE.into(), vec![capacity_type.into()]),
        ])
    };
    if systems.len() > 1 {
        choices.entry(names::OS.into()).or_insert_with(|| systems.to_vec());
    }
    let count = choices.values().fold(1, |count: usize, values| count.saturating_mul(values.len()));
    if count > OFFERINGS_PER_LINE_MAX {
        return Err(line.error(Problem::TooManyOfferings(count)));
    }
    for mut labels in combinations(&choices) {
        let demand = |key: &str| {
            let field = requirements.get(key);
            field.error(Problem::Missing("a requirement with operator In"))
        };
        let zone = labels.remove(names::ZONE).ok_or_else(|| demand(names::ZONE))?;
        let word = labels.remove(names::CAPACITY_TYPE).ok_or_else(|| demand(names::CAPACITY_TYPE))?;
        let capacity_type =
            CapacityType::parse(&word).ok_or_else(|| requirements.error(unknown_capacity_type(&word)))?;
        let remaining = if capacity_type == CapacityType::Reserved && reservation.is_present() {
            Some(reservation.count("a whole number of nodes")?)
        } else {
            None
        };
        into.push(Offering { zone, capacity_type, price, estimated: false, available, remaining, labels });
    }
    Ok(())
}

fn required_values(requirements: &Field) -> Result<BTreeMap<Text, Vec<Text>>, CatalogError> {
    let mut choices = BTreeMap::new();
    for requirement in requirements.items("a list of requirements")? {
        let operator = requirement.get("operator");
        let word = operator.text("In")?;
        if word != "In" {
            return Err(operator.error(Problem::UnknownWord {
                found: word.to_owned(),
                wanted: "In, the only operator of an offering".to_owned(),
            }));
        }
        let values = requirement.get("values");
        let mut listed: Vec<Text> = values
            .items("a list of values")?
            .map(|value| value.label_value("a label's value"))
            .collect::<Result<_, _>>()?;
        listed.sort();
        listed.dedup();
        if listed.is_empty() {
            return Err(values.error(Problem::Missing("at least one value")));
        }
        let key = requirement.get("key").text("a label key")?;
        choices.insert(names::normalized_key(key).into(), listed);
    }
    Ok(choices)
}

fn combinations(choices: &BTreeMap<Text, Vec<Text>>) -> Vec<Labels> {
    let mut all = vec![Labels::new()];
    for (key, values) in choices {
        all = all
            .iter()
            .flat_map(|labels| {
                values.iter().map(|value| {
                    let mut labels = labels.clone();
                    labels.insert(key.clone(), value.clone());
                    labels
                })
            })
            .collect();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::import;
    use crate::{CatalogOptions, builtin};

    const CURRENT: &str = r#"[{"name": "s-4x-amd64-linux", "architecture": "amd64", "operatingSystems": ["linux"],
        "resources": {"cpu": "4", "memory": "16Gi", "pods": "64", "ephemeral-storage": "20Gi"},
        "offerings": [{"Price": 0.117179869184, "Available": true, "Requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-a"]}]}]}]"#;

    const FLAT: &str = r#"[{"name": "g5.4xlarge", "architecture": "amd64", "operatingSystems": {"linux": {}},
        "resources": {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "1"},
        "offerings": [{"capacityType": "on-demand", "zone": "us-east-1a", "price": 1.624},
                      {"capacityType": "spot", "zone": "us-east-1a", "price": 0.5}]}]"#;

    /// Each offering as `zone capacity-type price labels…`.
    fn offerings(text: &str) -> Result<Vec<String>, String> {
        let catalog = import(text, "c", &CatalogOptions::default()).map_err(|error| error.to_string())?;
        Ok(catalog.types[0]
            .offerings
            .iter()
            .map(|o| {
                let mut words = vec![format!("{} {} {}", o.zone, o.capacity_type, o.price)];
                words.extend(o.labels.iter().map(|(key, value)| format!("{key}={value}")));
                words.extend(o.remaining.map(|count| format!("{count} left")));
                words.extend((!o.available).then(|| "unavailable".to_owned()));
                words.join(" ")
            })
            .collect())
    }

    #[test]
    fn the_present_schema_is_the_builtin_catalogs() {
        let imported = import(CURRENT, "kwok", &CatalogOptions::default()).unwrap();
        let builtin = builtin("kwok", &CatalogOptions::default()).unwrap();
        let same = builtin.types.iter().find(|t| t.name == imported.types[0].name).unwrap();
        let mut expected = (**same).clone();
        expected.offerings.truncate(1);
        assert_eq!(*imported.types[0], expected);
    }

    #[test]
    fn offerings_of_both_schemas() {
        for (text, part, replacement, expected) in [
            (FLAT, "", "", &["us-east-1a on-demand 1.624000", "us-east-1a spot 0.500000"][..]),
            (
                FLAT,
                r#"{"linux": {}}"#,
                r#"["windows", "linux"]"#,
                &[
                    "us-east-1a on-demand 1.624000 kubernetes.io/os=linux",
                    "us-east-1a on-demand 1.624000 kubernetes.io/os=windows",
                    "us-east-1a spot 0.500000 kubernetes.io/os=linux",
                    "us-east-1a spot 0.500000 kubernetes.io/os=windows",
                ],
            ),
            (
                CURRENT,
                r#"["test-zone-a"]"#,
                r#"["b", "a"]"#,
                &["a on-demand 0.117180", "b on-demand 0.117180"],
            ),
            (
                CURRENT,
                r#""Available": true"#,
                r#""Available": false"#,
                &["test-zone-a on-demand 0.117180 unavailable"],
            ),
            (
                FLAT,
                r#""spot", "zone""#,
                r#""reserved", "ReservationCapacity": 7, "zone""#,
                &["us-east-1a reserved 0.500000 7 left", "us-east-1a on-demand 1.624000"],
            ),
            (
                CURRENT,
                r#""values": ["on-demand"]}"#,
                r#""values": ["reserved"]}, {"key": "karpenter.k8s.aws/capacity-reservation-id", "operator": "In", "values": ["cr-1"]}"#,
                &["test-zone-a reserved 0.117180 karpenter.k8s.aws/capacity-reservation-id=cr-1"],
            ),
        ] {
            assert!(text.contains(part), "{part}");
            assert_eq!(offerings(&text.replacen(part, replacement, 1)).unwrap(), expected);
        }
    }

    #[test]
    fn errors_say_where() {
        let many = format!("[{}]", (0..1001).map(|i| format!("\"z{i}\"")).collect::<Vec<_>>().join(","));
        for (text, part, replacement, expected) in [
            (CURRENT, r#""Price": 0.117179869184, "#, "", "[0].offerings[0].Price: is missing"),
            (FLAT, "0.5", "-0.5", "[0].offerings[1].price: `-0.5` is negative"),
            (
                FLAT,
                r#""zone": "us-east-1a", "price": 1"#,
                r#""price": 1"#,
                "[0].offerings[0].zone: is missing",
            ),
            (FLAT, r#""spot""#, r#""cheap""#, "[0].offerings[1].capacityType: `cheap` is not known here"),
            (
                CURRENT,
                r#""on-demand""#,
                r#""cheap""#,
                "[0].offerings[0].Requirements: `cheap` is not known here; write one of on-demand, spot, reserved",
            ),
            (
                CURRENT,
                r#"zone", "operator": "In""#,
                r#"zone", "operator": "NotIn""#,
                "[0].offerings[0].Requirements[1].operator: `NotIn` is not known here; write In",
            ),
            (
                CURRENT,
                "topology.kubernetes.io/zone",
                "zone",
                "[0].offerings[0].Requirements.topology.kubernetes.io/zone: is missing",
            ),
            (CURRENT, r#"["test-zone-a"]"#, many.as_str(), "[0].offerings[0]: stands for 1001 offerings"),
            (CURRENT, r#"["test-zone-a"]"#, "[]", "[0].offerings[0].Requirements[1].values: is missing"),
            (CURRENT, r#""cpu": "4", "#, "", "[0].resources.cpu: is missing"),
            (CURRENT, r#""16Gi""#, r#""-16Gi""#, "[0].resources.memory: `-16Gi` is negative"),
            (
                CURRENT,
                r#""operatingSystems": ["linux"]"#,
                r#""operatingSystems": []"#,
                "[0].operatingSystems: is missing",
            ),
            (
                CURRENT,
                r#""operatingSystems": ["linux"]"#,
                r#""operatingSystems": "linux""#,
                "[0].operatingSystems: is text; write a list",
            ),
            (FLAT, r#"{"linux": {}}"#, r#"{"=linux": {}}"#, "[0].operatingSystems: `=linux` is not a label"),
            (
                CURRENT,
                r#""architecture": "amd64", "#,
                "",
                "[0].architecture: is missing; write amd64 or arm64",
            ),
        ] {
            assert!(text.contains(part), "{part}");
            let error = offerings(&text.replacen(part, replacement, 1)).unwrap_err();
            assert!(error.starts_with(expected), "{error}\n  not {expected}");
        }
        let twice = format!("[{0},{0}]", &CURRENT[1..CURRENT.len() - 1]);
        assert_eq!(
            offerings(&twice).unwrap_err(),
            "[1].name: instance type `s-4x-amd64-linux` is listed twice; names must be unique"
        );
    }
}
