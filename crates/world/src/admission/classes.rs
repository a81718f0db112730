//! Claims and ingresses that name no class get the one that is meant for all.

use crate::json::{Value, json};
use crate::object;
use crate::store::Store;

/// Which class is chosen for a kind.
pub(super) struct Choice {
    field: &'static str,
    /// The annotation that named a class before there was a field for it.
    old_field: &'static str,
    classes: &'static str,
    /// The annotations of the class that is meant for all.
    is_default: &'static [&'static str],
}

pub(super) const OF_CLAIMS: Choice = Choice {
    field: "storageClassName",
    old_field: "volume.beta.kubernetes.io/storage-class",
    classes: "storageclasses.storage.k8s.io",
    is_default: &[
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ],
};

pub(super) const OF_INGRESSES: Choice = Choice {
    field: "ingressClassName",
    old_field: "kubernetes.io/ingress.class",
    classes: "ingressclasses.networking.k8s.io",
    is_default: &["ingressclass.kubernetes.io/is-default-class"],
};

impl Choice {
    pub(super) fn make(&self, store: &Store, object: &mut Value) {
        let is_made = object["spec"].get(self.field).is_some_and(|class| !class.is_null());
        if is_made || object["metadata"]["annotations"].get(self.old_field).is_some() {
            return;
        }
        let is_default =
            |class: &Value| self.is_default.iter().any(|key| class["metadata"]["annotations"][key] == "true");
        let classes = store.list(self.classes, None).map(|(_, class)| class);
        // The youngest; among those, the first by name.
        let youngest = classes.filter(|class| is_default(class)).reduce(|first, class| {
            let made = |class: &Value| object::text(class, &["metadata", "creationTimestamp"]).to_owned();
            if made(&class) > made(&first) { class } else { first }
        });
        if let Some(class) = youngest {
            object::put(object, &["spec", self.field], json!(object::name(&class)));
        }
    }
}
