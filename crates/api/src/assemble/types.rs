//! What pools can buy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_core::catalog::{Catalog, InstanceType};
use berth_core::names::Text;
use berth_core::overlay::{self, Overlay};
use berth_core::pool::Pool;
use berth_core::reason::{Reason, Refusal};

use super::{Assembly, ClassKind};
use crate::pools::class::VpsieClassObject;
use crate::pools::gardener::ConstraintPoolObject;
use crate::pools::karpenter::NodePoolObject;
use crate::pools::vpsie::{self, NodeGroupObject};
use crate::resources::karpenter::NodeClassReference;

pub(super) struct Catalogs<'c> {
    pub(super) load: &'c mut dyn FnMut(ClassKind) -> Result<Arc<Catalog>, String>,
    pub(super) loaded: BTreeMap<ClassKind, Result<Arc<Catalog>, String>>,
}

impl Catalogs<'_> {
    pub(super) fn types(&mut self, kind: ClassKind) -> Result<Vec<Arc<InstanceType>>, String> {
        let catalog = self.loaded.entry(kind).or_insert_with(|| (self.load)(kind));
        catalog.as_ref().map(|catalog| catalog.types.clone()).map_err(Clone::clone)
    }
}

/// Why a pool can buy nothing: the field that is to blame, and what would be right.
pub(super) struct NoTypes {
    pub(super) field: String,
    pub(super) refusal: Refusal,
}

impl NoTypes {
    fn new(field: impl Into<String>, refusal: Refusal) -> Self {
        Self { field: field.into(), refusal }
    }

    /// There is no catalog.
    fn unoffered(field: impl Into<String>, why: String) -> Self {
        Self::new(field, Reason::PoolNotReady.because(why))
    }
}

pub(super) type Types = Result<Arc<[Arc<InstanceType>]>, NoTypes>;

impl Assembly<'_> {
    /// The class that a pool names, if it is one of VPSie's and there.
    pub(super) fn vpsie_class(&self, class: &NodeClassReference) -> Option<&VpsieClassObject> {
        let is_it = ClassKind::of(class) == Some(ClassKind::Vpsie);
        self.manifests.vpsie_classes.get(class.name.as_str()).filter(|_| is_it)
    }

    pub(super) fn node_pool_types(&mut self, object: &NodePoolObject) -> Types {
        const FIELD: &str = "spec.template.spec.nodeClassRef";
        let class = &object.class;
        let Some(kind) = ClassKind::of(class) else {
            let NodeClassReference { group, kind, .. } = class;
            let why = format!(
                "{group}/{kind} is a class without a catalog; Berth knows karpenter.kwok.sh/KWOKNodeClass, \
                 karpenter.k8s.aws/EC2NodeClass and berth.dev/VPSieNodeClass"
            );
            return Err(NoTypes::unoffered(FIELD, why));
        };
        let of_kind = self.manifests.classes.iter().filter(|((of, _), _)| *of == kind);
        let known: BTreeMap<&str, &Option<String>> =
            of_kind.map(|((_, name), trouble)| (&**name, trouble)).collect();
        let unusable = |reason: Reason, message: String| {
            Err(NoTypes::new(format!("{FIELD}.name"), reason.because(message)))
        };
        match known.get(class.name.as_str()) {
            Some(None) => {}
            Some(Some(trouble)) => {
                let message = format!("{} `{}` {trouble}", class.kind, class.name);
                return unusable(Reason::NodeClassNotReady, message);
            }
            // Without any class of the kind only the pools were given, and a class changes little.
            None if known.is_empty() && !self.manifests.is_whole => {}
            None => {
                let names = known.keys().copied().collect::<Vec<_>>().join(", ");
                let names = if names.is_empty() { "none" } else { &*names };
                let message = format!("there is no {} `{}`; the input has {names}", class.kind, class.name);
                return unusable(Reason::NodeClassNotFound, message);
            }
        }
        let mut types = self.catalogs.types(kind).map_err(|error| NoTypes::unoffered(FIELD, error))?;
        if let Some(of_class) = self.vpsie_class(class) {
            types = match of_class.types(&types) {
                Ok(types) => types,
                Err((field, Refusal { reason, message })) => {
                    return unusable(reason, format!("{} `{}`: {field}: {message}", class.kind, class.name));
                }
            };
        }
        if kind == ClassKind::Ec2
            && let Some(kubelet) = self.manifests.kubelets.get(class.name.as_str())
            && !kubelet.is_default()
        {
            types = kubelet.adapted(&types);
        }
        Ok(self.overlaid(types, &object.pool).into())
    }

    /// Overlays that contradict each other change nothing, and are reported. The others do what they say.
    fn overlaid(&mut self, types: Vec<Arc<InstanceType>>, pool: &Pool) -> Vec<Arc<InstanceType>> {
        if self.manifests.overlays.is_empty() {
            return types;
        }
        let mut overlays: Vec<Overlay> =
            self.manifests.overlays.iter().map(|kept| kept.object.clone()).collect();
        loop {
            let conflicts = match overlay::apply_in_pool(&types, &pool.labels, &overlays) {
                Ok(types) => return types,
                Err(conflicts) => conflicts,
            };
            for conflict in conflicts {
                overlays.retain(|overlay| conflict.overlays().all(|name| *name != overlay.name));
                for name in conflict.overlays() {
                    let known = self.overlay_conflicts.entry(name.clone());
                    known.or_insert_with(|| conflict.to_string());
                }
                let last = conflict.overlays().last();
                let blamed = self.manifests.overlays.iter().find(|kept| Some(&kept.name) == last);
                let blamed = blamed.map(|kept| (kept.origin, kept.namespace.clone(), kept.name.clone()));
                if let Some((origin, namespace, name)) = blamed {
                    self.blame_at(origin, &namespace, &name, "spec", conflict.to_string());
                }
            }
        }
    }

    /// Whether a group buys by its size, since its offerings are of another kind of paths.
    pub(super) fn goes_by_size(&mut self, object: &NodeGroupObject) -> bool {
        let Ok(catalog) = self.catalogs.types(ClassKind::Vpsie) else { return false };
        object.kube_size.is_some() && vpsie::types_named(&object.offerings, &catalog).is_err()
    }

    /// That a group names a size as well, and buys what its offerings say.
    pub(super) fn idle_size(&mut self, object: &NodeGroupObject) -> Option<String> {
        let size = object.kube_size.as_ref()?;
        let catalog = self.catalogs.types(ClassKind::Vpsie).ok()?;
        let named = |offerings: &[String]| -> Option<Vec<Text>> {
            let types = vpsie::types_named(offerings, &catalog).ok()?;
            Some(types.iter().map(|known| known.name.clone()).collect())
        };
        let bought = named(&object.offerings)?;
        (named(std::slice::from_ref(size)).as_ref() != Some(&bought)).then(|| {
            let offerings = object.offerings.join(", ");
            format!("`{size}` makes no difference beside offeringIDs ({offerings}), which say what is bought")
        })
    }

    pub(super) fn node_group_types(&mut self, object: &NodeGroupObject) -> Types {
        const FIELD: &str = "spec.offeringIDs";
        let catalog =
            self.catalogs.types(ClassKind::Vpsie).map_err(|error| NoTypes::unoffered(FIELD, error))?;
        let types = match &object.kube_size {
            Some(size) if self.goes_by_size(object) => {
                vpsie::types_named(std::slice::from_ref(size), &catalog)
            }
            _ => vpsie::types_named(&object.offerings, &catalog),
        };
        let types = types.map_err(|refusal| NoTypes::new(FIELD, refusal))?.into_iter();
        let most = object.interruption_percent_max;
        Ok(types.map(|known| vpsie::without_frequent_interruptions(known, most)).collect())
    }

    pub(super) fn constraint_pool_types(&mut self, object: &ConstraintPoolObject) -> Types {
        let field = format!("spec.nodePools[{}].nodeTemplates", object.index);
        let unoffered = |error| NoTypes::unoffered(field.as_str(), error);
        let catalog = self.catalogs.types(ClassKind::Gardener).map_err(unoffered)?;
        let storage = &self.manifests.storage;
        let classes = storage.classes.values().map(|class| class.driver.clone());
        let volumes = storage.volumes.values().filter_map(|volume| volume.driver.clone());
        let drivers: BTreeSet<Text> = classes.chain(volumes).collect();
        let drivers: Vec<Text> = drivers.into_iter().collect();
        object.priced_types(&catalog, &drivers).map(Into::into).map_err(|unpriced| {
            let field = format!("{field}[{}].instanceType", unpriced.template);
            NoTypes::unoffered(field, unpriced.to_string())
        })
    }
}
