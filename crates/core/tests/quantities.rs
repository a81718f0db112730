//! Berth reads every quantity as Kubernetes does: `quantities.tsv` is what Kubernetes' own parser said.

use berth_core::units::Quantity;

const TABLE: &str = include_str!("quantities.tsv");

#[derive(Clone, Copy, Debug)]
enum Expected {
    Exactly(i128),
    /// Beyond what Kubernetes can hold: Berth stops at the largest magnitude.
    Limit,
    /// Kubernetes contradicts itself.
    Anything,
}

impl Expected {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "overflow" => Some(Self::Limit),
            "-" => Some(Self::Anything),
            number => number.parse().ok().map(Self::Exactly),
        }
    }

    fn admits(self, value: i128, limit: i128) -> bool {
        match self {
            Self::Exactly(exact) => value == exact,
            Self::Limit => value.abs() >= limit,
            Self::Anything => true,
        }
    }
}

#[test]
fn quantities_agree_with_kubernetes() {
    let limit = i128::from(i64::MAX);
    let mut wrong = Vec::new();
    let mut rows = 0;
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        rows += 1;
        let columns: Vec<&str> = line.split('\t').collect();
        let text = columns[0].replace("\\t", "\t").replace("\\n", "\n");
        let parsed = text.parse::<Quantity>();
        let right = match (&parsed, columns[1]) {
            (Err(_), "refused") => true,
            (Ok(quantity), "ok") => {
                let [nanos, units, milli] =
                    [2, 3, 4].map(|column| Expected::parse(columns[column]).expect("a whole number"));
                nanos.admits(quantity.nanos(), limit * 1_000_000_000)
                    && units.admits(i128::from(quantity.units_ceil()), limit)
                    && milli.admits(i128::from(quantity.milli_ceil()), limit)
            }
            _ => false,
        };
        if !right {
            wrong.push(format!("{line}\n    but Berth: {parsed:?}"));
        }
    }
    assert!(rows > 120, "only {rows} rows");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
