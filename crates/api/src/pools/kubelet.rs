//! What an EC2NodeClass makes of the types it buys: its kubelet's settings, its disk, the zones of its subnets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_core::catalog::InstanceType;
use berth_core::names::Text;
use berth_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources};
use berth_core::units::Quantity;

use super::read_amounts;
use crate::convert::{Converter, checked_amount};
use crate::problem::At;
use crate::resources::nodeclass::{AmiFamily, BlockDeviceMapping, EC2NodeClass, EC2NodeClassSpec};
use crate::resources::scalar::Whole;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kubelet {
    pods_max: Option<u32>,
    pods_per_core: Option<u32>,
    system_reserved: Resources,
    kube_reserved: Resources,
    /// Free memory below which pods are evicted, and which they can therefore not have.
    eviction: Option<Threshold>,
    /// The size of the disk that pods share, where the class says it.
    disk_bytes: Option<i64>,
    /// Where the class has subnets; empty as long as nobody has looked for them.
    zones: BTreeSet<Text>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Threshold {
    Bytes(i64),
    /// In nanos of a percent, as quantities are.
    Percent(Quantity),
}

impl Threshold {
    fn bytes_of(self, memory: i64) -> i64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => {
                let share = i128::from(memory) * percent.nanos() / 100_000_000_000;
                i64::try_from(share).unwrap_or(i64::MAX)
            }
        }
    }
}

/// What Karpenter assumes on AWS where the class says nothing else.
const EVICTION_BYTES: i64 = 100 << 20;
const KUBE_RESERVED_DISK_BYTES: i64 = 1 << 30;

/// Pods are evicted from a disk that is less than a tenth free.
fn eviction_disk_bytes(disk: i64) -> i64 {
    disk / 10 + i64::from(disk % 10 != 0)
}

/// CPU that is kept for Kubernetes, in milli: 6% of the first core, 1% of the second, 0.5% of the next
/// two, 0.25% of the rest.
fn kube_reserved_cpu(milli: i64) -> i64 {
    let tiers = [(0, 1000, 600), (1000, 2000, 100), (2000, 4000, 50), (4000, i64::MAX, 25)];
    tiers.iter().map(|(from, to, share)| (milli.min(*to) - from).max(0) * share / 10_000).sum()
}

fn kube_reserved_memory(pods: i64) -> i64 {
    (11 * pods + 255) << 20
}

pub(crate) fn read_kubelet(class: &EC2NodeClass, to: &mut Converter<'_>) -> Kubelet {
    let kubelet = class.spec.kubelet.clone().unwrap_or_default();
    let subnets = class.status.iter().flat_map(|status| &status.subnets);
    let at = At::ROOT.key("spec");
    let disk_bytes = read_disk(&class.spec, &at, to);
    let at = at.key("kubelet");
    let soft = read_threshold(&kubelet.eviction_soft, &at.key("evictionSoft"), to);
    let hard = read_threshold(&kubelet.eviction_hard, &at.key("evictionHard"), to);
    Kubelet {
        pods_max: kubelet.max_pods.map(Whole::get),
        pods_per_core: kubelet.pods_per_core.map(Whole::get).filter(|pods| *pods > 0),
        system_reserved: read_amounts(&kubelet.system_reserved, &at.key("systemReserved"), to),
        kube_reserved: read_amounts(&kubelet.kube_reserved, &at.key("kubeReserved"), to),
        eviction: larger(hard, soft),
        disk_bytes,
        zones: subnets.map(|subnet| to.text(&subnet.zone)).collect(),
    }
}

fn read_disk(spec: &EC2NodeClassSpec, at: &At<'_>, to: &mut Converter<'_>) -> Option<i64> {
    let (index, mapping) = pods_disk(spec)?;
    let size = mapping.ebs.as_ref()?.volume_size?;
    let list = at.key("blockDeviceMappings");
    let (mapping_at, amount) = (list.index(index), checked_amount(EPHEMERAL_STORAGE, size.get()));
    let ebs_at = mapping_at.key("ebs");
    amount.map_err(|message| to.findings.add(&ebs_at.key("volumeSize"), message)).ok()
}

/// The disk that the kubelet's directory is on, and so what pods write.
fn pods_disk(spec: &EC2NodeClassSpec) -> Option<(usize, &BlockDeviceMapping)> {
    /// Bottlerocket keeps its first disk for itself.
    const BOTTLEROCKET_DATA: &str = "/dev/xvdb";
    let disks = || spec.block_device_mappings.iter().enumerate();
    let root = disks().find(|(_, disk)| disk.root_volume == Some(true));
    root.or_else(|| {
        if is_bottlerocket(spec) {
            disks().find(|(_, disk)| disk.device_name.as_deref() == Some(BOTTLEROCKET_DATA))
        } else {
            disks().find(|(_, disk)| disk.ebs.as_ref().is_some_and(|ebs| ebs.volume_size.is_some()))
        }
    })
}

fn is_bottlerocket(spec: &EC2NodeClassSpec) -> bool {
    let mut aliases = spec.ami_selector_terms.iter().filter_map(|term| term.alias.as_deref());
    spec.ami_family.map_or_else(
        || aliases.any(|alias| alias.starts_with("bottlerocket@")),
        |family| family == AmiFamily::Bottlerocket,
    )
}

/// Of two amounts the larger; a percentage beside an amount is left for the hard one.
fn larger(hard: Option<Threshold>, soft: Option<Threshold>) -> Option<Threshold> {
    match (hard, soft) {
        (Some(Threshold::Bytes(a)), Some(Threshold::Bytes(b))) => Some(Threshold::Bytes(a.max(b))),
        (Some(Threshold::Percent(a)), Some(Threshold::Percent(b))) => Some(Threshold::Percent(a.max(b))),
        // The default hard threshold still holds beside a soft one.
        (None, Some(Threshold::Bytes(b))) => Some(Threshold::Bytes(b.max(EVICTION_BYTES))),
        (hard, soft) => hard.or(soft),
    }
}

fn read_threshold(
    thresholds: &BTreeMap<String, String>,
    at: &At<'_>,
    to: &mut Converter<'_>,
) -> Option<Threshold> {
    const SIGNAL: &str = "memory.available";
    let text = thresholds.get(SIGNAL)?;
    let refused = |to: &mut Converter<'_>, message: String| {
        to.findings.add(&at.key(SIGNAL), message);
        None
    };
    if let Some(percent) = text.strip_suffix('%') {
        return match percent.parse::<Quantity>() {
            // All of the memory stands for no threshold at all.
            Ok(percent) if percent == Quantity::from_units(100) => Some(Threshold::Bytes(0)),
            Ok(percent) if (Quantity::ZERO..Quantity::from_units(100)).contains(&percent) => {
                Some(Threshold::Percent(percent))
            }
            _ => refused(to, format!("`{text}` is not a percentage from 0% to 100%")),
        };
    }
    match text.parse::<Quantity>().map_err(|error| error.to_string()).and_then(|q| checked_amount(MEMORY, q))
    {
        Ok(bytes) => Some(Threshold::Bytes(bytes)),
        Err(message) => refused(to, message),
    }
}

impl Kubelet {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The types as nodes of this class have them, without those that none of its zones offers.
    pub(crate) fn adapted(&self, types: &[Arc<InstanceType>]) -> Vec<Arc<InstanceType>> {
        types.iter().filter(|t| self.is_offered(t)).map(|t| Arc::new(self.adapt(t))).collect()
    }

    fn has_subnet_in(&self, zone: &Text) -> bool {
        self.zones.is_empty() || self.zones.contains(zone)
    }

    fn is_offered(&self, plain: &InstanceType) -> bool {
        self.zones.is_empty() || plain.offerings.iter().any(|o| self.has_subnet_in(&o.zone))
    }

    fn adapt(&self, plain: &InstanceType) -> InstanceType {
        let mut adapted = plain.clone();
        adapted.offerings.retain(|o| self.has_subnet_in(&o.zone));
        let (cpu, memory, pods) =
            (plain.capacity.get(CPU), plain.capacity.get(MEMORY), plain.capacity.get(PODS));
        let pods_max = self.pods_max.map_or(pods, i64::from);
        let by_core = self.pods_per_core.map(|per_core| i64::from(per_core) * (cpu / 1000).max(1));
        adapted.capacity.set(PODS, by_core.map_or(pods_max, |by_core| by_core.min(pods_max)));
        if let Some(disk) = self.disk_bytes {
            adapted.capacity.set(EPHEMERAL_STORAGE, disk);
            adapted.overhead.set(EPHEMERAL_STORAGE, KUBE_RESERVED_DISK_BYTES + eviction_disk_bytes(disk));
        }
        for (name, assumed) in [
            (CPU, kube_reserved_cpu(cpu)),
            (MEMORY, kube_reserved_memory(pods)),
            (EPHEMERAL_STORAGE, KUBE_RESERVED_DISK_BYTES),
        ] {
            let mut more = self.system_reserved.get(name);
            if self.kube_reserved.names(name) {
                more += self.kube_reserved.get(name) - assumed;
            }
            if let (MEMORY, Some(eviction)) = (name, self.eviction) {
                more += eviction.bytes_of(memory) - EVICTION_BYTES;
            }
            if more != 0 {
                adapted.overhead.set(name, (adapted.overhead.get(name) + more).max(0));
            }
        }
        adapted
    }
}

#[cfg(test)]
mod tests {
    use berth_core::catalog::{CapacityType, Offering};
    use berth_core::names::Labels;
    use berth_core::resources::format_amount;
    use berth_core::units::Price;
    use serde::Deserialize;

    use super::*;
    use crate::intern::Interner;
    use crate::problem::Findings;
    use crate::tree::Tree;

    /// What a class with these fields of its spec and this status makes of the types, or its first finding.
    fn adapted(
        spec: &str,
        status: &str,
        types: &[Arc<InstanceType>],
    ) -> Result<Vec<Arc<InstanceType>>, String> {
        let text = format!(
            "{{metadata: {{name: c}}, spec: {{subnetSelectorTerms: [{{id: subnet-1}}], securityGroupSelectorTerms: [{{id: sg-1}}], amiSelectorTerms: [{{alias: al2023@latest}}], role: r, {spec}}}, status: {{{status}}}}}"
        );
        let tree = Tree::parse(&text).unwrap();
        let class = EC2NodeClass::deserialize(&tree).unwrap();
        let (mut findings, mut interner) = (Findings::default(), Interner::default());
        let kubelet =
            read_kubelet(&class, &mut Converter { findings: &mut findings, interner: &mut interner });
        match findings.0.first() {
            Some(finding) => Err(format!("{}: {}", finding.path, finding.message)),
            None => Ok(kubelet.adapted(types)),
        }
    }

    /// A machine with 4 cores, 16 GiB and 58 pods, with its usual overhead, on demand in these zones.
    fn machine(name: &str, zones: &[&str]) -> Arc<InstanceType> {
        let offering = |zone: &&str| Offering {
            zone: (*zone).into(),
            capacity_type: CapacityType::OnDemand,
            price: Price::from_micro_usd(192_000),
            estimated: false,
            available: true,
            remaining: None,
            labels: Labels::new(),
        };
        Arc::new(InstanceType {
            name: name.into(),
            labels: Labels::new(),
            capacity: Resources::of(&[(CPU, 4000), (MEMORY, 16 << 30), (PODS, 58)]),
            overhead: Resources::of(&[(CPU, 80), (MEMORY, (893 + 100) << 20)]),
            volume_limits: BTreeMap::new(),
            offerings: zones.iter().map(offering).collect(),
        })
    }

    fn allocatable(spec: &str) -> String {
        match adapted(spec, "", &[machine("m5.xlarge", &["a"])]) {
            Ok(types) => types[0].allocatable().to_string(),
            Err(finding) => finding,
        }
    }

    #[test]
    fn settings_change_what_is_left_for_pods() {
        for (kubelet, expected) in [
            ("{}", "cpu 3920m, memory 15391Mi, pods 58"),
            ("{maxPods: 110}", "cpu 3920m, memory 15391Mi, pods 110"),
            ("{podsPerCore: 5}", "cpu 3920m, memory 15391Mi, pods 20"),
            ("{podsPerCore: 50, maxPods: 30}", "cpu 3920m, memory 15391Mi, pods 30"),
            ("{kubeReserved: {cpu: 180m}}", "cpu 3820m, memory 15391Mi, pods 58"),
            ("{kubeReserved: {memory: 993Mi}}", "cpu 3920m, memory 15291Mi, pods 58"),
            ("{systemReserved: {cpu: 100m, memory: 100Mi}}", "cpu 3820m, memory 15291Mi, pods 58"),
            ("{evictionHard: {memory.available: 200Mi}}", "cpu 3920m, memory 15291Mi, pods 58"),
            ("{evictionHard: {memory.available: 100%}}", "cpu 3920m, memory 15491Mi, pods 58"),
            ("{evictionHard: {memory.available: 25%}}", "cpu 3920m, memory 11395Mi, pods 58"),
            (
                "{evictionHard: {memory.available: lots}}",
                "spec.kubelet.evictionHard[memory.available]: `lots` is not a quantity; write a decimal number with an optional suffix, for example 500m, 2 or 1.5Gi",
            ),
        ] {
            assert_eq!(allocatable(&format!("kubelet: {kubelet}")), expected, "{kubelet}");
        }
    }

    #[test]
    fn a_class_buys_where_it_has_subnets() {
        let subnet = |zone: &str| format!("{{id: subnet-{zone}, zone: {zone}}}");
        for (zones, expected) in [
            (&[][..], "wide a b c, narrow a"),
            (&["a"], "wide a, narrow a"),
            (&["b", "c"], "wide b c"),
            (&["b", "b"], "wide b"),
            (&["a", "elsewhere"], "wide a, narrow a"),
            (&["elsewhere"], ""),
        ] {
            let subnets: Vec<String> = zones.iter().map(|zone| subnet(zone)).collect();
            let types = [machine("wide", &["a", "b", "c"]), machine("narrow", &["a"])];
            let types = adapted("", &format!("subnets: [{}]", subnets.join(", ")), &types).unwrap();
            let line = |t: &Arc<InstanceType>| {
                let zones = t.offerings.iter().map(|o| format!(" {}", o.zone));
                t.name.to_string() + &zones.collect::<String>()
            };
            assert_eq!(types.iter().map(line).collect::<Vec<_>>().join(", "), expected, "{zones:?}");
        }
    }

    #[test]
    fn pods_share_the_disk_that_the_class_asks_for() {
        let disk = |device: &str, more: &str| format!("{{deviceName: /dev/{device}, {more}}}");
        let sized = |device: &str, size: &str| disk(device, &format!("ebs: {{volumeSize: {size}}}"));
        let root = |device: &str, ebs: &str| disk(device, &format!("rootVolume: true, ebs: {{{ebs}}}"));
        let mappings = |disks: &[String]| format!("blockDeviceMappings: [{}]", disks.join(", "));
        let bottlerocket = "amiFamily: Bottlerocket, ";
        let as_in_catalog = "17Gi";
        for (spec, expected) in [
            (String::new(), as_in_catalog),
            (mappings(&[sized("xvda", "20Gi")]), "17Gi"),
            (mappings(&[sized("xvda", "100Gi")]), "89Gi"),
            (mappings(&[sized("xvda", "100Gi"), sized("xvdb", "500Gi")]), "89Gi"),
            (mappings(&[sized("xvda", "10Gi"), root("xvdb", "volumeSize: 100Gi")]), "89Gi"),
            (mappings(&[disk("xvda", "ebs: {snapshotID: s}"), sized("xvdb", "100Gi")]), "89Gi"),
            (mappings(&[sized("xvda", "1Gi")]), "0"),
            // How large a disk from a snapshot is, only the snapshot says.
            (mappings(&[sized("xvda", "100Gi"), root("xvdb", "snapshotID: s")]), as_in_catalog),
            (mappings(&[disk("xvda", "ebs: {snapshotID: s}")]), as_in_catalog),
            (mappings(&[disk("xvda", "")]), as_in_catalog),
            (bottlerocket.to_owned() + &mappings(&[sized("xvda", "4Gi"), sized("xvdb", "100Gi")]), "89Gi"),
            (bottlerocket.to_owned() + &mappings(&[sized("xvda", "4Gi")]), as_in_catalog),
            (
                bottlerocket.to_owned()
                    + &mappings(&[root("xvda", "volumeSize: 100Gi"), sized("xvdb", "4Gi")]),
                "89Gi",
            ),
            (
                mappings(&[sized("xvda", "100Gi")]) + ", kubelet: {kubeReserved: {ephemeral-storage: 3Gi}}",
                "87Gi",
            ),
            (
                mappings(&[sized("xvda", "100Gi")]) + ", kubelet: {systemReserved: {ephemeral-storage: 4Gi}}",
                "85Gi",
            ),
            (
                mappings(&[disk("xvda", "ebs: {snapshotID: s}"), sized("xvdb", "-5")]),
                "spec.blockDeviceMappings[1].ebs.volumeSize: -5 is negative; a resource cannot be",
            ),
        ] {
            let mut plain = machine("m5.xlarge", &["a"]);
            Arc::make_mut(&mut plain).capacity.set(EPHEMERAL_STORAGE, 17 << 30);
            let found = adapted(&spec, "", &[plain]).map_or_else(
                |finding| finding,
                |types| format_amount(EPHEMERAL_STORAGE, types[0].allocatable().get(EPHEMERAL_STORAGE)),
            );
            assert_eq!(found, expected, "{spec}");
        }
    }

    #[test]
    fn bottlerocket_is_told_by_its_family_or_else_by_its_alias() {
        for (terms, family, expected) in [
            ("{alias: bottlerocket@latest}", "", true),
            ("{alias: al2023@latest}", "", false),
            ("{id: ami-1}", "amiFamily: Bottlerocket", true),
            ("{alias: bottlerocket@latest}", "amiFamily: Custom", false),
        ] {
            let text = format!(
                "{{subnetSelectorTerms: [], securityGroupSelectorTerms: [], amiSelectorTerms: [{terms}], {family}}}"
            );
            let spec = EC2NodeClassSpec::deserialize(&Tree::parse(&text).unwrap()).unwrap();
            assert_eq!(is_bottlerocket(&spec), expected, "{text}");
        }
    }
}
