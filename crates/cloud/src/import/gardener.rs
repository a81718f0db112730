//! Gardener's price list: an entry for each instance type in a region.
//!
//! The list knows no zones, no capacity types and no reserved resources. Its types are offered on demand in
//! those of the options' zones that belong to the entry's region, or, without such an option, in the zones
//! `a`, `b` and `c` of the region. Entries of other regions are left out when zones are given, so that the
//! zones choose the region. The architecture is read from names that are AWS's and otherwise left open; the
//! pool's template says it.

use std::collections::{BTreeMap, BTreeSet};

use berth_core::catalog::{CapacityType, Catalog, InstanceType};
use berth_core::names::{self, Labels, Text};
use berth_core::resources::{CPU, MEMORY, PODS, Resources};

use super::{Draft, PODS_DEFAULT, Repeated};
use crate::CatalogOptions;
use crate::aws::{self, Accelerator};
use crate::draft::quoted;
use crate::error::CatalogError;
use crate::field::Field;

const ZONE_SUFFIXES: [&str; 3] = ["a", "b", "c"];

pub(super) fn read(list: &Field, name: &str, options: &CatalogOptions) -> Result<Catalog, CatalogError> {
    let mut draft = Draft::default();
    let mut regions = BTreeSet::new();
    for entry in list.items("a list of prices")? {
        let instance_type = instance_type(&entry, options)?;
        let region = entry.get("region").label_value("the region's name")?;
        if !instance_type.offerings.is_empty() {
            draft.add(instance_type, Repeated::AddsOfferings, || entry.get("instanceType").place())?;
        }
        regions.insert(region);
    }
    match draft.finish(name) {
        Err(CatalogError::Empty) if !regions.is_empty() => Err(CatalogError::OtherRegions {
            zones: options.zones.clone(),
            regions: regions.into_iter().collect(),
        }),
        result => result,
    }
}

fn instance_type(entry: &Field, options: &CatalogOptions) -> Result<InstanceType, CatalogError> {
    let name = entry.get("instanceType").label_value("the type's name")?;
    let amount = |keys: &[&'static str], resource: &str, wanted| {
        Ok(Resources::amount_of(resource, entry.get_any(keys).quantity(wanted)?))
    };
    let cpu = amount(&["VCPU", "vCPU", "vcpu"], CPU, "the number of CPUs")?;
    let memory = amount(&["memory"], MEMORY, "the memory in bytes")?;
    let mut capacity = Resources::of(&[(CPU, cpu), (MEMORY, memory), (PODS, PODS_DEFAULT)]);
    let gpu = entry.get_any(&["GPU", "gpu"]);
    if gpu.is_present() {
        let count = gpu.quantity("the number of GPUs")?;
        // A share of a GPU is not something that a pod can ask for.
        let whole = i64::try_from(count.nanos() / 1_000_000_000).unwrap_or(i64::MAX);
        if whole > 0 {
            capacity.set(accelerator(&name).resource, whole);
        }
    }
    let mut labels = Labels::from([(names::INSTANCE_TYPE.into(), name.clone())]);
    if let Some(arch) = aws::arch_of(&name) {
        labels.insert(names::ARCH.into(), arch.into());
    }
    let os = entry.get("os");
    let os = if os.is_present() { os.text("an operating system such as Linux")? } else { "linux" };
    let region = entry.get("region").label_value("the region's name")?;
    let price = entry.get("hourlyPrice").price()?;
    let offering = |zone: Text| {
        let mut offering = quoted(zone, CapacityType::OnDemand, price);
        offering.labels = Labels::from([
            (names::REGION.into(), region.clone()),
            (names::OS.into(), os.to_ascii_lowercase().into()),
        ]);
        offering
    };
    Ok(InstanceType {
        offerings: zones_of(&region, options).into_iter().map(offering).collect(),
        name,
        labels,
        capacity,
        overhead: Resources::new(),
        volume_limits: BTreeMap::new(),
    })
}

fn accelerator(instance_type: &str) -> Accelerator {
    if instance_type.starts_with("g4ad.") { Accelerator::AMD } else { Accelerator::NVIDIA }
}

fn zones_of(region: &str, options: &CatalogOptions) -> Vec<Text> {
    if options.zones.is_empty() {
        return ZONE_SUFFIXES.iter().map(|suffix| format!("{region}{suffix}").into()).collect();
    }
    // A digit would be the rest of another region's name: europe-west1 and europe-west10-a.
    let is_of_region = |zone: &&Text| {
        zone.strip_prefix(region).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    options.zones.iter().filter(is_of_region).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::super::import;
    use super::*;

    const LIST: &str = r#"[
        {"instanceType": "m5.large", "region": "eu-west-1", "VCPU": 2, "memory": 8589934592, "GPU": 0, "GPUMemory": 0, "hourlyPrice": 0.107, "os": "Linux"},
        {"instanceType": "m5.large", "region": "us-east-1", "VCPU": 2, "memory": 8589934592, "GPU": 0, "GPUMemory": 0, "hourlyPrice": 0.096, "os": "Linux"},
        {"instanceType": "g5g.xlarge", "region": "us-east-1", "VCPU": 4, "memory": 8589934592, "GPU": 1, "GPUMemory": 16, "hourlyPrice": 0.42, "os": "Linux"}]"#;

    fn options(zones: &[&str]) -> CatalogOptions {
        CatalogOptions { zones: zones.iter().map(|z| Text::from(*z)).collect(), ..CatalogOptions::default() }
    }

    #[test]
    fn zones_come_from_the_region_or_the_options() {
        for (zones, expected) in [
            (
                &[][..],
                "g5g.xlarge: us-east-1a us-east-1b us-east-1c; m5.large: eu-west-1a eu-west-1b eu-west-1c us-east-1a us-east-1b us-east-1c",
            ),
            (&["eu-west-1b"], "m5.large: eu-west-1b"),
            (
                &["us-east-1f", "us-east-1a", "mars-1a"],
                "g5g.xlarge: us-east-1a us-east-1f; m5.large: us-east-1a us-east-1f",
            ),
        ] {
            let catalog = import(LIST, "prices", &options(zones)).unwrap();
            let types: Vec<String> = catalog
                .types
                .iter()
                .map(|t| {
                    let zones: Vec<&str> = t.offerings.iter().map(|o| &*o.zone).collect();
                    format!("{}: {}", t.name, zones.join(" "))
                })
                .collect();
            assert_eq!(types.join("; "), expected);
        }
        assert_eq!(
            zones_of("europe-west1", &options(&["europe-west1-b", "europe-west10-a"])),
            ["europe-west1-b".into()]
        );
        assert_eq!(
            import(LIST, "prices", &options(&["mars-1a"])).unwrap_err().to_string(),
            "the list has no price for the zones mars-1a; its regions are eu-west-1, us-east-1"
        );
    }

    #[test]
    fn entries_are_types() {
        let catalog = import(LIST, "prices", &options(&["us-east-1a"])).unwrap();
        let [gpu, plain] = catalog.types.as_slice() else { panic!("two types") };
        assert_eq!(
            gpu.capacity,
            Resources::of(&[(CPU, 4000), (MEMORY, 8 << 30), (PODS, 110), ("nvidia.com/gpu", 1)])
        );
        assert_eq!(plain.capacity, Resources::of(&[(CPU, 2000), (MEMORY, 8 << 30), (PODS, 110)]));
        assert_eq!((&*gpu.labels[names::ARCH], &*plain.labels[names::ARCH]), ("arm64", "amd64"));
        let offering = &plain.offerings[0];
        assert_eq!((offering.price.to_string().as_str(), offering.estimated), ("0.096000", false));
        assert_eq!((&*offering.labels[names::REGION], &*offering.labels[names::OS]), ("us-east-1", "linux"));
    }

    #[test]
    fn errors_say_where() {
        for (part, replacement, expected) in [
            (r#""hourlyPrice": 0.42, "#, "", "[2].hourlyPrice: is missing"),
            ("0.096", "-0.096", "[1].hourlyPrice: `-0.096` is negative"),
            ("0.096", "\"dear\"", "[1].hourlyPrice: `dear` is not a price"),
            (r#""VCPU": 4, "#, "", "[2].VCPU: is missing; write the number of CPUs"),
            ("8589934592", "-1", "[0].memory: `-1` is negative"),
            ("8589934592", "1", "[1].instanceType: instance type `m5.large` differs here"),
            (
                "us-east-1",
                "eu-west-1",
                "[1].instanceType: instance type `m5.large` is offered twice in eu-west-1a as on-demand",
            ),
            ("eu-west-1", "", "[0].region: is missing"),
        ] {
            assert!(LIST.contains(part), "{part}");
            let error = import(&LIST.replacen(part, replacement, 1), "", &options(&[])).unwrap_err();
            assert!(error.to_string().starts_with(expected), "{error}\n  not {expected}");
        }
    }
}
