//! A request as it was meant: what is asked of which resource, from its path, query and headers.

use std::sync::Arc;

use http::Method;

use crate::failure::Failure;
use crate::kinds::{Kinds, Resource, Subresource};
use crate::metrics;
use crate::selector::name_selected;

/// What the path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Discovery, health, version and the like.
    Path(String),
    Resource(Place),
}

/// A resource, or one object of it, or a part of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) resource: Arc<Resource>,
    /// `None` for all namespaces, and for resources that have none.
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<Subresource>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

/// The options that a query may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query {
    pub(crate) watch: bool,
    pub(crate) label_selector: String,
    pub(crate) field_selector: String,
    pub(crate) resource_version: String,
    pub(crate) resource_version_match: String,
    pub(crate) limit: usize,
    pub(crate) continue_token: String,
    pub(crate) timeout_secs: Option<u64>,
    pub(crate) bookmarks: bool,
    pub(crate) initial_events: Option<bool>,
    /// Which stages of the request are only tried: `All`, or what is refused later.
    pub(crate) dry_run: Vec<String>,
    pub(crate) field_manager: String,
    pub(crate) field_validation: String,
    pub(crate) force: Option<bool>,
    pub(crate) grace_period_secs: Option<i64>,
    pub(crate) propagation: String,
    pub(crate) include_object: String,
}

impl Query {
    pub(crate) fn is_dry_run(&self) -> bool {
        !self.dry_run.is_empty()
    }

    pub(crate) fn parse(query: &str) -> Result<Self, Failure> {
        let mut parsed = Self::default();
        for (key, value) in pairs(query) {
            match &*key {
                "watch" => parsed.watch = is_true(&value),
                "labelSelector" => parsed.label_selector = value,
                "fieldSelector" => parsed.field_selector = value,
                "resourceVersion" => parsed.resource_version = value,
                "resourceVersionMatch" => parsed.resource_version_match = value,
                // Less than nothing is no limit.
                "limit" => parsed.limit = usize::try_from(number::<i64>(&value)?).unwrap_or(0),
                "continue" => parsed.continue_token = value,
                "timeoutSeconds" => parsed.timeout_secs = Some(number(&value)?),
                "allowWatchBookmarks" => parsed.bookmarks = is_true(&value),
                "sendInitialEvents" => parsed.initial_events = Some(is_true(&value)),
                "dryRun" => parsed.dry_run.push(value),
                "fieldManager" => parsed.field_manager = value,
                "fieldValidation" => parsed.field_validation = value,
                "force" => parsed.force = Some(is_true(&value)),
                "gracePeriodSeconds" => parsed.grace_period_secs = Some(number(&value)?),
                "propagationPolicy" => parsed.propagation = value,
                "includeObject" => parsed.include_object = value,
                _ => {}
            }
        }
        Ok(parsed)
    }
}

/// Keys and values with their escapes undone.
pub(crate) fn pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (unescaped(&key.replace('+', " ")), unescaped(&value.replace('+', " ")))
    })
}

/// `%41` is an A; what is no escape stays as it is.
pub(crate) fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| after.get(..2)).flatten();
        let byte = escaped.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn is_true(value: &str) -> bool {
    !matches!(value, "" | "0" | "false" | "False" | "FALSE" | "f" | "F")
}

fn number<T: std::str::FromStr>(value: &str) -> Result<T, Failure> {
    value.parse().map_err(|_| {
        let digits = value.strip_prefix(['-', '+']).unwrap_or(value);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let why = if is_number { "value out of range" } else { "invalid syntax" };
        Failure::bad_request(format!("strconv.ParseInt: parsing {value:?}: {why}"))
    })
}

/// What is asked for, whether or not it is served: access is decided by it before anything else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) verb: &'static str,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Asked {
    /// `None` for paths that are no resources.
    pub(crate) fn parse(method: &Method, path: &str, query: &Query) -> Option<Self> {
        let parts: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(unescaped).collect();
        let words: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (group, rest) = match &words[..] {
            ["api", _, rest @ ..] if !rest.is_empty() => ("", rest),
            ["apis", group, _, rest @ ..] if !rest.is_empty() => (*group, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !matches!(rest, [] | ["status" | "finalize", ..]) => {
                (*namespace, rest)
            }
            // A namespace is in itself.
            ["namespaces", name, ..] => (*name, rest),
            rest => ("", rest),
        };
        let word = |at: usize| rest.get(at).copied().unwrap_or_default().to_owned();
        let verb = match (method, word(1).is_empty()) {
            (&Method::POST, _) => "create",
            (&Method::PUT, _) => "update",
            (&Method::PATCH, _) => "patch",
            (&Method::DELETE, true) => "deletecollection",
            (&Method::DELETE, false) => "delete",
            (&Method::GET | &Method::HEAD, true) if query.watch => "watch",
            (&Method::GET | &Method::HEAD, true) => "list",
            (&Method::GET | &Method::HEAD, false) => "get",
            _ => "",
        };
        let selected = || name_selected(&query.field_selector).unwrap_or_default();
        Some(Self {
            verb,
            group: group.to_owned(),
            resource: word(0),
            subresource: word(2),
            namespace: namespace.to_owned(),
            name: if matches!(verb, "list" | "watch") { selected() } else { word(1) },
        })
    }
}

/// Watches have had paths of their own, too: the path without that, and whether it was one.
pub(crate) fn without_watch(path: &str) -> (String, bool) {
    let words: Vec<&str> = path.split('/').filter(|word| !word.is_empty()).collect();
    let rest = match words[..] {
        ["api", version, "watch", ref rest @ ..] => Some((format!("/api/{version}"), rest.join("/"))),
        ["apis", group, version, "watch", ref rest @ ..] => {
            Some((format!("/apis/{group}/{version}"), rest.join("/")))
        }
        _ => None,
    };
    rest.map_or_else(|| (path.to_owned(), false), |(before, rest)| (format!("{before}/{rest}"), true))
}

impl Target {
    /// What a path names, among the kinds that are served.
    pub(crate) fn parse(path: &str, kinds: &Kinds) -> Result<Self, Failure> {
        let parts: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(unescaped).collect();
        let words: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (group, version, rest) = match &words[..] {
            ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
            _ => return Ok(Self::Path(path.to_owned())),
        };
        if !kinds.serves(group, version) && !metrics::serves(group, version) {
            return Ok(Self::Path(path.to_owned()));
        }
        place(group, version, rest, kinds).map(Self::Resource).ok_or_else(|| match rest {
            // Custom resources have parts as their definitions say; without, it is as if there were no object.
            ["namespaces", _, plural, name, "status" | "scale"] | [plural, name, "status" | "scale"] => {
                let resource = kinds.find(group, version, plural).filter(|found| found.is_custom);
                resource.map_or_else(Failure::no_resource, |resource| Failure::not_found(resource, name))
            }
            _ => Failure::no_resource(),
        })
    }
}

fn place(group: &str, version: &str, rest: &[&str], kinds: &Kinds) -> Option<Place> {
    let find = |plural: &str| {
        kinds.find(group, version, plural).cloned().or_else(|| metrics::resource(group, version, plural))
    };
    let subresource_of = |resource: &Resource, word: &str| {
        resource.subresources.iter().copied().find(|subresource| subresource.name() == word)
    };
    let (namespace, plural, rest) = match rest {
        // A pod may be bound without being named in the path, too.
        ["namespaces", namespace, "bindings"] if group.is_empty() => {
            let resource = find("pods")?;
            let (namespace, subresource) = (Some((*namespace).to_owned()), Some(Subresource::Binding));
            return Some(Place { resource, namespace, name: None, subresource });
        }
        // A namespace is an object, too, and has parts of its own.
        ["namespaces", namespace, plural, rest @ ..] if !matches!(*plural, "status" | "finalize") => {
            (Some((*namespace).to_owned()), *plural, rest)
        }
        [plural, rest @ ..] => (None, *plural, rest),
        [] => return None,
    };
    let resource = find(plural)?;
    if namespace.is_some() && !resource.is_namespaced() {
        return None;
    }
    let (name, subresource) = match rest {
        [] => (None, None),
        [name] => (Some((*name).to_owned()), None),
        [name, word] => (Some((*name).to_owned()), Some(subresource_of(&resource, word)?)),
        _ => return None,
    };
    // Objects that are in namespaces are reached through them.
    if name.is_some() && resource.is_namespaced() && namespace.is_none() {
        return None;
    }
    Some(Place { resource, namespace, name, subresource })
}

impl Place {
    pub(crate) fn verb(&self, method: &Method, watch: bool) -> Result<Verb, Failure> {
        let one = self.name.is_some();
        match *method {
            Method::GET if matches!(self.subresource, Some(Subresource::Eviction | Subresource::Binding)) => {
                Err(Failure::not_allowed())
            }
            Method::GET if one => Ok(Verb::Get),
            Method::GET if watch && !one => Ok(Verb::Watch),
            Method::GET if !one => Ok(Verb::List),
            Method::POST if self.creates_a_part() => Ok(Verb::Create),
            Method::POST if !one && self.is_complete() => Ok(Verb::Create),
            Method::PUT if self.subresource == Some(Subresource::Finalize) => Ok(Verb::Update),
            _ if self.subresource == Some(Subresource::Finalize) => Err(Failure::not_allowed()),
            Method::PUT if one => Ok(Verb::Update),
            Method::PATCH if one => Ok(Verb::Patch),
            Method::DELETE if one && self.subresource.is_none() => Ok(Verb::Delete),
            Method::DELETE if !one && self.is_complete() && self.resource.qualified() != "namespaces" => {
                Ok(Verb::DeleteCollection)
            }
            _ => Err(Failure::not_allowed()),
        }
    }

    /// Objects in namespaces are written one namespace at a time.
    fn is_complete(&self) -> bool {
        self.namespace.is_some() || !self.resource.is_namespaced()
    }

    fn creates_a_part(&self) -> bool {
        matches!(
            self.subresource,
            Some(
                Subresource::Eviction
                    | Subresource::Binding
                    | Subresource::Exec
                    | Subresource::Attach
                    | Subresource::PortForward
            )
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `resource namespace name subresource`, or what is wrong.
    fn read(path: &str) -> String {
        match Target::parse(path, &Kinds::built_in()) {
            Ok(Target::Path(path)) => format!("path {path}"),
            Ok(Target::Resource(place)) => {
                let part = place.subresource.map(Subresource::name);
                let words = [place.namespace.as_deref(), place.name.as_deref(), part];
                let words: Vec<&str> = words.iter().map(|word| word.unwrap_or("-")).collect();
                format!("{} {}", place.resource.qualified(), words.join(" "))
            }
            Err(failure) => failure.message,
        }
    }

    #[test]
    fn paths_name_resources() {
        let nothing = "the server could not find the requested resource";
        for (path, expected) in [
            ("/version", "path /version"),
            ("/api/v1", "path /api/v1"),
            ("/apis/apps/v1", "path /apis/apps/v1"),
            ("/api/v1/pods", "pods - - -"),
            ("/api/v1/namespaces", "namespaces - - -"),
            ("/api/v1/namespaces/a", "namespaces - a -"),
            ("/api/v1/namespaces/a/status", "namespaces - a status"),
            ("/api/v1/namespaces/a/pods", "pods a - -"),
            ("/api/v1/namespaces/a/pods/x", "pods a x -"),
            ("/api/v1/namespaces/a/pods/x/eviction", "pods a x eviction"),
            ("/api/v1/nodes/n%2Fm", "nodes - n/m -"),
            ("/apis/apps/v1/namespaces/a/deployments/d/scale", "deployments.apps a d scale"),
            ("/api/v1/pods/x", nothing),
            ("/api/v1/namespaces/a/nodes", nothing),
            ("/api/v1/namespaces/a/pods/x/scale", nothing),
            ("/apis/metrics.k8s.io/v1beta1/nodes", "nodes.metrics.k8s.io - - -"),
            ("/apis/metrics.k8s.io/v1beta1/namespaces/a/pods/x", "pods.metrics.k8s.io a x -"),
            ("/apis/metrics.k8s.io/v1beta1/things", nothing),
            ("/api/v2/pods", "path /api/v2/pods"),
            ("/apis/example.com/v1/things", "path /apis/example.com/v1/things"),
        ] {
            assert_eq!(read(path), expected, "{path}");
        }
    }

    #[test]
    fn queries_are_read() {
        let query = Query::parse("watch=true&labelSelector=a%3Db%2Cc&limit=5&dryRun=All&x=y").unwrap();
        assert_eq!(
            query,
            Query {
                watch: true,
                label_selector: "a=b,c".into(),
                limit: 5,
                dry_run: vec!["All".into()],
                ..Query::default()
            }
        );
        assert!(Query::parse("limit=many").is_err());
    }
}
