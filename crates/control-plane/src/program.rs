//! The programs a control plane is made of, and which versions of them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The module from which all are built; it decides the versions.
const GO_MOD: &str = include_str!("../../../peers/control-plane/go.mod");
const GO_SUM: &str = include_str!("../../../peers/control-plane/go.sum");

/// In the order in which they are started. kubectl runs only when somebody calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    Etcd,
    KubeApiserver,
    KubeControllerManager,
    KubeScheduler,
    Kwok,
    Kubectl,
}

impl Program {
    pub const ALL: [Self; 6] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::KubeScheduler,
        Self::Kwok,
        Self::Kubectl,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::Kwok => "kwok",
            Self::Kubectl => "kubectl",
        }
    }

    /// The Go package of its `main`.
    pub(crate) fn package(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::KubeApiserver => "k8s.io/kubernetes/cmd/kube-apiserver",
            Self::KubeControllerManager => "k8s.io/kubernetes/cmd/kube-controller-manager",
            Self::KubeScheduler => "k8s.io/kubernetes/cmd/kube-scheduler",
            Self::Kwok => "sigs.k8s.io/kwok/cmd/kwok",
            Self::Kubectl => "k8s.io/kubernetes/cmd/kubectl",
        }
    }

    fn module(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::Kwok => "sigs.k8s.io/kwok",
            _ => "k8s.io/kubernetes",
        }
    }

    /// Which one is built: `v1.36.4`.
    pub(crate) fn version(self) -> &'static str {
        required(GO_MOD, self.module()).unwrap_or("of an unknown version")
    }

    /// What it is asked for its version.
    pub(crate) fn version_arguments(self) -> &'static [&'static str] {
        match self {
            Self::Kubectl => &["version", "--client"],
            _ => &["--version"],
        }
    }

    /// These three speak of objects to each other, and only one minor version understands all of them.
    pub(crate) fn shares_minor_version(self) -> bool {
        matches!(self, Self::KubeApiserver | Self::KubeControllerManager | Self::KubeScheduler)
    }
}

impl fmt::Display for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Which version of `module` a go.mod requires.
fn required<'a>(go_mod: &'a str, module: &str) -> Option<&'a str> {
    go_mod.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some(module)).then(|| words.next())?.filter(|word| word.starts_with('v'))
    })
}

/// Without the version the Kubernetes programs call themselves v0.0.0-master, and kubectl refuses them.
pub(crate) fn linker_flags() -> String {
    let version = Program::KubeApiserver.version();
    let mut numbers = version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let values =
        [("gitVersion", version), ("gitMajor", major), ("gitMinor", minor), ("gitTreeState", "clean")];
    let mut flags = vec!["-s -w".to_owned()];
    for package in ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"] {
        flags.extend(values.iter().map(|(name, value)| format!("-X {package}.{name}={value}")));
    }
    flags.join(" ")
}

/// A name for the programs built from this module with these flags, and no others.
pub(crate) fn build_name() -> String {
    let inputs = [GO_MOD, GO_SUM, &linker_flags()].concat();
    format!(
        "kubernetes-{}-{}-{}-{:016x}",
        Program::KubeApiserver.version(),
        std::env::consts::OS,
        std::env::consts::ARCH,
        fnv1a(inputs.as_bytes())
    )
}

/// The same on every machine and with every compiler, which the standard library's hashes do not promise.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The version in what a program prints of itself: `Kubernetes v1.36.4`, `etcd Version: 3.6.16`.
pub(crate) fn version_in(printed: &str) -> Option<String> {
    printed.split_whitespace().find_map(|word| {
        let number = word.strip_prefix('v').unwrap_or(word);
        let looks_right = number.starts_with(|c: char| c.is_ascii_digit()) && number.contains('.');
        looks_right.then(|| format!("v{number}"))
    })
}

/// `1.36` of `v1.36.4`.
pub(crate) fn minor(version: &str) -> &str {
    let number = version.trim_start_matches('v');
    number.match_indices('.').nth(1).map_or(number, |(end, _)| &number[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_is_a_tool_of_the_module_and_has_a_version() {
        for program in Program::ALL {
            assert!(
                GO_MOD.lines().any(|line| line.trim() == program.package()),
                "{program} is no tool in peers/control-plane/go.mod"
            );
            assert!(program.version().starts_with('v'), "{program} {}", program.version());
        }
    }

    #[test]
    fn a_module_is_required_at_a_version() {
        let go_mod = "tool (\n\texample.com/a\n)\nrequire (\n\texample.com/ab v2.0.0\n\texample.com/a v1.2.3 // indirect\n)";
        for (module, version) in
            [("example.com/a", Some("v1.2.3")), ("example.com/ab", Some("v2.0.0")), ("example.com/c", None)]
        {
            assert_eq!(required(go_mod, module), version, "{module}");
        }
    }

    #[test]
    fn programs_say_their_version() {
        for (printed, version, short) in [
            ("Kubernetes v1.36.4\n", "v1.36.4", "1.36"),
            ("etcd Version: 3.6.16\nGit SHA: GitNotFound\nGo Version: go1.26.8\n", "v3.6.16", "3.6"),
            ("kwok version v0.8.0 go1.26.8 (linux/amd64)\n", "v0.8.0", "0.8"),
            ("Client Version: v1.37.0-rc.1\nKustomize Version: v5.7.1\n", "v1.37.0-rc.1", "1.37"),
        ] {
            assert_eq!(version_in(printed).as_deref(), Some(version), "{printed}");
            assert_eq!(minor(version), short);
        }
        assert_eq!(version_in("unknown flag: --version"), None);
    }

    #[test]
    fn the_linker_names_the_version_twice() {
        let flags = linker_flags();
        let version = format!("gitVersion={}", Program::KubeApiserver.version());
        assert_eq!(flags.matches(&version).count(), 2, "{flags}");
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c, "a known value of the hash");
    }
}
