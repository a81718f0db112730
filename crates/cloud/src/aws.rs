//! The built-in catalog of AWS in us-east-1.
//!
//! On-demand prices and allocatable resources are facts; spot prices are an assumed discount on them and
//! are marked as estimated. Which zones a type is really offered in is not known here.

use berth_core::catalog::Catalog;
use berth_core::names::Text;

use crate::CatalogOptions;
use crate::import::csv;

const TABLE: &str = include_str!("../data/aws-us-east-1.csv");
const NAME: &str = "aws-us-east-1";
const REGION: &str = "us-east-1";
const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];

/// `None` only if the table in this program were broken, which a test rules out.
pub(crate) fn catalog(options: &CatalogOptions) -> Option<Catalog> {
    let mut options = options.clone();
    if options.zones.is_empty() {
        options.zones = ZONES.iter().map(|zone| Text::from(*zone)).collect();
    }
    csv::read(TABLE, NAME, Some(REGION), &options).ok()
}

/// The processor architecture of an AWS instance type, which is in its name: a `g` after the generation
/// stands for Graviton. `None` for a name that is not AWS's.
pub(crate) fn arch_of(name: &str) -> Option<&'static str> {
    let (family, size) = name.split_once('.')?;
    let known_size = ["nano", "micro", "small", "medium", "large"].contains(&size)
        || size.ends_with("xlarge")
        || size.starts_with("metal");
    let letters = family.bytes().take_while(u8::is_ascii_lowercase).count();
    if !known_size || letters == 0 {
        return None;
    }
    let generation = family[letters..].trim_start_matches(|c: char| c.is_ascii_digit());
    let attributes = generation.split('-').next().unwrap_or_default();
    Some(if family == "a1" || attributes.contains('g') { "arm64" } else { "amd64" })
}

/// Who makes a GPU or another accelerator, and what Kubernetes calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accelerator {
    pub(crate) manufacturer: &'static str,
    pub(crate) resource: &'static str,
}

impl Accelerator {
    pub(crate) const NVIDIA: Self = Self { manufacturer: "nvidia", resource: "nvidia.com/gpu" };
    pub(crate) const AMD: Self = Self { manufacturer: "amd", resource: "amd.com/gpu" };
    const HABANA: Self = Self { manufacturer: "habana", resource: "habana.ai/gaudi" };
    const NEURON: Self = Self { manufacturer: "aws", resource: "aws.amazon.com/neuron" };

    /// By the model's name; NVIDIA's are too many to list and are what is left.
    pub(crate) fn of_model(model: &str) -> Self {
        let starts = |words: &[&str]| words.iter().any(|word| model.starts_with(word));
        if starts(&["radeon", "instinct", "mi3"]) {
            Self::AMD
        } else if starts(&["gaudi"]) {
            Self::HABANA
        } else if starts(&["inferentia", "trainium"]) {
            Self::NEURON
        } else {
            Self::NVIDIA
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin;
    use berth_core::catalog::CapacityType;
    use berth_core::names;
    use berth_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};

    #[test]
    fn the_table_is_whole() {
        let catalog = builtin(NAME, &CatalogOptions::default()).unwrap();
        assert_eq!(catalog.types.len(), 1345);
        assert_eq!(catalog.types.iter().map(|t| t.offerings.len()).sum::<usize>(), 1345 * 3 * 2);
        assert!(catalog.types.is_sorted_by(|a, b| a.name < b.name));
        for t in &catalog.types {
            assert_eq!(arch_of(&t.name), Some(&*t.labels[names::ARCH]), "{}", t.name);
            for offering in &t.offerings {
                assert!(!offering.price.is_zero(), "{}", t.name);
                assert_eq!(offering.estimated, offering.capacity_type == CapacityType::Spot, "{}", t.name);
            }
        }
    }

    #[test]
    fn types_are_as_the_table_says() {
        let catalog = builtin(NAME, &CatalogOptions::default()).unwrap();
        let find = |name: &str| catalog.types.iter().find(|t| &*t.name == name).unwrap();
        for (name, allocatable, gpu) in [
            ("a1.2xlarge", [7910, 14103 << 20, 58, 17 << 30], None),
            ("g4dn.xlarge", [3920, 14481 << 20, 29, 17 << 30], Some(("nvidia.com/gpu", 1))),
            ("g4ad.16xlarge", [63770, 239_554 << 20, 234, 17 << 30], Some(("amd.com/gpu", 4))),
        ] {
            let t = find(name);
            let amounts =
                [CPU, MEMORY, PODS, EPHEMERAL_STORAGE].map(|resource| t.allocatable().get(resource));
            assert_eq!(amounts, allocatable, "{name}");
            let extended =
                t.capacity.iter().find(|(resource, _)| resource.contains('/')).map(|(r, n)| (&**r, n));
            assert_eq!(extended, gpu, "{name}");
        }
        let labels: Vec<String> =
            find("g4ad.16xlarge").labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(
            labels,
            [
                "karpenter.k8s.aws/instance-category=g",
                "karpenter.k8s.aws/instance-cpu=64",
                "karpenter.k8s.aws/instance-family=g4ad",
                "karpenter.k8s.aws/instance-generation=4",
                "karpenter.k8s.aws/instance-gpu-count=4",
                "karpenter.k8s.aws/instance-gpu-manufacturer=amd",
                "karpenter.k8s.aws/instance-gpu-name=radeon-pro-v520",
                "karpenter.k8s.aws/instance-hypervisor=nitro",
                "karpenter.k8s.aws/instance-memory=262144",
                "karpenter.k8s.aws/instance-size=16xlarge",
                "kubernetes.io/arch=amd64",
                "kubernetes.io/os=linux",
                "node.kubernetes.io/instance-type=g4ad.16xlarge",
                "topology.kubernetes.io/region=us-east-1",
            ]
        );
    }

    #[test]
    fn zones_and_discount_are_the_users() {
        for (zones, discount, expected) in [
            (
                &[][..],
                60,
                "us-east-1a on-demand 0.204000, us-east-1a spot 0.081600, us-east-1b on-demand 0.204000, us-east-1b spot 0.081600, us-east-1c on-demand 0.204000, us-east-1c spot 0.081600",
            ),
            (&["us-east-1d"], 25, "us-east-1d on-demand 0.204000, us-east-1d spot 0.153000"),
            (&["us-east-1d", "us-east-1d"], 0, "us-east-1d on-demand 0.204000"),
            (&["us-east-1d"], 100, "us-east-1d on-demand 0.204000, us-east-1d spot 0.000000"),
        ] {
            let options = CatalogOptions {
                zones: zones.iter().map(|zone| Text::from(*zone)).collect(),
                spot_discount_percent: discount,
            };
            let catalog = builtin(NAME, &options).unwrap();
            let offerings: Vec<String> = catalog.types[0]
                .offerings
                .iter()
                .map(|o| format!("{} {} {}", o.zone, o.capacity_type, o.price))
                .collect();
            assert_eq!(offerings.join(", "), expected, "{zones:?} {discount}");
        }
    }

    #[test]
    fn architectures_are_in_the_names() {
        for (name, expected) in [
            ("m5.large", Some("amd64")),
            ("m6g.large", Some("arm64")),
            ("g4dn.xlarge", Some("amd64")),
            ("im4gn.large", Some("arm64")),
            ("u-6tb1.112xlarge", Some("amd64")),
            ("x2gd.metal", Some("arm64")),
            ("n2-standard-8", None),
            ("Standard_D4s_v5", None),
            ("v1.0", None),
        ] {
            assert_eq!(arch_of(name), expected, "{name}");
        }
    }
}
