//! What requests carry: objects, patches and options, read for those that are to be written.

use http::Method;

use super::write::PatchKind;
use super::{Call, State};
use crate::body::{self, Directive, Format, Json, Kind, PatchForm, Read};
use crate::failure::{Failure, Reason};
use crate::json::Value;
use crate::kinds::{Resource, Scope};
use crate::object;
use crate::patch;
use crate::proto::TABLE;
use crate::request::Query;

impl PatchKind {
    fn form(self) -> PatchForm {
        match self {
            Self::Json => PatchForm::Json,
            Self::Merge => PatchForm::Merge,
            Self::Strategic => PatchForm::Strategic,
            Self::Apply => PatchForm::Apply,
        }
    }
}

/// A patch with how its result is to be looked at.
pub(super) struct Patch {
    pub(super) body: Value,
    pub(super) kind: PatchKind,
    strict: Vec<String>,
    directive: Directive,
}

impl State {
    /// The object that a request carries, without what its kind does not know.
    pub(super) fn object_of(
        &self,
        resource: &Resource,
        query: &Query,
        call: &Call,
    ) -> Result<Value, Failure> {
        let format = Format::of(&call.content_type)?;
        let options = if call.method == Method::PUT { "UpdateOptions" } else { "CreateOptions" };
        let directive = Directive::parse(&query.field_validation, options)?;
        let read = if resource.is_custom {
            self.custom_object(resource, format, &call.body)?
        } else {
            let api_version = resource.api_version();
            let expected = Kind { api_version: &api_version, kind: &resource.kind };
            let read = body::object(format, &call.body, expected)
                .map_err(|unreadable| unreadable.said_of_a(&resource.kind, &call.body))?;
            self.expect_kind(resource, &read.value)?;
            read
        };
        match directive {
            Directive::Strict if !read.strict.is_empty() => {
                let (kind, version) = (&resource.kind, &resource.version);
                return Err(Failure::bad_request(format!(
                    "{kind} in version {version:?} cannot be handled as a {kind}: {}",
                    body::strict_error(&read.strict)
                )));
            }
            Directive::Warn => call.warn(body::warnings(&read.strict)),
            Directive::Strict | Directive::Ignore => {}
        }
        Ok(read.value)
    }

    fn custom_object(&self, resource: &Resource, format: Format, bytes: &[u8]) -> Result<Read, Failure> {
        if format == Format::Protobuf {
            return Err(Failure::new(
                Reason::UnsupportedMediaType,
                "the body of the request was in an unknown format - accepted media types include: application/json, \
                 application/yaml",
            ));
        }
        let mut read =
            body::custom(format, bytes).map_err(|unreadable| unreadable.said_of_a(&resource.kind, bytes))?;
        let (said, expected) = (object::text(&read.value, &["apiVersion"]), resource.api_version());
        if said != expected {
            return Err(Failure::bad_request(format!(
                "the API version in the data ({said}) does not match the expected API version ({expected})"
            )));
        }
        // The schema says nothing of other kinds, which are refused in the end.
        if object::text(&read.value, &["kind"]) == resource.kind {
            let unknown = self.drop_unknown(resource, &mut read.value);
            read.strict.extend(unknown.iter().map(|path| format!("unknown field \"{path}\"")));
        }
        Ok(read)
    }

    /// The part of an object that a request carries, which has a kind of its own.
    pub(super) fn part_of(
        &self,
        api_version: &str,
        kind: &str,
        query: &Query,
        call: &Call,
    ) -> Result<Value, Failure> {
        self.object_of(&resource_of(api_version, kind), query, call)
    }

    /// A patch's result, without what its kind does not know.
    pub(super) fn patched(
        &self,
        resource: &Resource,
        patch: Patch,
        new: Value,
        call: &Call,
    ) -> Result<Value, Failure> {
        let Patch { body, kind, mut strict, directive } = patch;
        let shown = match kind {
            PatchKind::Strategic => patch::go_text(&body),
            PatchKind::Json | PatchKind::Merge | PatchKind::Apply => new.to_string(),
        };
        let read = self.retyped(resource, new).map_err(|why| Failure::invalid_patch(&shown, &why))?;
        strict.extend(read.strict);
        match directive {
            Directive::Strict if !strict.is_empty() => {
                return Err(Failure::invalid_patch(&shown, &body::strict_error(&strict)));
            }
            Directive::Warn => call.warn(body::warnings(&strict)),
            Directive::Strict | Directive::Ignore => {}
        }
        Ok(read.value)
    }

    /// What is applied must be what the kind's type knows.
    pub(super) fn check_declared(&self, resource: &Resource, applied: &Value) -> Result<(), Failure> {
        let is_said = |field, expected: &str| object::text(applied, &[field]) == expected;
        let is_meant = is_said("apiVersion", &resource.api_version()) && is_said("kind", &resource.kind);
        if resource.is_custom || !is_meant {
            return Ok(());
        }
        let complaints = match self.retyped(resource, applied.clone()) {
            Err(why) => vec![why],
            Ok(read) => {
                let unknown = read.strict.iter().filter_map(|told| told.strip_prefix("unknown field \""));
                let unknown: Vec<String> =
                    unknown.map(|path| format!(".{}", path.trim_end_matches('"'))).collect();
                let told = first_of_each(&unknown).into_iter();
                told.map(|path| format!("{path}: field not declared in schema")).collect()
            }
        };
        let said = match &complaints[..] {
            [] => return Ok(()),
            [one] => one.clone(),
            several => format!("errors:\n  {}", several.join("\n  ")),
        };
        let (namespace, name) = (object::namespace(applied), object::name(applied));
        let Resource { group, version, kind, .. } = resource;
        let kind = format!("{group}/{version}, Kind={kind}");
        let message = format!("failed to create typed patch object ({namespace}/{name}; {kind}): {said}");
        Err(Failure::new(Reason::Unknown, message))
    }

    /// What an apply made of an object, as its kind's type holds it.
    pub(super) fn settled(&self, resource: &Resource, object: Value) -> Value {
        match self.retyped(resource, object.clone()) {
            Ok(read) => read.value,
            // Whatever does not fit was there before, and has been let be.
            Err(_) => object,
        }
    }

    /// An object as its kind's type holds it.
    pub(super) fn retyped(&self, resource: &Resource, mut object: Value) -> Result<Read, String> {
        if resource.is_custom {
            let mut strict = body::tidy_metadata(&mut object)?;
            let unknown = self.drop_unknown(resource, &mut object);
            strict.extend(unknown.iter().map(|path| format!("unknown field \"{path}\"")));
            return Ok(Read { value: object, strict });
        }
        match TABLE.of_kind(&resource.api_version(), &resource.kind) {
            Some(message) => body::read(message, &Json::from(&object)),
            None => Ok(Read { value: object, strict: Vec::new() }),
        }
    }
}

/// The server looks no further in an object once it has found a field that is not declared. It goes through fields in
/// no order; here it is that of their names.
fn first_of_each(paths: &[String]) -> Vec<&str> {
    let parent = |path: &str| path.rsplit_once('.').map_or_else(String::new, |(parent, _)| parent.to_owned());
    let mut told: Vec<&str> = Vec::new();
    for path in paths {
        let within = parent(path);
        let is_passed = told.iter().map(|told| parent(told)).any(|left| {
            within.strip_prefix(&*left).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        });
        if !is_passed {
            told.push(path);
        }
    }
    told
}

/// What stands for a kind that is no resource of its own.
pub(super) fn resource_of(api_version: &str, kind: &str) -> Resource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        plural: String::new(),
        singular: String::new(),
        short_names: Vec::new(),
        categories: Vec::new(),
        scope: Scope::Namespaced,
        subresources: Vec::new(),
        is_custom: false,
    }
}

/// The patch that a request carries.
pub(super) fn patch_of(query: &Query, call: &Call) -> Result<Patch, Failure> {
    let kind = PatchKind::parse(&call.content_type)?;
    let directive = Directive::parse(&query.field_validation, "PatchOptions")?;
    let Read { value: body, strict } = body::patch(kind.form(), &call.body, directive)?;
    Ok(Patch { body, kind, strict, directive })
}

impl Patch {
    /// What is minded of a patch that is applied, which is not the object itself.
    pub(super) fn check_applied(&self, call: &Call) -> Result<(), Failure> {
        match (self.directive, &self.strict[..]) {
            (Directive::Strict, [first, ..]) => {
                Err(Failure::bad_request(format!("error strict decoding YAML: {first}")))
            }
            (Directive::Warn, strict) => {
                call.warn(body::warnings(strict));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
