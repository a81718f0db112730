//! The messages that clients send to an API server: a table made from the Go types of Kubernetes' own modules.
//!
//! The Go types and not their `generated.proto`, which knows neither what JSON leaves out (`omitempty`) nor which
//! fields are pointers, and so keep a zero that somebody set.

mod go_source;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;

use crate::peer::{Fetched, Module, fetch};
use crate::step::StepError;
use go_source::{Declaration, Package};

pub(crate) const PATH: &str = "crates/world/src/proto/messages.txt";

/// The versions of groups that the world serves, below `k8s.io/api`.
const SERVED: [&str; 17] = [
    "admissionregistration/v1",
    "apps/v1",
    "authentication/v1",
    "authorization/v1",
    "autoscaling/v1",
    "autoscaling/v2",
    "batch/v1",
    "coordination/v1",
    "core/v1",
    "discovery/v1",
    "events/v1",
    "networking/v1",
    "node/v1",
    "policy/v1",
    "rbac/v1",
    "scheduling/v1",
    "storage/v1",
];
const API: &str = "k8s.io/api";
const MACHINERY: &str = "k8s.io/apimachinery";
const EXTENSIONS: &str = "k8s.io/apiextensions-apiserver";
const META: &str = "k8s.io/apimachinery/pkg/apis/meta/v1";
const EXTENSIONS_V1: &str = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1";
/// Of what belongs to no group, what is sent as a body.
const META_KINDS: [&str; 2] = ["DeleteOptions", "Status"];

/// Types that are written in a way of their own, and what the table calls them.
const OWN_FORM: [(&str, &str); 10] = [
    ("k8s.io/apimachinery/pkg/api/resource.Quantity", "Quantity"),
    ("k8s.io/apimachinery/pkg/util/intstr.IntOrString", "IntOrString"),
    ("k8s.io/apimachinery/pkg/runtime.RawExtension", "RawExtension"),
    ("k8s.io/apimachinery/pkg/apis/meta/v1.Time", "Time"),
    ("k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime", "MicroTime"),
    ("k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1", "FieldsV1"),
    ("k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON", "JSON"),
    ("k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrArray", "SchemaOrArray"),
    ("k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrBool", "SchemaOrBool"),
    (
        "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrStringArray",
        "SchemaOrStringArray",
    ),
];

/// The table, or why there is none on this machine.
pub(crate) enum Table {
    Text(String),
    LeftOut(String),
}

pub(crate) fn table() -> Result<Table, StepError> {
    match fetch("control-plane", &[API, MACHINERY, EXTENSIONS])? {
        Fetched::Modules(modules) => write(modules).map(Table::Text),
        Fetched::LeftOut(why) => Ok(Table::LeftOut(why)),
    }
}

fn write(modules: Vec<Module>) -> Result<String, StepError> {
    let versions: Vec<String> =
        modules.iter().map(|module| format!("{} {}", module.path, module.version)).collect();
    let mut maker = Maker { modules, packages: BTreeMap::new(), wanted: BTreeSet::new() };
    let mut kinds = Vec::new();
    let served = SERVED.iter().map(|version| format!("{API}/{version}"));
    for path in served.chain([EXTENSIONS_V1.to_owned(), META.to_owned()]) {
        for name in maker.roots(&path)? {
            let api_version = maker.api_version(&path)?;
            kinds.push(format!("kind {api_version} {name} {}", message_name(&path, &name)));
            maker.wanted.insert((path.clone(), name));
        }
    }
    let mut messages: BTreeMap<String, String> = BTreeMap::new();
    while let Some((path, name)) = maker.wanted.pop_first() {
        if let Entry::Vacant(room) = messages.entry(message_name(&path, &name)) {
            room.insert(maker.fields(&path, &name)?);
        }
    }
    let mut text = format!(
        "# What clients send: kinds, and their messages with number, name and type of each field.\n\
         # From {}, by `cargo xtask generate`.\n\
         # After a name: `?` for what JSON leaves out if empty, `!` if zero; before it: `+` for what JSON puts in line.\n\
         # `*` is a pointer, `[]` a list, `{{}}` a map by keys, `=` the name of a type, `~` of one that is a message.\n",
        versions.join(", ")
    );
    kinds.sort();
    for kind in kinds {
        text.push_str(&kind);
        text.push('\n');
    }
    for (name, fields) in messages {
        // Writing to a string cannot fail.
        let _ = write!(text, "message {name}\n{fields}");
    }
    Ok(text)
}

struct Maker {
    modules: Vec<Module>,
    /// By import path.
    packages: BTreeMap<String, Package>,
    /// Structs that something refers to.
    wanted: BTreeSet<(String, String)>,
}

impl Maker {
    fn package(&mut self, path: &str) -> Result<&Package, StepError> {
        if !self.packages.contains_key(path) {
            let read = Package::read(&self.directory(path)?)?;
            self.packages.insert(path.to_owned(), read);
        }
        self.packages.get(path).ok_or_else(|| not_understood(path, "no such package"))
    }

    fn directory(&self, path: &str) -> Result<PathBuf, StepError> {
        let module = self.modules.iter().find_map(|module| {
            let below = path.strip_prefix(&module.path)?.strip_prefix('/')?;
            Some(module.directory.join(below))
        });
        module.ok_or_else(|| not_understood(path, "not in a module of the table"))
    }

    /// The kinds that can be a body: those with a type of their own in them, but for lists.
    fn roots(&mut self, path: &str) -> Result<Vec<String>, StepError> {
        let declarations = &self.package(path)?.declarations;
        let roots = declarations.iter().filter(|(name, declaration)| match declaration {
            Declaration::Struct { fields, .. } if path == META => {
                META_KINDS.contains(&name.as_str()) && !fields.is_empty()
            }
            Declaration::Struct { fields, .. } => {
                !name.ends_with("List") && fields.iter().any(|field| field.type_.ends_with("TypeMeta"))
            }
            Declaration::Named { .. } => false,
        });
        Ok(roots.map(|(name, _)| name.clone()).collect())
    }

    fn api_version(&mut self, path: &str) -> Result<String, StepError> {
        let version = path.rsplit('/').next().unwrap_or_default().to_owned();
        Ok(match self.package(path)?.group.as_str() {
            "" => version,
            group => format!("{group}/{version}"),
        })
    }

    fn fields(&mut self, path: &str, name: &str) -> Result<String, StepError> {
        let declaration = self.package(path)?.declarations.get(name).cloned();
        let Some(Declaration::Struct { fields, imports }) = declaration else {
            return Err(not_understood(path, &format!("{name} is no struct")));
        };
        let mut text = String::new();
        for field in &fields {
            let type_ = self.resolve(path, &imports, &field.type_)?;
            let _ = writeln!(text, "{} {} {type_}", field.number, field.name);
        }
        Ok(text)
    }

    /// A type's expression in the table's words.
    fn resolve(
        &mut self,
        path: &str,
        imports: &BTreeMap<String, String>,
        type_: &str,
    ) -> Result<String, StepError> {
        if let Some(of) = type_.strip_prefix('*') {
            return Ok(format!("*{}", self.resolve(path, imports, of)?));
        }
        if type_ == "[]byte" {
            return Ok("bytes".to_owned());
        }
        if let Some(of) = type_.strip_prefix("[]") {
            return Ok(format!("[]{}", self.resolve(path, imports, of)?));
        }
        if let Some((key, of)) = type_.strip_prefix("map[").and_then(|rest| rest.split_once(']')) {
            let of = self.resolve(path, imports, of)?;
            return Ok(match key {
                "string" => format!("{{}}{of}"),
                key => {
                    let (path, name) = qualified(path, imports, key)?;
                    format!("{{{}}}{of}", go_text(&path, &name))
                }
            });
        }
        if matches!(type_, "string" | "bool" | "int32" | "int64" | "float64") {
            return Ok(type_.to_owned());
        }
        let (path, name) = qualified(path, imports, type_)?;
        let full = format!("{path}.{name}");
        if let Some((_, own)) = OWN_FORM.iter().find(|(known, _)| *known == full) {
            if own.starts_with("Schema") {
                self.wanted.insert((EXTENSIONS_V1.to_owned(), "JSONSchemaProps".to_owned()));
            }
            return Ok((*own).to_owned());
        }
        match self.package(&path)?.declarations.get(&name).cloned() {
            None => Err(not_understood(&path, &format!("{name} is not declared"))),
            Some(Declaration::Struct { .. }) => {
                let called = message_name(&path, &name);
                self.wanted.insert((path, name));
                Ok(called)
            }
            Some(Declaration::Named { type_, imports, is_alias, is_message }) => {
                let of = self.resolve(&path, &imports, &type_)?;
                let sign = if is_message { '~' } else { '=' };
                Ok(if is_alias { of } else { format!("{}{sign}{of}", go_text(&path, &name)) })
            }
        }
    }
}

/// The package and the name of a type.
fn qualified(
    path: &str,
    imports: &BTreeMap<String, String>,
    type_: &str,
) -> Result<(String, String), StepError> {
    match type_.split_once('.') {
        None => Ok((path.to_owned(), type_.to_owned())),
        Some((alias, name)) => match imports.get(alias) {
            Some(path) => Ok((path.clone(), name.to_owned())),
            None => Err(not_understood(path, &format!("{alias} is not imported"))),
        },
    }
}

/// `core.v1.Pod`.
fn message_name(path: &str, name: &str) -> String {
    let mut parts = path.rsplit('/');
    let (version, group) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    format!("{group}.{version}.{name}")
}

/// `v1.Pod`, as Go prints it.
fn go_text(path: &str, name: &str) -> String {
    format!("{}.{name}", path.rsplit('/').next().unwrap_or_default())
}

fn not_understood(path: &str, message: &str) -> StepError {
    StepError::Output { command: format!("Go's types of {path}"), message: message.to_owned() }
}
