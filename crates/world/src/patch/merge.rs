//! Objects along their shape: what differs, what they hold, how they merge, what is left after a removal.

use std::collections::BTreeMap;

use super::fields::{Element, FieldSet, path_text, same};
use super::shape::{Node, Wanted};
use super::{go_kind, go_text};
use crate::json::{Map, Text, Value};

/// What a write did.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
    is_filled: bool,
}

impl Comparison {
    /// Of objects as the API server's own types hold them: parts that are not optional there are always present,
    /// empty if need be. Without them a first write would seem to add them.
    pub(super) fn between_filled(before: &Value, after: &Value, node: Node<'_>) -> Self {
        let mut comparison = Self { is_filled: true, ..Self::default() };
        comparison.compare(Some(before), Some(after), node, &mut Vec::new());
        comparison
    }

    pub(super) fn between(before: &Value, after: &Value, node: Node<'_>) -> Self {
        let mut comparison = Self::default();
        comparison.compare(Some(before), Some(after), node, &mut Vec::new());
        comparison
    }

    pub(super) fn without(self, ignored: &FieldSet) -> Self {
        Self {
            added: self.added.without(ignored),
            modified: self.modified.without(ignored),
            removed: self.removed.without(ignored),
            ..self
        }
    }

    /// What the writer now answers for, and what is no more.
    pub(super) fn changed_and_removed(self) -> (FieldSet, FieldSet) {
        (self.modified.union(self.added), self.removed)
    }

    fn compare(
        &mut self,
        before: Option<&Value>,
        after: Option<&Value>,
        node: Node<'_>,
        path: &mut Vec<Element>,
    ) {
        if is_leaf(before, after, node, self.is_filled) {
            match (before, after) {
                (None, _) => self.added.insert(path),
                (_, None) => self.removed.insert(path),
                (Some(before), Some(after)) if !same(before, after) => self.modified.insert(path),
                _ => {}
            }
            return;
        }
        match (before, after) {
            (Some(Value::Array(_)), _) | (_, Some(Value::Array(_))) => {
                self.compare_lists(list_of(before), list_of(after), node, path);
            }
            _ => self.compare_maps(
                before.and_then(Value::as_object),
                after.and_then(Value::as_object),
                node,
                path,
            ),
        }
        match (before, after) {
            (None, _) => self.added.insert(path),
            (_, None) => self.removed.insert(path),
            // A container in the place of something else.
            (Some(before), Some(after)) if kind_differs(before, after) => self.modified.insert(path),
            _ => {}
        }
    }

    fn compare_maps(
        &mut self,
        before: Option<&Map>,
        after: Option<&Map>,
        node: Node<'_>,
        path: &mut Vec<Element>,
    ) {
        for (key, old, new) in zipped(before, after) {
            if old.is_some() && old == new {
                continue;
            }
            let filled = if self.is_filled { node.filled(key) } else { None };
            let (old, new) = (old.or(before.and(filled)), new.or(after.and(filled)));
            path.push(Element::field(key));
            self.compare(old, new, node.child(key).node, path);
            path.pop();
        }
        if !self.is_filled || before.is_some() == after.is_some() {
            return;
        }
        for (key, filled) in node.solid() {
            if before.or(after).is_some_and(|map| map.contains_key(key)) {
                continue;
            }
            path.push(Element::field(key));
            self.compare(before.and(filled), after.and(filled), node.child(key).node, path);
            path.pop();
        }
    }

    fn compare_lists(&mut self, before: &[Value], after: &[Value], node: Node<'_>, path: &mut Vec<Element>) {
        let mut items: BTreeMap<Element, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for item in before {
            if let Ok(element) = node.element(item) {
                items.entry(element).or_default().0.push(item);
            }
        }
        for item in after {
            if let Ok(element) = node.element(item) {
                items.entry(element).or_default().1.push(item);
            }
        }
        for (element, (old, new)) in items {
            path.push(element);
            // Items that occur twice are one thing.
            match (&old[..], &new[..]) {
                ([_, _, ..], [_, _, ..]) => {
                    if old.len() != new.len() || old.iter().zip(&new).any(|(old, new)| !same(old, new)) {
                        self.modified.insert(path);
                    }
                }
                ([_, _, ..], _) => {
                    if let Some(new) = new.first() {
                        self.compare(None, Some(new), node.items(), path);
                    }
                    self.removed.insert(path);
                }
                (_, [_, _, ..]) => {
                    if let Some(old) = old.first() {
                        self.compare(Some(old), None, node.items(), path);
                    }
                    self.added.insert(path);
                }
                _ => self.compare(old.first().copied(), new.first().copied(), node.items(), path),
            }
            path.pop();
        }
    }
}

/// Scalars, atomic lists and maps, and what is empty on both sides.
fn is_leaf(before: Option<&Value>, after: Option<&Value>, node: Node<'_>, is_filled: bool) -> bool {
    let is_empty = |value: Option<&Value>| match value {
        None | Some(Value::Null) => true,
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(map)) => map.is_empty() && !(is_filled && node.solid().next().is_some()),
        Some(_) => false,
    };
    let is_scalar = |value: Option<&Value>| !matches!(value, Some(Value::Array(_) | Value::Object(_)));
    if (is_scalar(before) && is_scalar(after)) || (is_empty(before) && is_empty(after)) {
        return true;
    }
    match [before, after].into_iter().flatten().find(|value| value.is_array() || value.is_object()) {
        Some(Value::Array(_)) => node.is_atomic_list(),
        _ => node.is_atomic_map(),
    }
}

fn kind_differs(a: &Value, b: &Value) -> bool {
    !a.is_null() && !b.is_null() && (a.is_array() != b.is_array() || a.is_object() != b.is_object())
}

fn list_of(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

type Pair<'a> = (&'a Text, Option<&'a Value>, Option<&'a Value>);

/// The keys of both, each with its values.
fn zipped<'a>(a: Option<&'a Map>, b: Option<&'a Map>) -> Vec<Pair<'a>> {
    let of_a = a.into_iter().flatten().map(|(key, value)| (key, Some(value), b.and_then(|b| b.get(key))));
    let only_b = b.into_iter().flatten().filter(|(key, _)| a.is_none_or(|a| !a.contains_key(key)));
    of_a.chain(only_b.map(|(key, value)| (key, None, Some(value)))).collect()
}

/// The fields that an object holds: what one who applies it owns.
pub(super) fn fields_of(object: &Value, node: Node<'_>) -> FieldSet {
    let mut set = FieldSet::default();
    collect(object, node, &mut Vec::new(), &mut set);
    set
}

fn collect(value: &Value, node: Node<'_>, path: &mut Vec<Element>, set: &mut FieldSet) {
    match value {
        Value::Null => {}
        Value::Array(_) if node.is_atomic_list() => set.insert(path),
        Value::Object(_) if node.is_atomic_map() => set.insert(path),
        Value::Array(items) => {
            let mut seen: BTreeMap<Element, Vec<&Value>> = BTreeMap::new();
            for item in items {
                if let Ok(element) = node.element(item) {
                    seen.entry(element).or_default().push(item);
                }
            }
            for (element, items) in seen {
                path.push(element);
                if let [item] = items[..] {
                    collect(item, node.items(), path, set);
                }
                set.insert(path);
                path.pop();
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                let child = node.child(key);
                path.push(Element::field(key));
                collect(value, child.node, path, set);
                let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                if is_empty || !child.named {
                    set.insert(path);
                }
                path.pop();
            }
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => set.insert(path),
    }
}

/// The live object with all that is applied: nothing is removed.
pub(super) fn merged(live: &Value, applied: &Value, node: Node<'_>) -> Value {
    merge(Some(live), Some(applied), node).unwrap_or_default()
}

fn merge(live: Option<&Value>, applied: Option<&Value>, node: Node<'_>) -> Option<Value> {
    if is_leaf(live, applied, node, false) {
        return applied.or(live).cloned();
    }
    match (live, applied) {
        (Some(live), Some(applied)) if kind_differs(live, applied) => Some(applied.clone()),
        (Some(Value::Array(_)), _) | (_, Some(Value::Array(_))) => {
            let items = merge_lists(list_of(live), list_of(applied), node);
            (!items.is_empty()).then_some(Value::from(items))
        }
        _ => {
            let pairs = zipped(live.and_then(Value::as_object), applied.and_then(Value::as_object));
            let map = pairs.into_iter().filter_map(|(key, live, applied)| {
                Some((key.clone(), merge(live, applied, node.child(key).node)?))
            });
            let map: Map = map.collect();
            (!map.is_empty()).then_some(Value::Object(map))
        }
    }
}

/// In the live order, unless what is applied orders the shared items otherwise. New items come before the
/// live ones that follow the place where they are applied.
fn merge_lists(live: &[Value], applied: &[Value], node: Node<'_>) -> Vec<Value> {
    let keyed = |items: &'_ [Value]| -> Vec<(Element, usize)> {
        let items = items.iter().enumerate();
        items.filter_map(|(at, item)| Some((node.element(item).ok()?, at))).collect()
    };
    let (old, new) = (keyed(live), keyed(applied));
    let in_new =
        |element: &Element| new.iter().find(|(other, _)| other == element).map(|(_, at)| &applied[*at]);
    // An item that occurs twice in the live list is not merged but replaced.
    let in_old = |element: &Element| {
        let mut found = old.iter().filter(|(other, _)| other == element);
        match (found.next(), found.next()) {
            (Some((_, at)), None) => Some(&live[*at]),
            _ => None,
        }
    };
    let mut shared =
        new.iter().map(|(element, _)| element).filter(|e| old.iter().any(|(other, _)| other == *e));
    let mut next_shared = shared.next();
    let mut taken: Vec<&Element> = Vec::new();
    let mut out = Vec::new();
    let (mut at_old, mut at_new) = (0, 0);
    while at_old < old.len() || at_new < new.len() {
        if let (Some((element, _)), Some((wanted, _))) = (old.get(at_old), new.get(at_new)) {
            if element == wanted {
                out.extend(merge(in_old(element), in_new(element), node.items()));
                taken.push(element);
                at_old += 1;
                at_new += 1;
                next_shared = shared.next();
                continue;
            }
            if in_new(element).is_some() && next_shared.is_some_and(|next| next != element) {
                at_old += 1;
                continue;
            }
        }
        if let Some((element, at)) = old.get(at_old) {
            if in_new(element).is_none() {
                out.extend(merge(Some(&live[*at]), None, node.items()));
                at_old += 1;
                continue;
            }
            if taken.contains(&element) {
                at_old += 1;
            }
        }
        if let Some((element, _)) = new.get(at_new) {
            out.extend(merge(in_old(element), in_new(element), node.items()));
            taken.push(element);
            at_new += 1;
            if next_shared == Some(element) {
                next_shared = shared.next();
            }
        }
    }
    out
}

/// Without the members of the set; a container that loses everything in it becomes null.
pub(super) fn without(value: &Value, set: &FieldSet, node: Node<'_>) -> Value {
    match value {
        Value::Array(items) => {
            if node.is_atomic_list() {
                return Value::Null;
            }
            let kept = items.iter().filter_map(|item| match node.element(item) {
                Ok(element) if set.has(&element) => None,
                Ok(element) => Some(match set.below(&element) {
                    Some(below) => without(item, below, node.items()),
                    None => item.clone(),
                }),
                Err(_) => Some(item.clone()),
            });
            let kept: Vec<Value> = kept.collect();
            if kept.is_empty() { Value::Null } else { Value::from(kept) }
        }
        Value::Object(map) => {
            if node.is_atomic_map() {
                return Value::Null;
            }
            let kept = map.iter().filter_map(|(key, value)| {
                let element = Element::field(key);
                if set.has(&element) {
                    return None;
                }
                let value = match set.below(&element) {
                    Some(below) => without(value, below, node.child(key).node),
                    None => value.clone(),
                };
                Some((key.clone(), value))
            });
            let kept: Map = kept.collect();
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        scalar => scalar.clone(),
    }
}

/// Why an object cannot be applied: each complaint with its path.
pub(super) fn complaints(object: &Value, node: Node<'_>) -> Vec<String> {
    let mut out = Vec::new();
    complain(object, node, &mut Vec::new(), &mut out);
    out
}

fn complain(value: &Value, node: Node<'_>, path: &mut Vec<Element>, out: &mut Vec<String>) {
    let at = |path: &[Element], what: String| {
        let path = path_text(path);
        if path.is_empty() { what } else { format!("{path}: {what}") }
    };
    match value {
        Value::Null => {}
        Value::Object(map) if matches!(node.wanted(), Wanted::Map | Wanted::Unknown) => {
            for (key, value) in map {
                let child = node.child(key);
                path.push(Element::field(key));
                if child.declared {
                    complain(value, child.node, path, out);
                    path.pop();
                } else {
                    out.push(at(path, "field not declared in schema".to_owned()));
                    path.pop();
                    return;
                }
            }
        }
        Value::Array(items) if matches!(node.wanted(), Wanted::List | Wanted::Unknown) => {
            let mut seen = Vec::new();
            for (index, item) in items.iter().enumerate() {
                let element = if node.is_atomic_list() {
                    Element::Index(i64::try_from(index).unwrap_or(i64::MAX))
                } else {
                    match node.element(item) {
                        Ok(element) => element,
                        Err(why) => {
                            out.push(at(path, format!("element {index}: {why}")));
                            return;
                        }
                    }
                };
                if seen.contains(&element) {
                    out.push(at(path, format!("duplicate entries for key {element}")));
                }
                path.push(element.clone());
                complain(item, node.items(), path, out);
                path.pop();
                seen.push(element);
            }
        }
        _ => match node.wanted() {
            Wanted::Map => out.push(at(path, format!("expected map, got &{{{}}}", go_text(value)))),
            Wanted::List => out.push(at(path, format!("expected list, got &{{{}}}", go_text(value)))),
            Wanted::Text if !value.is_string() => {
                let value = go_text(value);
                out.push(at(path, format!("expected string, got &value.valueUnstructured{{Value:{value}}}")));
            }
            Wanted::Number if !value.is_number() => {
                let kind = go_kind(value);
                out.push(at(path, format!("expected numeric (int or float), got {kind}")));
            }
            Wanted::Boolean if !value.is_boolean() => {
                out.push(at(path, format!("expected boolean, got &{{{}}}", go_text(value))));
            }
            _ => {}
        },
    }
}
