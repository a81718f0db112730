//! What this process takes, as Linux tells it. Where nobody tells, nothing is said.

use std::fs;

use super::Samples;
use super::table::{
    PROCESS_CPU, PROCESS_FDS, PROCESS_FDS_MAX, PROCESS_RESIDENT, PROCESS_START, PROCESS_VIRTUAL,
};

/// Linux tells times in hundredths of a second, on every machine that it runs on.
const TICKS_PER_SEC: f64 = 100.0;

pub(super) fn of_this(samples: &mut Samples) {
    let read = |path: &str| fs::read_to_string(path).ok();
    if let Some(stat) = read("/proc/self/stat") {
        if let (Some(user), Some(system)) = (field(&stat, 14), field(&stat, 15)) {
            samples.counted(PROCESS_CPU, [], (user + system) / TICKS_PER_SEC);
        }
        let booted = read("/proc/stat").and_then(|text| named(&text, "btime"));
        if let (Some(booted), Some(began)) = (booted, field(&stat, 22)) {
            samples.set(PROCESS_START, [], booted + began / TICKS_PER_SEC);
        }
    }
    if let Some(status) = read("/proc/self/status") {
        for (metric, name) in [(PROCESS_RESIDENT, "VmRSS:"), (PROCESS_VIRTUAL, "VmSize:")] {
            if let Some(kib) = named(&status, name) {
                samples.set(metric, [], kib * 1024.0);
            }
        }
    }
    if let Ok(files) = fs::read_dir("/proc/self/fd") {
        samples.set(PROCESS_FDS, [], f64::from(u32::try_from(files.count()).unwrap_or(u32::MAX)));
    }
    if let Some(most) = read("/proc/self/limits").and_then(|limits| named(&limits, "Max open files")) {
        samples.set(PROCESS_FDS_MAX, [], most);
    }
}

/// A field of `stat`, counted from one. The second is the program's name, in which anything may be.
fn field(stat: &str, number: usize) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

/// The number after a name at the beginning of a line.
fn named(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_tells_is_read() {
        let stat = "42 (a) b) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 3 0 12345 1000 200";
        assert_eq!(
            (field(stat, 14), field(stat, 15), field(stat, 22)),
            (Some(250.0), Some(50.0), Some(12345.0))
        );
        assert_eq!(field("", 14), None);
        let status = "Name:\tberth\nVmSize:\t  2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!((named(status, "VmRSS:"), named(status, "VmPeak:")), (Some(1024.0), None));
        let limits = "Max open files            1024                 4096                 files\n";
        assert_eq!(named(limits, "Max open files"), Some(1024.0));
    }
}
