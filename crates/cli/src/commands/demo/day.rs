//! The shop's day: how many of each workload there are, and when.

/// A day of the demo has ten minutes.
const DAY_SECS: u64 = 600;

/// From which second of the day there are how many of `web`, `api` and `worker`.
const HOURS: [(u64, [u32; 3]); 14] = [
    (0, [6, 3, 8]),
    (40, [10, 4, 8]),
    (80, [18, 6, 10]),
    (120, [26, 9, 14]),
    (180, [22, 8, 20]),
    (220, [14, 6, 26]),
    (260, [10, 5, 16]),
    (300, [20, 8, 12]),
    (340, [32, 11, 12]),
    (400, [24, 8, 16]),
    (440, [14, 5, 24]),
    (480, [8, 3, 30]),
    (520, [5, 2, 14]),
    (560, [4, 2, 6]),
];

pub(super) const WORKLOADS: [&str; 3] = ["web", "api", "worker"];

/// How many of each of [`WORKLOADS`] there are, so long after the beginning.
pub(super) fn replicas(secs: u64) -> [u32; 3] {
    let second = secs % DAY_SECS;
    let begun = HOURS.iter().rev().find(|(from, _)| *from <= second);
    begun.map_or([0; 3], |(_, replicas)| *replicas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_alike() {
        for (secs, expected) in [
            (0, [6, 3, 8]),
            (39, [6, 3, 8]),
            (40, [10, 4, 8]),
            (359, [32, 11, 12]),
            (599, [4, 2, 6]),
            (600, [6, 3, 8]),
            (1240, [10, 4, 8]),
        ] {
            assert_eq!(replicas(secs), expected, "{secs}");
        }
        assert!(HOURS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(HOURS.iter().all(|(from, _)| *from < DAY_SECS));
    }
}
