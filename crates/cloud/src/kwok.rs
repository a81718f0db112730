//! The simulated cloud: the built-in catalog, which has the types that Karpenter's KWOK provider makes up; and on a
//! cluster its machines.

mod cloud;
mod node;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::catalog::{CapacityType, Catalog, InstanceType, Offering};
use berth_core::names::{self, Labels, Text};
use berth_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources, format_amount};
use berth_core::units::Price;

use crate::draft::quoted;
pub use cloud::{Api, Declined, KwokCloud, Said};

pub const INSTANCE_SIZE: &str = "karpenter.kwok.sh/instance-size";
pub const INSTANCE_FAMILY: &str = "karpenter.kwok.sh/instance-family";
pub const INSTANCE_CPU: &str = "karpenter.kwok.sh/instance-cpu";
pub const INSTANCE_MEMORY: &str = "karpenter.kwok.sh/instance-memory";

const CPUS: [i64; 12] = [1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256];
/// GiB of memory for each CPU.
const FAMILIES: [(&str, i64); 3] = [("c", 2), ("s", 4), ("m", 8)];
const ZONES: [&str; 4] = ["test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d"];
const PODS_MAX: i64 = 1024;

/// 144 types, in each zone as spot and on-demand; `zones` replaces the usual four unless it is empty.
pub(crate) fn catalog(zones: &[Text]) -> Catalog {
    let zones: Vec<Text> =
        if zones.is_empty() { ZONES.iter().map(|zone| Text::from(*zone)).collect() } else { zones.to_vec() };
    let mut types = Vec::with_capacity(144);
    for cpu in CPUS {
        for (family, gib_per_cpu) in FAMILIES {
            for os in ["linux", "windows"] {
                for arch in ["amd64", "arm64"] {
                    let name = format!("{family}-{cpu}x-{arch}-{os}");
                    types.push(instance_type(&name, cpu, gib_per_cpu, arch, os, &zones));
                }
            }
        }
    }
    types.sort_by(|a, b| a.name.cmp(&b.name));
    Catalog { name: "kwok".into(), types: types.into_iter().map(Arc::new).collect() }
}

fn instance_type(
    name: &str,
    cpu: i64,
    gib_per_cpu: i64,
    arch: &str,
    os: &str,
    zones: &[Text],
) -> InstanceType {
    let memory_bytes = (cpu * gib_per_cpu) << 30;
    let capacity = Resources::of(&[
        (CPU, cpu * 1000),
        (MEMORY, memory_bytes),
        (PODS, (cpu * 16).min(PODS_MAX)),
        (EPHEMERAL_STORAGE, 20 << 30),
    ]);
    let mut labels = labels(name, arch, &capacity);
    labels.insert(names::OS.into(), os.into());
    InstanceType {
        name: name.into(),
        labels,
        offerings: offerings(cpu, memory_bytes, zones),
        capacity,
        overhead: overhead(),
        volume_limits: BTreeMap::new(),
    }
}

fn offerings(cpu: i64, memory_bytes: i64, zones: &[Text]) -> Vec<Offering> {
    // 0.025 dollars a CPU and 0.001 a GB, kept exact as 10^-12 dollars until the one rounding.
    let pico_usd = cpu * 25_000_000_000 + memory_bytes;
    let rounded = |pico_usd: i64| Price::from_micro_usd((pico_usd + 500_000) / 1_000_000);
    let (on_demand, spot) = (rounded(pico_usd), rounded(pico_usd * 7 / 10));
    zones
        .iter()
        .flat_map(|zone| {
            [
                quoted(zone.clone(), CapacityType::OnDemand, on_demand),
                quoted(zone.clone(), CapacityType::Spot, spot),
            ]
        })
        .collect()
}

/// What the KWOK provider keeps for the kubelet on every node.
pub(crate) fn overhead() -> Resources {
    Resources::of(&[(CPU, 100), (MEMORY, 10 << 20)])
}

/// The labels that the KWOK provider derives from a type, without the operating system.
pub(crate) fn labels(name: &str, arch: &str, capacity: &Resources) -> Labels {
    let cpu = format_amount(CPU, capacity.get(CPU));
    Labels::from([
        (names::INSTANCE_TYPE.into(), name.into()),
        (names::ARCH.into(), arch.into()),
        (INSTANCE_SIZE.into(), size(name).unwrap_or(&cpu).into()),
        (INSTANCE_FAMILY.into(), family(name).into()),
        (INSTANCE_MEMORY.into(), format_amount(MEMORY, capacity.get(MEMORY)).into()),
        (INSTANCE_CPU.into(), cpu.into()),
    ])
}

/// The size of a name like AWS's (`m5.xlarge`), which is then more telling than the number of CPUs.
fn size(name: &str) -> Option<&str> {
    let (family, size) = name.split_once('.')?;
    let is_word = !family.is_empty() && family.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let is_size = ["nano", "micro", "small", "medium", "large", "metal"].contains(&size)
        || size.strip_suffix("xlarge").is_some_and(|count| count.bytes().all(|b| b.is_ascii_digit()));
    (is_word && is_size).then_some(size)
}

fn family(name: &str) -> &str {
    match name.find(['.', '-']) {
        Some(end) => &name[..end],
        None => name.char_indices().nth(1).map_or(name, |(end, _)| &name[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula() {
        let catalog = catalog(&[]);
        assert_eq!(catalog.types.len(), 144);
        assert_eq!(catalog.types.iter().map(|t| t.offerings.len()).sum::<usize>(), 1152);
        assert!(catalog.types.is_sorted_by(|a, b| a.name < b.name));
        for (name, capacity, memory_label, on_demand, spot) in [
            ("s-4x-amd64-linux", [4000, 16 << 30, 64, 20 << 30], "16Gi", "0.117180", "0.082026"),
            ("c-1x-arm64-windows", [1000, 2 << 30, 16, 20 << 30], "2Gi", "0.027147", "0.019003"),
            ("m-256x-amd64-linux", [256_000, 2048 << 30, 1024, 20 << 30], "2Ti", "8.599023", "6.019316"),
            ("m-192x-amd64-linux", [192_000, 1536 << 30, 1024, 20 << 30], "1536Gi", "6.449267", "4.514487"),
        ] {
            let t = catalog.types.iter().find(|t| &*t.name == name).unwrap();
            let amounts = [CPU, MEMORY, PODS, EPHEMERAL_STORAGE].map(|resource| t.capacity.get(resource));
            assert_eq!(amounts, capacity, "{name}");
            assert_eq!(&*t.labels[INSTANCE_MEMORY], memory_label, "{name}");
            for offering in &t.offerings {
                let expected = if offering.capacity_type == CapacityType::Spot { spot } else { on_demand };
                assert_eq!(offering.price.to_string(), expected, "{name}");
            }
        }
    }

    #[test]
    fn labels_are_those_of_the_provider() {
        let catalog = catalog(&["here".into()]);
        let t = catalog.types.iter().find(|t| &*t.name == "s-4x-arm64-linux").unwrap();
        let labels: Vec<String> = t.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(
            labels,
            [
                "karpenter.kwok.sh/instance-cpu=4",
                "karpenter.kwok.sh/instance-family=s",
                "karpenter.kwok.sh/instance-memory=16Gi",
                "karpenter.kwok.sh/instance-size=4",
                "kubernetes.io/arch=arm64",
                "kubernetes.io/os=linux",
                "node.kubernetes.io/instance-type=s-4x-arm64-linux",
            ]
        );
        assert_eq!(
            t.allocatable(),
            Resources::of(&[
                (CPU, 3900),
                (MEMORY, (16 << 30) - (10 << 20)),
                (PODS, 64),
                (EPHEMERAL_STORAGE, 20 << 30),
            ])
        );
        assert!(t.offerings.iter().all(|offering| &*offering.zone == "here"));
    }

    #[test]
    fn sizes_and_families_of_other_clouds() {
        for (name, expected_size, expected_family) in [
            ("m5.xlarge", Some("xlarge"), "m5"),
            ("m5.24xlarge", Some("24xlarge"), "m5"),
            ("t3.nano", Some("nano"), "t3"),
            ("u-6tb1.metal", None, "u"),
            ("n2-standard-8", None, "n2"),
            ("Standard_D4s_v5", None, "S"),
            ("x", None, "x"),
            ("", None, ""),
        ] {
            assert_eq!((size(name), family(name)), (expected_size, expected_family), "{name}");
        }
    }
}
