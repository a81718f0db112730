//! What the numbers were measured on.

use std::fs;

/// CPU, memory and compiler, as far as they can be found out.
pub(super) fn description() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let compiler = crate::step::output(&["rustc", "--version"]).map_or_else(
        |_| "an unknown compiler".to_owned(),
        |text| first_words(&String::from_utf8_lossy(&text)),
    );
    format!("{}, {}, {compiler}", cpus(&read("/proc/cpuinfo")), memory(&read("/proc/meminfo")))
}

fn cpus(cpuinfo: &str) -> String {
    let values = |name| {
        cpuinfo
            .lines()
            .filter_map(|line| line.split_once(':'))
            .filter(move |(key, _)| key.trim() == name)
            .map(|(_, value)| value.trim())
    };
    let model = values("model name").next().unwrap_or("an unknown CPU");
    match values("processor").count() {
        0 => model.to_owned(),
        1 => format!("{model}, 1 CPU"),
        count => format!("{model}, {count} CPUs"),
    }
}

fn memory(meminfo: &str) -> String {
    let kib: Option<u64> = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    kib.map_or_else(
        || "unknown memory".to_owned(),
        |kib| format!("{} GB of memory", (kib + 500_000) / 976_563),
    )
}

/// `rustc 1.95.0`, without the commit and its date.
fn first_words(version: &str) -> String {
    version.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_described_as_far_as_they_are_known() {
        let two = "processor\t: 0\nmodel name\t: AMD EPYC\n\nprocessor\t: 1\nmodel name\t: AMD EPYC\n";
        for (cpuinfo, expected) in
            [(two, "AMD EPYC, 2 CPUs"), ("processor : 0\n", "an unknown CPU, 1 CPU"), ("", "an unknown CPU")]
        {
            assert_eq!(cpus(cpuinfo), expected);
        }
        for (meminfo, expected) in
            [("MemTotal:       24681700 kB\nMemFree: 1 kB\n", "25 GB of memory"), ("", "unknown memory")]
        {
            assert_eq!(memory(meminfo), expected);
        }
        assert_eq!(first_words("rustc 1.95.0 (abc 2026-01-01)"), "rustc 1.95.0");
    }
}
