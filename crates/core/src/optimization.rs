//! What people call it when nodes make room for cheaper ones.

use std::borrow::Borrow;
use std::fmt;

use serde::Serialize;

use crate::resources::{CPU, MEMORY, Resources};

/// Types of which one has so much more memory for each CPU than the other, in percent, are of different categories.
const CATEGORY_PERCENT: i128 = 150;
/// What nodes have is said by themselves, what others would have by the catalog: so much of it is the same.
const SAME_PERCENT: i128 = 95;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Optimization {
    /// Fewer nodes than before.
    Consolidation,
    /// No fewer, with more or less memory for each CPU.
    Category,
    /// No fewer, and smaller.
    Downsize,
    /// No fewer, of the size that suits what they hold.
    RightSize,
}

impl Optimization {
    /// What it is to have these nodes instead of those.
    pub fn of<R: Borrow<Resources>, S: Borrow<Resources>>(
        before: impl Iterator<Item = R>,
        after: impl Iterator<Item = S>,
    ) -> Self {
        let (before, after) = (Total::of(before), Total::of(after));
        let (dense, sparse) = (after.memory * before.cpu, before.memory * after.cpu);
        let (most, least) = (dense.max(sparse), dense.min(sparse));
        if after.nodes < before.nodes {
            Self::Consolidation
        } else if most > least && most * 100 >= least * CATEGORY_PERCENT {
            Self::Category
        } else if after.is_less_than(before) {
            Self::Downsize
        } else {
            Self::RightSize
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Consolidation => "consolidation",
            Self::Category => "category",
            Self::Downsize => "downsize",
            Self::RightSize => "right-size",
        }
    }
}

impl fmt::Display for Optimization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Total {
    nodes: usize,
    cpu: i128,
    memory: i128,
}

impl Total {
    fn of(all: impl Iterator<Item = impl Borrow<Resources>>) -> Self {
        all.fold(Self { nodes: 0, cpu: 0, memory: 0 }, |sum, one| Self {
            nodes: sum.nodes + 1,
            cpu: sum.cpu + i128::from(one.borrow().get(CPU)),
            memory: sum.memory + i128::from(one.borrow().get(MEMORY)),
        })
    }

    fn is_less_than(self, other: Self) -> bool {
        let less = |a: i128, b: i128| a * 100 < b * SAME_PERCENT;
        (less(self.cpu, other.cpu) || less(self.memory, other.memory))
            && !less(other.cpu, self.cpu)
            && !less(other.memory, self.memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes by CPUs and GiB.
    #[test]
    fn what_it_is_called() {
        type Nodes = &'static [(i64, i64)];
        let cases: [(Nodes, Nodes, &str); 10] = [
            (&[(4, 16)], &[], "consolidation"),
            (&[(4, 16), (4, 16)], &[(4, 16)], "consolidation"),
            (&[(4, 16), (4, 16), (4, 16)], &[(4, 8), (8, 32)], "consolidation"),
            (&[(4, 16)], &[(4, 8)], "category"),
            (&[(4, 8)], &[(2, 16)], "category"),
            (&[(4, 16)], &[(2, 8)], "downsize"),
            (&[(4, 16)], &[(4, 12)], "downsize"),
            (&[(4, 16)], &[(4, 16)], "right-size"),
            (&[(4, 64)], &[(4, 63)], "right-size"),
            (&[(4, 16), (2, 8)], &[(8, 32), (2, 8)], "right-size"),
        ];
        let given = |nodes: Nodes| -> Vec<Resources> {
            let one = |(cpus, gib): &(i64, i64)| {
                [(CPU.into(), cpus * 1000), (MEMORY.into(), gib << 30)].into_iter().collect()
            };
            nodes.iter().map(one).collect()
        };
        for (before, after, name) in cases {
            let found = Optimization::of(given(before).iter(), given(after).iter());
            assert_eq!(found.name(), name, "{before:?} to {after:?}");
        }
    }
}
