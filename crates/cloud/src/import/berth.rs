//! Berth's own catalog document, which says everything that a catalog holds:
//!
//! ```json
//! {"apiVersion": "berth.dev/v1alpha1", "kind": "Catalog", "name": "mine",
//!  "types": [{"name": "small", "labels": {"kubernetes.io/arch": "arm64"},
//!             "capacity": {"cpu": "2", "memory": "4Gi", "pods": "110"}, "overhead": {"cpu": "100m"},
//!             "volumeLimits": {"ebs.csi.aws.com": 25},
//!             "offerings": [{"zone": "a", "capacityType": "spot", "pricePerHour": "0.012000",
//!                            "estimated": true, "available": true, "remaining": 3, "labels": {}}]}]}
//! ```
//!
//! Only the names, `capacity` with cpu, memory and pods, `zone`, `capacityType` and `pricePerHour` are
//! required. Unknown fields are refused.

use std::collections::BTreeMap;

use berth_core::catalog::{CapacityType, Catalog, InstanceType, Offering};
use berth_core::names::{Labels, Text};
use berth_core::resources::{CPU, MEMORY, PODS, Resources};
use berth_core::units::Price;
use serde::Serialize;

use super::{Draft, Repeated};
use crate::error::{CatalogError, Problem};
use crate::field::Field;

const API_VERSION: &str = "berth.dev/v1alpha1";
const KIND: &str = "Catalog";

pub(super) fn read(root: &Field, name: &str) -> Result<Catalog, CatalogError> {
    for (key, expected) in [("kind", KIND), ("apiVersion", API_VERSION)] {
        let field = root.get(key);
        let found = field.text(expected)?;
        if found != expected {
            return Err(
                field.error(Problem::UnknownWord { found: found.to_owned(), wanted: expected.to_owned() })
            );
        }
    }
    root.only(&["apiVersion", "kind", "name", "types"])?;
    let own_name = root.get("name");
    let name = if own_name.is_present() { own_name.text("the catalog's name")? } else { name };
    let types = root.get("types");
    let mut draft = Draft::default();
    for item in types.items("the list of instance types")? {
        draft.add(instance_type(&item)?, Repeated::Refused, || item.get("name").place())?;
    }
    draft.finish(name)
}

fn instance_type(item: &Field) -> Result<InstanceType, CatalogError> {
    item.only(&["name", "labels", "capacity", "overhead", "volumeLimits", "offerings"])?;
    let capacity_field = item.get("capacity");
    let capacity = capacity_field.resources()?;
    for (resource, wanted) in
        [(CPU, "a quantity such as 4"), (MEMORY, "a quantity such as 16Gi"), (PODS, "a number such as 110")]
    {
        if !capacity.names(resource) {
            return Err(capacity_field.get(resource).error(Problem::Missing(wanted)));
        }
    }
    let overhead = item.get("overhead");
    let offerings = item.get("offerings");
    Ok(InstanceType {
        name: item.get("name").label_value("the type's name")?,
        labels: item.get("labels").labels()?,
        capacity,
        overhead: if overhead.is_present() { overhead.resources()? } else { Resources::new() },
        volume_limits: volume_limits(&item.get("volumeLimits"))?,
        offerings: offerings
            .items("the list of offerings")?
            .map(|offering| read_offering(&offering))
            .collect::<Result<_, _>>()?,
    })
}

fn volume_limits(field: &Field) -> Result<BTreeMap<Text, u32>, CatalogError> {
    if !field.is_present() {
        return Ok(BTreeMap::new());
    }
    let limit = |driver: &String| {
        Ok((Text::from(driver.as_str()), field.get(driver).count("a whole number of volumes")?))
    };
    field.object("volume limits by CSI driver")?.keys().map(limit).collect()
}

fn read_offering(item: &Field) -> Result<Offering, CatalogError> {
    item.only(&["zone", "capacityType", "pricePerHour", "estimated", "available", "remaining", "labels"])?;
    let remaining = item.get("remaining");
    Ok(Offering {
        zone: item.get("zone").label_value("the zone's name")?,
        capacity_type: super::capacity_type(&item.get("capacityType"))?,
        price: item.get("pricePerHour").price()?,
        estimated: item.get("estimated").boolean_or(false)?,
        available: item.get("available").boolean_or(true)?,
        remaining: if remaining.is_present() {
            Some(remaining.count("a whole number of nodes")?)
        } else {
            None
        },
        labels: item.get("labels").labels()?,
    })
}

/// The catalog as a document that [`import`](super::import()) reads back as the same catalog.
pub fn export(catalog: &Catalog) -> Result<String, serde_json::Error> {
    let types = catalog.types.iter().map(|t| TypeDocument::from(&**t)).collect();
    let document = CatalogDocument { api_version: API_VERSION, kind: KIND, name: &catalog.name, types };
    serde_json::to_string_pretty(&document).map(|text| text + "\n")
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CatalogDocument<'a> {
    api_version: &'static str,
    kind: &'static str,
    name: &'a str,
    types: Vec<TypeDocument<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TypeDocument<'a> {
    name: &'a str,
    labels: &'a Labels,
    capacity: &'a Resources,
    #[serde(skip_serializing_if = "Resources::is_empty")]
    overhead: &'a Resources,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    volume_limits: &'a BTreeMap<Text, u32>,
    offerings: Vec<OfferingDocument<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OfferingDocument<'a> {
    zone: &'a str,
    capacity_type: CapacityType,
    price_per_hour: Price,
    #[serde(skip_serializing_if = "is_false")]
    estimated: bool,
    available: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining: Option<u32>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: &'a Labels,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

impl<'a> From<&'a InstanceType> for TypeDocument<'a> {
    fn from(t: &'a InstanceType) -> Self {
        let offering = |o: &'a Offering| OfferingDocument {
            zone: &o.zone,
            capacity_type: o.capacity_type,
            price_per_hour: o.price,
            estimated: o.estimated,
            available: o.available,
            remaining: o.remaining,
            labels: &o.labels,
        };
        Self {
            name: &t.name,
            labels: &t.labels,
            capacity: &t.capacity,
            overhead: &t.overhead,
            volume_limits: &t.volume_limits,
            offerings: t.offerings.iter().map(offering).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::import;
    use super::*;
    use crate::{CatalogOptions, builtin, builtin_names};

    /// A whole document, with one part of it replaced.
    fn document(part: &str, replacement: &str) -> String {
        let whole = r#"{"apiVersion": "berth.dev/v1alpha1", "kind": "Catalog", "name": "mine", "types": [
            {"name": "small", "labels": {"kubernetes.io/arch": "arm64"},
             "capacity": {"cpu": "2", "memory": "4Gi", "pods": 110}, "overhead": {"cpu": "100m"},
             "volumeLimits": {"ebs.csi.aws.com": 25},
             "offerings": [{"zone": "a", "capacityType": "spot", "pricePerHour": 0.012, "estimated": true},
                           {"zone": "a", "capacityType": "reserved", "pricePerHour": "0", "available": false,
                            "remaining": 3, "labels": {"karpenter.k8s.aws/capacity-reservation-id": "cr-1"}}]}]}"#;
        assert!(whole.contains(part), "{part}");
        whole.replacen(part, replacement, 1)
    }

    #[test]
    fn a_document_is_a_catalog() {
        let catalog = import(&document("", ""), "unused", &CatalogOptions::default()).unwrap();
        assert_eq!(&*catalog.name, "mine");
        let [small] = catalog.types.as_slice() else { panic!("one type") };
        assert_eq!(small.allocatable(), Resources::of(&[(CPU, 1900), (MEMORY, 4 << 30), (PODS, 110)]));
        assert_eq!(small.volume_limits["ebs.csi.aws.com"], 25);
        let [reserved, spot] = small.offerings.as_slice() else { panic!("two offerings") };
        assert_eq!((reserved.remaining, reserved.available), (Some(3), false));
        assert_eq!(
            (spot.price.to_string().as_str(), spot.estimated, spot.remaining),
            ("0.012000", true, None)
        );
    }

    #[test]
    fn what_is_exported_reads_back_the_same() {
        let mut catalogs: Vec<Catalog> =
            builtin_names().iter().filter_map(|name| builtin(name, &CatalogOptions::default())).collect();
        catalogs.push(import(&document("", ""), "", &CatalogOptions::default()).unwrap());
        for catalog in catalogs {
            let text = export(&catalog).unwrap();
            assert_eq!(import(&text, "other", &CatalogOptions::default()).as_ref(), Ok(&catalog));
        }
    }

    #[test]
    fn errors_say_where_and_what_would_be_right() {
        for (part, replacement, expected) in [
            (
                r#""berth.dev/v1alpha1""#,
                r#""berth.dev/v9""#,
                "apiVersion: `berth.dev/v9` is not known here; write berth.dev/v1alpha1",
            ),
            (r#""name": "small", "#, "", "types[0].name: is missing; write the type's name"),
            (r#""small""#, r#""-small""#, "types[0].name: `-small` is not a label"),
            (
                r#""pricePerHour": 0.012, "#,
                "",
                "types[0].offerings[0].pricePerHour: is missing; write the price in US dollars an hour, for example 0.0416",
            ),
            ("0.012", "-0.012", "types[0].offerings[0].pricePerHour: `-0.012` is negative"),
            ("0.012", "true", "types[0].offerings[0].pricePerHour: is true or false; write the price"),
            (r#""4Gi""#, r#""-4Gi""#, "types[0].capacity.memory: `-4Gi` is negative"),
            (r#""4Gi""#, r#""4Gb""#, "types[0].capacity.memory: `4Gb` has the unknown suffix `Gb`"),
            (
                r#""memory": "4Gi", "#,
                "",
                "types[0].capacity.memory: is missing; write a quantity such as 16Gi",
            ),
            (
                r#""spot""#,
                r#""preemptible""#,
                "types[0].offerings[0].capacityType: `preemptible` is not known here; write one of on-demand, spot, reserved",
            ),
            (
                r#""available""#,
                r#""avaliable""#,
                "types[0].offerings[1].avaliable: `avaliable` is not known here; write one of the fields zone, ",
            ),
            (
                r#""remaining": 3"#,
                r#""remaining": -3"#,
                "types[0].offerings[1].remaining: `-3` is not a whole number of nodes",
            ),
            (r#""arm64""#, r#""arm 64""#, "types[0].labels.kubernetes.io/arch: `arm 64` is not a label"),
            (
                r#""reserved", "pricePerHour": "0", "available": false,
                            "remaining": 3, "labels": {"karpenter.k8s.aws/capacity-reservation-id": "cr-1"}"#,
                r#""spot", "pricePerHour": "0""#,
                "types[0].name: instance type `small` is offered twice in a as spot",
            ),
            (
                "[\n",
                r#"[{"name": "small", "capacity": {"cpu": 1, "memory": 1, "pods": 1}, "offerings": []},"#,
                "types[1].name: instance type `small` is listed twice",
            ),
        ] {
            let error = import(&document(part, replacement), "", &CatalogOptions::default()).unwrap_err();
            assert!(error.to_string().starts_with(expected), "{error}\n  not {expected}");
        }
    }
}
