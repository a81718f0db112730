//! NodeGroups that are no pools: nobody's to change, or with a name that another pool has.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use berth_core::names::Text;

use crate::manifests::{Kept, Manifests};
use crate::pools::vpsie::NodeGroupObject;

/// Groups whose nodes are of no pool. Nodes and claims name their group, which names are not enough for: there may be one
/// of the same name in each namespace.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    groups: BTreeSet<(Text, Text)>,
    names: BTreeSet<Text>,
}

impl Strangers {
    /// Of groups in the order in which they count.
    pub(super) fn of(manifests: &Manifests) -> Self {
        let mut taken: BTreeSet<&Text> = manifests.node_pools.iter().map(|kept| &kept.name).collect();
        let mut strangers = Self::default();
        for group in &manifests.node_groups {
            let is_ours = !manifests.is_whole || group.object.growth.is_managed;
            if !is_ours || !taken.insert(&group.name) {
                strangers.groups.insert((group.namespace.clone(), group.name.clone()));
                strangers.names.insert(group.name.clone());
            }
        }
        strangers
    }

    pub(crate) fn has(&self, namespace: &Text, name: &Text) -> bool {
        self.groups.contains(&(namespace.clone(), name.clone()))
    }

    /// Whether one of this name is among them: who does not say in which namespace its group is may mean that one.
    pub(crate) fn may_have(&self, name: &Text) -> bool {
        self.names.contains(name)
    }
}

/// Of groups with the same name one that is Berth's to run counts before one that is not, and then the older.
pub(super) fn precedence(a: &Kept<NodeGroupObject>, b: &Kept<NodeGroupObject>, is_live: bool) -> Ordering {
    let key = |kept: &Kept<NodeGroupObject>| (is_live && !kept.object.growth.is_managed, kept.object.created);
    key(a).cmp(&key(b)).then_with(|| a.namespace.cmp(&b.namespace))
}
