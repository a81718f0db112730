//! Where the pods that are to be placed come from.

use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use crate::host::HostOrigin;
use crate::provision::Prepared;
use crate::topology::HostId;

/// Where the pods that are to be placed come from.
pub(super) struct Homes {
    /// For each class the pods that wait.
    pub(super) waiting: Vec<Vec<usize>>,
    /// For each host the pods that could leave it, by class.
    pub(super) on_host: Vec<Vec<(usize, Vec<usize>)>>,
    /// For each node its host, unless it is going away.
    pub(super) host_of: Vec<Option<HostId>>,
}

impl Homes {
    pub(super) fn of(prepared: &Prepared<'_>, pending: &FixedBitSet) -> Self {
        let snapshot = prepared.snapshot;
        let mut host_of = vec![None; snapshot.nodes.len()];
        let mut by_name: FxHashMap<&str, HostId> = FxHashMap::default();
        for (host, slot) in prepared.hosts.iter().enumerate() {
            if let HostOrigin::Node(node) = slot.origin {
                host_of[node] = Some(host);
                by_name.insert(&snapshot.nodes[node].name, host);
            }
        }
        let mut waiting = vec![Vec::new(); prepared.classes.all.len()];
        let mut on_host: Vec<Vec<(usize, Vec<usize>)>> = vec![Vec::new(); prepared.hosts.len()];
        for (class_index, class) in prepared.classes.all.iter().enumerate() {
            for pod in &class.pods {
                let home = snapshot.pods[*pod].node.as_ref().and_then(|node| by_name.get(&**node));
                match home {
                    Some(host) if !pending.contains(*pod) => {
                        let classes = &mut on_host[*host];
                        match classes.last_mut() {
                            Some((last, pods)) if *last == class_index => pods.push(*pod),
                            _ => classes.push((class_index, vec![*pod])),
                        }
                    }
                    _ => waiting[class_index].push(*pod),
                }
            }
        }
        Self { waiting, on_host, host_of }
    }

    /// How many pods of which class are on which host.
    pub(super) fn counts(&self) -> impl Iterator<Item = (usize, HostId, u32)> {
        self.on_host.iter().enumerate().flat_map(|(host, classes)| {
            classes
                .iter()
                .map(move |(class, pods)| (*class, host, u32::try_from(pods.len()).unwrap_or(u32::MAX)))
        })
    }
}
