//! Small conversions that every kind needs: labels, amounts, selectors, taints.

use berth_core::names::{self, Labels, Text};
use berth_core::pod::{Taint, TaintEffect, Toleration};
use berth_core::requirement::{Expression, NodeTerm, Operator};
use berth_core::resources::{CPU, Resources};
use berth_core::selector::Selector;
use berth_core::units::Quantity;

use crate::builtin::{self, Amounts, MatchExpression, Str, StrMap};
use crate::intern::Interner;
use crate::problem::{At, Findings};

/// What conversions write to: what is wrong, and what is shared.
pub(crate) struct Converter<'c> {
    pub(crate) findings: &'c mut Findings,
    pub(crate) interner: &'c mut Interner,
}

/// A million cores: no machine has them, but `cpu: 500Mi` asks for more.
const CPU_MILLI_MAX: i64 = 1_000_000_000;
/// An exbibyte, or as many of anything else.
const UNITS_MAX: i64 = 1 << 60;

/// An amount that can be asked for or had; `None` with a reason where it cannot.
pub(crate) fn checked_amount(name: &str, quantity: Quantity) -> Result<i64, String> {
    if quantity.is_negative() {
        return Err(format!("{quantity} is negative; a resource cannot be"));
    }
    let amount = Resources::amount_of(name, quantity);
    let (most, unit) = if name == CPU { (CPU_MILLI_MAX, "1000000 cores") } else { (UNITS_MAX, "1Ei") };
    if amount > most {
        return Err(format!("{quantity} is absurd; the most is {unit}, so check the suffix"));
    }
    Ok(amount)
}

impl Converter<'_> {
    pub(crate) fn text(&mut self, text: &str) -> Text {
        self.interner.text(text)
    }

    /// Labels of a pod or a namespace, as they are.
    pub(crate) fn labels(&mut self, map: &StrMap<'_>) -> Labels {
        map.0.iter().map(|(key, value)| (self.interner.text(key), self.interner.text(value))).collect()
    }

    /// Labels of a node, under today's names. Where both names are set, today's counts.
    pub(crate) fn node_labels(&mut self, map: &StrMap<'_>) -> Labels {
        let mut labels = Labels::new();
        for (key, value) in &map.0 {
            let today = names::normalized_key(key);
            if today == &**key || !map.0.iter().any(|(other, _)| &**other == today) {
                labels.insert(self.interner.text(today), self.interner.text(value));
            }
        }
        labels
    }

    pub(crate) fn resources(&mut self, amounts: &Amounts<'_>, at: &At<'_>) -> Resources {
        let mut resources = Vec::with_capacity(amounts.0.len());
        for (name, quantity) in &amounts.0 {
            match checked_amount(name, *quantity) {
                Ok(amount) => resources.push((self.interner.text(name), amount)),
                Err(message) => self.findings.add(&at.key(name), message),
            }
        }
        resources.into_iter().collect()
    }

    /// A selector of pods or namespaces: their label keys are nobody's but their owners'.
    pub(crate) fn selector(&mut self, selector: &builtin::LabelSelector<'_>, at: &At<'_>) -> Selector {
        const OPERATORS: [Operator; 4] =
            [Operator::In, Operator::NotIn, Operator::Exists, Operator::DoesNotExist];
        let labels = selector
            .match_labels
            .0
            .iter()
            .map(|(key, value)| Expression::equals(self.interner.text(key), self.interner.text(value)));
        let mut expressions: Vec<Expression> = labels.collect();
        let list = at.key("matchExpressions");
        for (i, expression) in selector.match_expressions.iter().enumerate() {
            expressions.extend(self.expression(expression, &expression.key, &OPERATORS, &list.index(i)));
        }
        Selector::new(expressions)
    }

    pub(crate) fn optional_selector(
        &mut self,
        selector: Option<&builtin::LabelSelector<'_>>,
        at: &At<'_>,
    ) -> Option<Selector> {
        selector.map(|selector| self.selector(selector, at))
    }

    pub(crate) fn expression(
        &mut self,
        expression: &MatchExpression<'_>,
        key: &str,
        operators: &[Operator],
        at: &At<'_>,
    ) -> Option<Expression> {
        if key.is_empty() {
            self.findings.add(&at.key("key"), "is empty; name a label");
        }
        let Some(operator) = Operator::parse(&expression.operator).filter(|o| operators.contains(o)) else {
            let known: Vec<_> = operators.iter().map(|operator| operator.name()).collect();
            self.findings.add(
                &at.key("operator"),
                format!("`{}` is not known here; it is one of {}", &*expression.operator, known.join(", ")),
            );
            return None;
        };
        let values = expression.values.iter().map(|value| self.interner.text(value)).collect();
        match Expression::new(self.interner.text(key), operator, values) {
            Ok(expression) => Some(expression),
            Err(error) => {
                self.findings.add(&at.key("values"), error.to_string());
                None
            }
        }
    }

    pub(crate) fn node_term(&mut self, term: &builtin::pod::NodeTerm<'_>, at: &At<'_>) -> NodeTerm {
        const OPERATORS: [Operator; 6] = [
            Operator::In,
            Operator::NotIn,
            Operator::Exists,
            Operator::DoesNotExist,
            Operator::Gt,
            Operator::Lt,
        ];
        let list = at.key("matchExpressions");
        let mut expressions = Vec::with_capacity(term.match_expressions.len());
        for (i, expression) in term.match_expressions.iter().enumerate() {
            let key = names::normalized_key(&expression.key);
            expressions.extend(self.expression(expression, key, &OPERATORS, &list.index(i)));
        }
        let list = at.key("matchFields");
        let mut fields = Vec::with_capacity(term.match_fields.len());
        for (i, field) in term.match_fields.iter().enumerate() {
            let at = list.index(i);
            if &*field.key != "metadata.name" {
                self.findings.add(
                    &at.key("key"),
                    format!(
                        "`{}` is not a field that nodes can be chosen by; only metadata.name is",
                        &*field.key
                    ),
                );
            } else if field.values.len() != 1 {
                self.findings.add(&at.key("values"), "must be exactly one node's name");
            } else {
                fields.extend(self.expression(field, "metadata.name", &OPERATORS[..2], &at));
            }
        }
        NodeTerm { expressions, fields }
    }

    pub(crate) fn node_selector(&mut self, map: &StrMap<'_>) -> Vec<Expression> {
        let mut expressions: Vec<_> = map
            .0
            .iter()
            .map(|(key, value)| {
                Expression::equals(self.interner.text(names::normalized_key(key)), self.interner.text(value))
            })
            .collect();
        expressions.sort();
        expressions.dedup();
        expressions
    }

    pub(crate) fn taint(&mut self, taint: &builtin::node::Taint<'_>, at: &At<'_>) -> Option<Taint> {
        let effect = self.effect(&taint.effect, &at.key("effect"))?;
        let value = taint.value.as_deref().unwrap_or_default();
        Some(Taint { key: self.interner.text(&taint.key), value: self.interner.text(value), effect })
    }

    fn effect(&mut self, effect: &str, at: &At<'_>) -> Option<TaintEffect> {
        let parsed = TaintEffect::parse(effect);
        if parsed.is_none() {
            let message = format!("`{effect}` is not known; it is one of {}", TaintEffect::NAMES);
            self.findings.add(at, message);
        }
        parsed
    }

    pub(crate) fn toleration(
        &mut self,
        toleration: &builtin::pod::Toleration<'_>,
        at: &At<'_>,
    ) -> Option<Toleration> {
        fn given<'t>(text: Option<&'t Str<'_>>) -> Option<&'t str> {
            text.map(|text| &**text).filter(|text| !text.is_empty())
        }
        let key = given(toleration.key.as_ref());
        let value = given(toleration.value.as_ref());
        let effect = match given(toleration.effect.as_ref()) {
            None => None,
            Some(effect) => Some(self.effect(effect, &at.key("effect"))?),
        };
        if toleration.toleration_seconds.is_some() && effect != Some(TaintEffect::NoExecute) {
            self.findings.add(&at.key("tolerationSeconds"), "is only for the effect NoExecute");
        }
        let value = match given(toleration.operator.as_ref()).unwrap_or("Equal") {
            "Exists" if value.is_some() => {
                self.findings.add(&at.key("value"), "must be empty with the operator Exists");
                return None;
            }
            "Exists" => None,
            "Equal" if key.is_none() => {
                self.findings.add(&at.key("operator"), "must be Exists where there is no key");
                return None;
            }
            "Equal" => Some(self.interner.text(value.unwrap_or_default())),
            other => {
                let message = format!("`{other}` is not known; it is one of Exists, Equal");
                self.findings.add(&at.key("operator"), message);
                return None;
            }
        };
        Some(Toleration { key: key.map(|key| self.interner.text(key)), value, effect })
    }

    pub(crate) fn tolerations(
        &mut self,
        tolerations: &[builtin::pod::Toleration<'_>],
        at: &At<'_>,
    ) -> Vec<Toleration> {
        let mut converted = Vec::with_capacity(tolerations.len());
        for (i, toleration) in tolerations.iter().enumerate() {
            converted.extend(self.toleration(toleration, &at.index(i)));
        }
        converted
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::tree::Tree;

    /// What `convert` makes of a YAML text, or what it finds wrong.
    fn converted<'a, W: Deserialize<'a>, T>(
        tree: &'a Tree<'a>,
        convert: impl FnOnce(&mut Converter<'_>, &W, &At<'_>) -> T,
    ) -> Result<T, String> {
        let wire = W::deserialize(tree).map_err(|error| error.to_string())?;
        let (mut findings, mut interner) = (Findings::default(), Interner::default());
        let mut converter = Converter { findings: &mut findings, interner: &mut interner };
        let value = convert(&mut converter, &wire, &At::ROOT);
        match findings.0.first() {
            None => Ok(value),
            Some(finding) => Err(format!("{}: {}", finding.path, finding.message)),
        }
    }

    #[test]
    fn amounts() {
        for (text, expected) in [
            ("{cpu: 1, memory: 1Gi}", Ok("cpu 1, memory 1Gi")),
            ("{cpu: 0.1}", Ok("cpu 100m")),
            ("{example.com/gpu: 2}", Ok("example.com/gpu 2")),
            ("{cpu: -1}", Err("cpu: -1 is negative; a resource cannot be")),
            ("{cpu: 500Mi}", Err("cpu: 524288k is absurd; the most is 1000000 cores, so check the suffix")),
            ("{memory: 4E}", Err("memory: 4E is absurd; the most is 1Ei, so check the suffix")),
        ] {
            let tree = Tree::parse(text).unwrap();
            let resources = converted(&tree, |c, wire: &Amounts<'_>, at| c.resources(wire, at).to_string());
            assert_eq!(resources.as_deref().map_err(String::as_str), expected, "{text}");
        }
    }

    #[test]
    fn tolerations() {
        for (text, expected) in [
            ("{key: a, value: b}", Ok((Some("a"), Some("b"), None))),
            ("{key: a}", Ok((Some("a"), Some(""), None))),
            ("{operator: Exists}", Ok((None, None, None))),
            (
                "{key: a, operator: Exists, effect: NoSchedule}",
                Ok((Some("a"), None, Some(TaintEffect::NoSchedule))),
            ),
            (
                "{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 3}",
                Ok((Some("a"), None, Some(TaintEffect::NoExecute))),
            ),
            ("{key: a, operator: Exists, value: b}", Err("value: must be empty")),
            ("{value: b}", Err("operator: must be Exists")),
            ("{key: a, operator: Like}", Err("operator: `Like` is not known")),
            ("{key: a, effect: Never}", Err("effect: `Never` is not known")),
            ("{key: a, tolerationSeconds: 3}", Err("tolerationSeconds: is only for")),
        ] {
            let tree = Tree::parse(text).unwrap();
            let actual = converted(&tree, |c, wire, at| c.toleration(wire, at));
            match (actual, expected) {
                (Ok(Some(toleration)), Ok((key, value, effect))) => {
                    let expected =
                        Toleration { key: key.map(Text::from), value: value.map(Text::from), effect };
                    assert_eq!(toleration, expected, "{text}");
                }
                (Err(message), Err(part)) => assert!(message.starts_with(part), "{text}: {message}"),
                (actual, _) => panic!("{text}: {actual:?}"),
            }
        }
    }

    #[test]
    fn selectors() {
        for (text, expected) in [
            ("{}", "every pod"),
            ("{matchLabels: {b: x, a: w}}", "a In [w] and b In [x]"),
            ("{matchExpressions: [{key: a, operator: NotIn, values: [z, x]}]}", "a NotIn [x, z]"),
            (
                "{matchExpressions: [{key: a, operator: Gt, values: ['1']}]}",
                "matchExpressions[0].operator: `Gt` is not known here; it is one of In, NotIn, Exists, DoesNotExist",
            ),
            (
                "{matchExpressions: [{key: a, operator: In}]}",
                "matchExpressions[0].values: operator In needs at least one value",
            ),
            (
                "{matchExpressions: [{key: a, operator: Exists, values: [b]}]}",
                "matchExpressions[0].values: operator Exists takes no values",
            ),
        ] {
            let tree = Tree::parse(text).unwrap();
            let actual = converted(&tree, |c, wire, at| c.selector(wire, at).to_string());
            assert_eq!(actual.unwrap_or_else(|e| e), expected, "{text}");
        }
    }

    #[test]
    fn node_terms() {
        for (text, expected) in [
            (
                "{matchExpressions: [{key: beta.kubernetes.io/arch, operator: In, values: [arm64]}]}",
                "kubernetes.io/arch In [arm64]",
            ),
            ("{matchExpressions: [{key: cpu, operator: Gt, values: ['4']}]}", "cpu Gt 4"),
            (
                "{matchExpressions: [{key: cpu, operator: Gte, values: ['4']}]}",
                "matchExpressions[0].operator: `Gte` is not known here; it is one of In, NotIn, Exists, DoesNotExist, Gt, Lt",
            ),
            (
                "{matchFields: [{key: metadata.name, operator: In, values: [node]}]}",
                "metadata.name In [node]",
            ),
            (
                "{matchFields: [{key: metadata.name, operator: In, values: [node, m]}]}",
                "matchFields[0].values: must be exactly one node's name",
            ),
            (
                "{matchFields: [{key: metadata.name, operator: Exists, values: [node]}]}",
                "matchFields[0].operator: `Exists` is not known here; it is one of In, NotIn",
            ),
            (
                "{matchFields: [{key: metadata.uid, operator: In, values: [node]}]}",
                "matchFields[0].key: `metadata.uid` is not a field that nodes can be chosen by; only metadata.name is",
            ),
        ] {
            let tree = Tree::parse(text).unwrap();
            let actual = converted(&tree, |c, wire, at| c.node_term(wire, at).to_string());
            assert_eq!(actual.unwrap_or_else(|e| e), expected, "{text}");
        }
    }

    #[test]
    fn node_labels_have_todays_names() {
        for (text, expected) in [
            ("{beta.kubernetes.io/arch: arm64}", "kubernetes.io/arch=arm64"),
            ("{beta.kubernetes.io/arch: old, kubernetes.io/arch: new}", "kubernetes.io/arch=new"),
            ("{kubernetes.io/arch: new, beta.kubernetes.io/arch: old}", "kubernetes.io/arch=new"),
        ] {
            let tree = Tree::parse(text).unwrap();
            let labels = converted(&tree, |c, wire, _| c.node_labels(wire)).unwrap();
            let shown: Vec<_> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
            assert_eq!(shown, [expected], "{text}");
        }
    }
}
