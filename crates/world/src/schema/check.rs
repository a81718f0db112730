//! The judgement of a value by types, bounds, patterns and logic.
//!
//! An update is judged with its old self at hand: what is wrong and has not changed is let be.

use std::fmt::Display;

use super::format::FormatOf;
use super::said::{
    self, child, entry, float, invalid, not_supported, number, quoted, required, shown, too_long, too_many,
    type_invalid,
};
use super::{Additional, Bound, Schema, Type};
use crate::failure::Cause;
use crate::json::{Map, Number, Text, Value};

/// `base` is where `value` is in its object.
pub(super) fn check(schema: &Schema, value: &Value, old: Option<&Value>, base: &str) -> Vec<Cause> {
    let found = match old {
        Some(old) => unless_unchanged(schema, value, "", old),
        None => judged(schema, value, "", None),
    };
    found.wrong.into_iter().map(|wrong| wrong.cause(base)).collect()
}

/// What was found, and how many checks were passed: of several alternatives the best is told.
#[derive(Default)]
struct Found {
    wrong: Vec<Wrong>,
    passed: usize,
}

/// A cause without the way to the value that is judged.
#[derive(Clone, PartialEq, Eq)]
struct Wrong {
    cause: Cause,
    /// The server does not always say which field it is about.
    has_field: bool,
}

impl Wrong {
    /// At a field whose path may start with a dot.
    fn at(cause: impl FnOnce(&str) -> Cause, path: &str) -> Self {
        Self { cause: cause(path.strip_prefix('.').unwrap_or(path)), has_field: !matches!(path, "" | ".") }
    }

    fn somewhere(detail: &str) -> Self {
        Self { cause: invalid("", "\"\"", detail), has_field: false }
    }

    fn cause(self, base: &str) -> Cause {
        let mut cause = self.cause;
        match (self.has_field, base) {
            (_, "") => {}
            (true, base) => cause.field = child(base, &cause.field),
            (false, base) => base.clone_into(&mut cause.field),
        }
        cause
    }
}

impl Found {
    fn wrong(wrong: Wrong) -> Self {
        Self { wrong: vec![wrong], passed: 0 }
    }

    fn is_fine(&self) -> bool {
        self.wrong.is_empty()
    }

    fn add(&mut self, wrong: Wrong) {
        if !self.wrong.contains(&wrong) {
            self.wrong.push(wrong);
        }
    }

    fn merge(&mut self, other: Self) {
        other.wrong.into_iter().for_each(|wrong| self.add(wrong));
        self.passed += other.passed;
    }
}

fn unless_unchanged(schema: &Schema, value: &Value, path: &str, old: &Value) -> Found {
    let found = judged(schema, value, path, Some(old));
    if found.is_fine() || old != value { found } else { Found { wrong: Vec::new(), passed: found.passed } }
}

/// A field, or an item, of something with an old self.
fn inner(schema: &Schema, value: &Value, path: &str, old: Option<&Value>) -> Found {
    match old {
        Some(old) => unless_unchanged(schema, value, path, old),
        None => judged(schema, value, path, None),
    }
}

fn judged(schema: &Schema, value: &Value, path: &str, old: Option<&Value>) -> Found {
    let mut found = Found::default();
    if value.is_null() {
        found.merge(null(schema, path));
        found.merge(listed(schema, value, path));
        return found;
    }
    if !types(schema).is_empty() || schema.checks.format.is_some() {
        found.merge(typed(schema, value, path));
        found.passed += 1;
    }
    found.merge(logic(schema, value, path, old));
    found.passed += 1;
    match value {
        Value::String(text) => {
            found.merge(string(schema, text, path));
            found.passed += 1;
            if let Some(format) = schema.checks.format
                && let FormatOf::Text(fits) = format.of
            {
                if !fits(text) {
                    found.add(mistyped(path, format.name, text));
                }
                found.passed += 1;
            }
        }
        Value::Number(of) => {
            found.merge(bounded(schema, of, path));
            found.passed += 1;
        }
        Value::Array(items) => {
            found.merge(list(schema, items, path, old));
            found.passed += 1;
        }
        _ => {}
    }
    found.merge(listed(schema, value, path));
    found.passed += 1;
    if let Value::Object(fields) = value {
        found.merge(object(schema, fields, path, old));
        found.passed += 1;
    }
    found.passed += 1;
    found
}

fn types(schema: &Schema) -> &[Type] {
    if schema.is_int_or_string { &[Type::Integer, Type::String] } else { schema.type_.as_slice() }
}

fn type_names(schema: &Schema) -> String {
    let names: Vec<&str> = types(schema).iter().map(|type_| type_.name()).collect();
    names.join(",")
}

/// `found` is the value that is told: a type, or a text of a wrong format.
fn mistyped(path: &str, wanted: &str, found: &str) -> Wrong {
    let detail = format!("{path} in body must be of type {wanted}: {}", quoted(found));
    Wrong::at(|field| type_invalid(field, &quoted(found), &detail), path)
}

fn null(schema: &Schema, path: &str) -> Found {
    if types(schema).is_empty() || schema.is_nullable {
        Found { wrong: Vec::new(), passed: 1 }
    } else {
        Found::wrong(mistyped(path, &type_names(schema), "null"))
    }
}

fn typed(schema: &Schema, value: &Value, path: &str) -> Found {
    let (type_, format) = match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
        Value::Number(number) if number.as_i64().is_some() => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
    };
    let has = |wanted: Type| types(schema).contains(&wanted);
    let is_whole = has(Type::Integer) && real(value).is_some_and(is_whole);
    let is_real = type_ == "integer" && has(Type::Number);
    let fits = types(schema).iter().any(|wanted| wanted.name() == type_) || is_whole || is_real;
    let is_text_or_list = matches!(value, Value::String(_) | Value::Array(_));
    if let Some(wanted) = schema.checks.format {
        if !is_text_or_list && !fits && format != wanted.name {
            return Found::wrong(mistyped(path, wanted.name, format));
        }
        if is_text_or_list && !has(Type::Number) && !has(Type::Integer) {
            return Found { wrong: Vec::new(), passed: 1 };
        }
    }
    if fits {
        Found { wrong: Vec::new(), passed: 1 }
    } else {
        Found::wrong(mistyped(path, &type_names(schema), type_))
    }
}

/// A number that is not kept as an integer.
fn real(value: &Value) -> Option<f64> {
    value.as_number().filter(|number| number.as_i64().is_none()).and_then(Number::as_f64)
}

/// A whole number that a float holds exactly, give or take what division loses.
fn is_whole(real: f64) -> bool {
    const LARGEST: f64 = 9_007_199_254_740_991.0;
    if !real.is_finite() || real.abs() > LARGEST {
        return false;
    }
    let whole = real.trunc();
    let off = (real - whole).abs();
    off == 0.0 || (whole != 0.0 && off / (real.abs() + whole.abs()) < 1e-9)
}

fn logic(schema: &Schema, value: &Value, path: &str, old: Option<&Value>) -> Found {
    let checks = &schema.checks;
    let mut found = Found::default();
    let here = quoted(path);
    if !checks.any_of.is_empty() {
        let mut tried = checks.any_of.iter().map(|one| judged(one, value, path, old));
        let (mut best, mut fine): (Option<Found>, Option<Found>) = (None, None);
        for one in tried.by_ref() {
            if one.is_fine() {
                fine = Some(one);
                break;
            }
            if best.as_ref().is_none_or(|best| one.passed > best.passed) {
                best = Some(one);
            }
        }
        if fine.is_none() {
            found.add(Wrong::somewhere(&format!("{here} must validate at least one schema (anyOf)")));
        }
        if let Some(one) = fine.or(best) {
            found.merge(one);
        }
    }
    if !checks.one_of.is_empty() {
        let mut fine = 0;
        let (mut best, mut first): (Option<Found>, Option<Found>) = (None, None);
        for one in checks.one_of.iter().map(|one| judged(one, value, path, old)) {
            if one.is_fine() {
                fine += 1;
                best = None;
                first = first.or(Some(one));
            } else if fine == 0 && best.as_ref().is_none_or(|best| one.passed > best.passed) {
                best = Some(one);
            }
        }
        let many = match fine {
            0 => "Found none valid".to_owned(),
            fine => format!("Found {fine} valid alternatives"),
        };
        if fine != 1 {
            let detail = format!("{here} must validate one and only one schema (oneOf). {many}");
            found.add(Wrong::somewhere(&detail));
        }
        if let Some(one) = if fine == 1 { first } else { best } {
            found.merge(one);
        }
    }
    if !checks.all_of.is_empty() {
        let mut fine = 0;
        for one in checks.all_of.iter().map(|one| judged(one, value, path, old)) {
            fine += usize::from(one.is_fine());
            found.merge(one);
        }
        if fine != checks.all_of.len() {
            let more = if fine == 0 { ". None validated" } else { "" };
            found.add(Wrong::somewhere(&format!("{here} must validate all the schemas (allOf){more}")));
        }
    }
    if checks.not.as_ref().is_some_and(|not| judged(not, value, path, old).is_fine()) {
        found.add(Wrong::somewhere(&format!("{here} must not validate the schema (not)")));
    }
    found.passed += 1;
    found
}

/// The first thing that is wrong only.
fn string(schema: &Schema, text: &str, path: &str) -> Found {
    let checks = &schema.checks;
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let wrong = |detail: String| {
        let detail = format!("{path} in body should {detail}");
        Found::wrong(Wrong::at(|field| said::invalid_text(field, text, &detail), path))
    };
    if let Some(max) = checks.max_length.filter(|max| length > *max) {
        Found::wrong(Wrong::at(|field| too_long(field, max), path))
    } else if let Some(min) = checks.min_length.filter(|min| length < *min) {
        wrong(format!("be at least {min} chars long"))
    } else if let Some(pattern) = checks.pattern.as_ref().filter(|pattern| !pattern.matches(text)) {
        wrong(format!("match '{}'", pattern.source))
    } else {
        Found::default()
    }
}

fn bounded(schema: &Schema, value: &Number, path: &str) -> Found {
    let checks = &schema.checks;
    let mut found = Found::default();
    if let Some(problem) = out_of_range(schema, value, "Checked", path) {
        found.add(problem);
    }
    let told = number(value);
    let wrong = |detail: String| {
        let detail = format!("{path} in body should be {detail}");
        Wrong::at(|field| invalid(field, &told, &detail), path)
    };
    if let Some(factor) = checks.multiple_of {
        let problem = out_of_bound_range(schema, factor, "MultipleOf", path);
        let is_native = problem.is_none();
        if let Some(problem) = problem {
            found.add(problem);
        }
        if let Some(whole) = value.as_i64().filter(|_| is_native) {
            let factor = truncated(factor);
            if factor > 0 && whole % factor != 0 {
                found.add(wrong(format!("a multiple of {factor}")));
            }
        } else {
            let real = value.as_f64().unwrap_or_default();
            let times = if factor < 1.0 { 1.0 / factor * real } else { real / factor };
            if factor > 0.0 && !is_whole(times) {
                found.add(wrong(format!("a multiple of {}", float(factor))));
            }
        }
    }
    for (bound, name, is_above, words) in [
        (checks.minimum, "Minimum boundary", false, "greater"),
        (checks.maximum, "Maximum boundary", true, "less"),
    ] {
        let Some(bound) = bound else { continue };
        let problem = out_of_bound_range(schema, bound.value, name, path);
        let is_native = problem.is_none();
        if let Some(problem) = problem {
            found.add(problem);
        }
        if let Some(limit) = passed_limit(value, bound, is_above, is_native) {
            let or_equal = if bound.is_exclusive { "" } else { " or equal to" };
            found.add(wrong(format!("{words} than{or_equal} {limit}")));
        }
    }
    found.passed += 1;
    found
}

/// The limit in words, if the value is beyond it. Whole numbers are compared with whole limits.
fn passed_limit(value: &Number, bound: Bound, is_above: bool, is_native: bool) -> Option<String> {
    fn is_beyond<T: PartialOrd>(value: &T, limit: &T, bound: Bound, is_above: bool) -> bool {
        (bound.is_exclusive && value == limit) || if is_above { value > limit } else { value < limit }
    }
    fn told(is_beyond: bool, limit: impl Display) -> Option<String> {
        is_beyond.then(|| limit.to_string())
    }
    if let Some(whole) = value.as_i64().filter(|_| is_native) {
        let limit = truncated(bound.value);
        told(is_beyond(&whole, &limit, bound, is_above), limit)
    } else {
        let real = value.as_f64().unwrap_or_default();
        told(is_beyond(&real, &bound.value, bound, is_above), float(bound.value))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the API server cuts the fraction off as well")]
fn truncated(real: f64) -> i64 {
    real as i64
}

fn out_of_bound_range(schema: &Schema, bound: f64, name: &str, path: &str) -> Option<Wrong> {
    let bound = if is_whole(bound) { Some(Number::from(truncated(bound))) } else { Number::from_f64(bound) };
    out_of_range(schema, &bound?, name, path)
}

/// A number that its type and format cannot hold.
fn out_of_range(schema: &Schema, value: &Number, name: &str, path: &str) -> Option<Wrong> {
    let type_ = schema.type_.filter(|_| !schema.is_int_or_string)?;
    let format = schema.checks.format.map_or("", |format| format.name);
    let whole = value.as_i64().or_else(|| value.as_f64().filter(|real| real.fract() == 0.0).map(truncated));
    let fits = match (type_, format) {
        (Type::Integer, "int32") => whole.is_some_and(|whole| i32::try_from(whole).is_ok()),
        (Type::Integer, _) => {
            whole.is_some_and(|whole| value.as_f64().is_none_or(|real| real.abs() < 9.3e18 || whole == 0))
        }
        (Type::Number, "float") => value.as_f64().is_some_and(|real| real.abs() <= f64::from(f32::MAX)),
        _ => true,
    };
    let format =
        if format.is_empty() { "(default format)".to_owned() } else { format!("with format {format}") };
    let detail = format!("{name} value must be of type {} {format} in {path}", type_.name());
    (!fits).then(|| Wrong::somewhere(&detail))
}

fn list(schema: &Schema, items: &[Value], path: &str, old: Option<&Value>) -> Found {
    let mut found = Found::default();
    if let Some(of) = &schema.items {
        for (index, item) in items.iter().enumerate() {
            let old = old.and_then(|old| schema.list.earlier(item, old));
            found.merge(inner(of, item, &entry(path, index), old));
        }
    }
    let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
    if let Some(min) = schema.checks.min_items.filter(|min| size < *min) {
        let detail = format!("{path} in body should have at least {min} items");
        found.add(Wrong::at(|field| invalid(field, &size.to_string(), &detail), path));
    }
    if let Some(max) = schema.checks.max_items.filter(|max| size > *max) {
        found.add(Wrong::at(|field| too_many(field, items.len(), max), path));
    }
    found.passed += 1;
    found
}

/// That the value is one of those listed.
fn listed(schema: &Schema, value: &Value, path: &str) -> Found {
    let allowed = &schema.checks.one_of_values;
    if allowed.is_empty() || allowed.iter().any(|allowed| is_same(value, allowed)) {
        return Found::default();
    }
    let supported: Vec<String> = allowed
        .iter()
        .map(|allowed| allowed.as_str().map_or_else(|| said::json(allowed), str::to_owned))
        .collect();
    Found::wrong(Wrong::at(|field| not_supported(field, &shown(value), &supported), path))
}

/// Numbers are compared in the kind of the one that is allowed. Null is never the same as anything.
fn is_same(value: &Value, allowed: &Value) -> bool {
    match (value, allowed) {
        (Value::Null, _) => false,
        (Value::Number(value), Value::Number(allowed)) => match (value.as_f64(), allowed.as_i64()) {
            (Some(real), Some(allowed)) => value.as_i64().unwrap_or_else(|| truncated(real)) == allowed,
            _ => value.as_f64() == allowed.as_f64(),
        },
        _ => value == allowed,
    }
}

fn object(schema: &Schema, fields: &Map, path: &str, old: Option<&Value>) -> Found {
    let checks = &schema.checks;
    let mut found = Found::default();
    let size = i64::try_from(fields.len()).unwrap_or(i64::MAX);
    if let Some(min) = checks.min_properties.filter(|min| size < *min) {
        let detail = format!("{path} in body should have at least {min} properties");
        found.add(Wrong::at(|field| invalid(field, &size.to_string(), &detail), path));
    }
    if let Some(max) = checks.max_properties.filter(|max| size > *max) {
        found.add(Wrong::at(|field| too_many(field, fields.len(), max), path));
    }
    // The kind and version of an object are converted before anyone can see what they were.
    let old_of = |name: &str| {
        let is_converted = path.is_empty() && ["kind", "apiVersion"].contains(&name);
        old.filter(|_| !is_converted).and_then(|old| old.get(name))
    };
    let mut names: Vec<&Text> = fields.keys().collect();
    names.sort();
    for name in names.into_iter().filter(|name| !schema.properties.contains_key(name.as_str())) {
        match &schema.additional {
            Additional::Nothing => {
                let detail = format!("{path}.{name} in body is a forbidden property");
                found.add(Wrong::at(|field| said::invalid_text(field, name, &detail), path));
            }
            Additional::Each(each) => {
                found.merge(inner(
                    each,
                    fields.get(name).unwrap_or(&Value::Null),
                    &format!("{path}.{name}"),
                    old_of(name),
                ));
            }
            Additional::Unsaid | Additional::Anything => {}
        }
    }
    for (name, property) in &schema.properties {
        if let Some(value) = fields.get(name) {
            found.merge(inner(property, value, &child(path, name), old_of(name)));
        }
    }
    for name in checks.required.iter().filter(|name| !fields.contains_key(name.as_str())) {
        found.add(Wrong::at(|field| required(field, ""), &format!("{path}.{name}")));
    }
    found
}
