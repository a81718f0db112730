//! Which objects a list or watch is about: by their labels, and by a few of their fields.

mod field;

pub use field::FieldSelector;
pub(crate) use field::name_selected;

use std::fmt;

use crate::failure::{Cause, Failure};
use crate::json::{Value, json};
use crate::names::{invalid, invalid_value, label_value_problems, qualified_name_problems, quoted};

/// A query over labels. All of its requirements must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelSelector {
    /// Selects nothing, as a selector does that is not there.
    Nothing,
    /// In the order of their keys.
    All(Vec<Requirement>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    DoesNotExist,
    Equals(String),
    NotEquals(String),
    /// Sorted.
    In(Vec<String>),
    /// Sorted.
    NotIn(Vec<String>),
    Above(i64),
    Below(i64),
}

impl LabelSelector {
    /// From the form of a query: `a=b,c!=d,e in (x,y),f notin (z),g,!h,i>1,j<2`.
    pub fn parse(query: &str) -> Result<Self, Failure> {
        let mut parser = Parser { tokens: tokens(query), position: 0 };
        parser.requirements().map(Self::all).map_err(Failure::bad_request)
    }

    /// From the form that objects have: `matchLabels` and `matchExpressions`.
    pub fn from_value(selector: &Value) -> Result<Self, Failure> {
        if selector.is_null() {
            return Ok(Self::Nothing);
        }
        let mut requirements = Vec::new();
        for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements.push(Requirement::new(key, Operator::Equals, vec![value]));
        }
        for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
            let values = expression["values"].as_array().into_iter().flatten();
            let values: Vec<String> = values.filter_map(Value::as_str).map(str::to_owned).collect();
            let operator = match expression["operator"].as_str().unwrap_or_default() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    let why = format!("{} is not a valid label selector operator", quoted(other));
                    return Err(Failure::bad_request(why));
                }
            };
            let key = expression["key"].as_str().unwrap_or_default();
            requirements.push(Requirement::new(key, operator, values));
        }
        let requirements: Result<Vec<_>, _> = requirements.into_iter().collect();
        requirements.map(Self::all).map_err(Failure::bad_request)
    }

    fn all(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|one, other| one.key.cmp(&other.key));
        Self::All(requirements)
    }

    /// Whether a map of labels is selected. Without labels the map may be null.
    pub fn matches(&self, labels: &Value) -> bool {
        match self {
            Self::Nothing => false,
            Self::All(requirements) => requirements.iter().all(|requirement| requirement.matches(labels)),
        }
    }
}

impl Requirement {
    fn new(key: &str, operator: Operator, values: Vec<String>) -> Result<Self, String> {
        let mut causes: Vec<Cause> = Vec::new();
        causes.extend(key_cause(key, "key"));
        let all = || if values.is_empty() { "null".to_owned() } else { json!(values).to_string() };
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                let why = "for 'in', 'notin' operators, values set can't be empty";
                causes.push(invalid_value("values", &all(), why));
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                let why = "values set must be empty for exists and does not exist";
                causes.push(invalid_value("values", &all(), why));
            }
            Operator::Above | Operator::Below => {
                let why = "for 'Gt', 'Lt' operators, the value must be an integer";
                let wrong = values.iter().enumerate().filter(|(_, value)| value.parse::<i64>().is_err());
                causes.extend(wrong.map(|(index, value)| invalid(&format!("values[{index}]"), value, why)));
            }
            _ => {}
        }
        for (index, value) in values.iter().enumerate() {
            let problems = label_value_problems(value);
            if !problems.is_empty() {
                causes.push(invalid(&format!("values[{index}][{key}]"), value, &problems.join("; ")));
            }
        }
        if !causes.is_empty() {
            return Err(together(&causes));
        }
        Ok(Self { key: key.to_owned(), test: operator.test(values) })
    }

    fn matches(&self, labels: &Value) -> bool {
        let value = labels.get(&self.key).and_then(Value::as_str);
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.test {
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
            Test::Equals(wanted) => value == Some(wanted),
            Test::NotEquals(unwanted) => value != Some(unwanted),
            Test::In(wanted) => value.is_some_and(|value| wanted.iter().any(|one| one == value)),
            Test::NotIn(unwanted) => value.is_none_or(|value| unwanted.iter().all(|one| one != value)),
            Test::Above(bound) => number().is_some_and(|number| number > *bound),
            Test::Below(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::All(requirements) = self else { return Ok(()) };
        for (index, requirement) in requirements.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.test {
            Test::Exists => write!(f, "{key}"),
            Test::DoesNotExist => write!(f, "!{key}"),
            Test::Equals(value) => write!(f, "{key}={value}"),
            Test::NotEquals(value) => write!(f, "{key}!={value}"),
            Test::In(values) => write!(f, "{key} in ({})", values.join(",")),
            Test::NotIn(values) => write!(f, "{key} notin ({})", values.join(",")),
            Test::Above(bound) => write!(f, "{key}>{bound}"),
            Test::Below(bound) => write!(f, "{key}<{bound}"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Exists,
    DoesNotExist,
    Equals,
    NotEquals,
    In,
    NotIn,
    Above,
    Below,
}

impl Operator {
    /// With values that fit the operator.
    fn test(self, mut values: Vec<String>) -> Test {
        values.sort_unstable();
        let first = || values.first().cloned().unwrap_or_default();
        let number = || first().parse().unwrap_or_default();
        match self {
            Self::Exists => Test::Exists,
            Self::DoesNotExist => Test::DoesNotExist,
            Self::Equals => Test::Equals(first()),
            Self::NotEquals => Test::NotEquals(first()),
            Self::Above => Test::Above(number()),
            Self::Below => Test::Below(number()),
            Self::In => Test::In(values),
            Self::NotIn => Test::NotIn(values),
        }
    }
}

fn key_cause(key: &str, field: &str) -> Option<Cause> {
    let problems = qualified_name_problems(key);
    (!problems.is_empty()).then(|| invalid(field, key, &problems.join("; ")))
}

/// One cause, or several in brackets.
fn together(causes: &[Cause]) -> String {
    let said: Vec<String> = causes.iter().map(ToString::to_string).collect();
    match &said[..] {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    End,
    /// `in` and `notin` are words, too, and can be keys and values.
    Word(&'a str),
    /// One of `= == != > < ! ( ) ,`.
    Symbol(&'a str),
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::End => "",
            Self::Word(text) | Self::Symbol(text) => text,
        }
    }
}

fn tokens(query: &str) -> Vec<Token<'_>> {
    let is_space = |letter: char| matches!(letter, ' ' | '\t' | '\r' | '\n');
    let is_symbol = |letter: char| matches!(letter, '=' | '!' | '(' | ')' | ',' | '>' | '<');
    let mut tokens = Vec::new();
    let mut rest = query.trim_start_matches(is_space);
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("==") || rest.starts_with("!=") {
            2
        } else if is_symbol(first) {
            1
        } else {
            rest.find(|letter| is_symbol(letter) || is_space(letter)).unwrap_or(rest.len())
        };
        let (text, after) = rest.split_at(length);
        tokens.push(if is_symbol(first) { Token::Symbol(text) } else { Token::Word(text) });
        rest = after.trim_start_matches(is_space);
    }
    tokens
}

/// Reads requirements from tokens. Failures say what the API server says.
struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    position: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens.get(self.position).copied().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.position += 1;
        token
    }

    fn requirements(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::End => return Ok(requirements),
                Token::Word(_) | Token::Symbol("!") => {
                    let requirement =
                        self.requirement().map_err(|why| format!("unable to parse requirement: {why}"))?;
                    requirements.push(requirement);
                }
                Token::Symbol(found) => {
                    return Err(format!("found '{found}', expected: !, identifier, or 'end of string'"));
                }
            }
            match self.next() {
                Token::End => return Ok(requirements),
                Token::Symbol(",") => {
                    let after = self.peek();
                    if !matches!(after, Token::Word(_) | Token::Symbol("!")) {
                        return Err(format!("found '{}', expected: identifier after ','", after.text()));
                    }
                }
                other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut token = self.next();
        let is_absent = token == Token::Symbol("!");
        if is_absent {
            token = self.next();
        }
        let Token::Word(key) = token else {
            return Err(format!("found '{}', expected: identifier", token.text()));
        };
        if let Some(cause) = key_cause(key, "<nil>") {
            return Err(cause.to_string());
        }
        if is_absent {
            return Requirement::new(key, Operator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Requirement::new(key, Operator::Exists, Vec::new());
        }
        let operator = match self.next() {
            Token::Word("in") => Operator::In,
            Token::Word("notin") => Operator::NotIn,
            Token::Symbol("=" | "==") => Operator::Equals,
            Token::Symbol("!=") => Operator::NotEquals,
            Token::Symbol(">") => Operator::Above,
            Token::Symbol("<") => Operator::Below,
            other => {
                return Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", other.text()));
            }
        };
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => vec![self.value()?],
        };
        Requirement::new(key, operator, values)
    }

    fn value(&mut self) -> Result<String, String> {
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(String::new());
        }
        match self.next() {
            Token::Word(value) => Ok(value.to_owned()),
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    /// Values in parentheses. Between commas there may be nothing, which is the empty value.
    fn values(&mut self) -> Result<Vec<String>, String> {
        let opening = self.next();
        if opening != Token::Symbol("(") {
            return Err(format!("found '{}' expected: '('", opening.text()));
        }
        if !matches!(self.peek(), Token::Word(_) | Token::Symbol("," | ")")) {
            return Err(format!("found '{}', expected: ',', ')' or identifier", self.peek().text()));
        }
        let mut values = std::collections::BTreeSet::new();
        if self.peek() == Token::Symbol(")") {
            self.next();
            return Ok(vec![String::new()]);
        }
        loop {
            match self.next() {
                Token::Word(value) => {
                    values.insert(value.to_owned());
                    match self.peek() {
                        Token::Symbol(",") => {}
                        Token::Symbol(")") => break,
                        other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
                    }
                }
                Token::Symbol(",") => {
                    let after = self.peek();
                    if values.is_empty() || matches!(after, Token::Symbol("," | ")")) {
                        values.insert(String::new());
                    }
                    if after == Token::Symbol(")") {
                        break;
                    }
                }
                other => return Err(format!("found '{}', expected: ',', or identifier", other.text())),
            }
        }
        self.next();
        Ok(values.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_select_labels() {
        let labels = [json!({}), json!({"a": "b"}), json!({"a": "x", "n": "5"}), json!({"a": "", "b": "c"})];
        for (query, selected) in [
            ("", [true, true, true, true]),
            ("  ", [true, true, true, true]),
            ("a", [false, true, true, true]),
            ("!a", [true, false, false, false]),
            ("! a", [true, false, false, false]),
            ("a=b", [false, true, false, false]),
            ("a==b", [false, true, false, false]),
            ("a = b", [false, true, false, false]),
            ("a=", [false, false, false, true]),
            ("a!=b", [true, false, true, true]),
            ("a in (b,x)", [false, true, true, false]),
            ("a in(b , x)", [false, true, true, false]),
            ("a in ()", [false, false, false, true]),
            ("a in (,)", [false, false, false, true]),
            ("a in (b,)", [false, true, false, true]),
            ("a in (,,b)", [false, true, false, true]),
            ("a notin (b)", [true, false, true, true]),
            ("a,b", [false, false, false, true]),
            ("a,!b", [false, true, true, false]),
            ("n>4", [false, false, true, false]),
            ("n<5", [false, false, false, false]),
            ("in", [false, false, false, false]),
            ("in=notin", [false, false, false, false]),
            ("notin notin (in)", [true, true, true, true]),
        ] {
            let selector = LabelSelector::parse(query).unwrap();
            assert_eq!(labels.each_ref().map(|labels| selector.matches(labels)), selected, "{query}");
        }
        assert!(LabelSelector::parse("!a").unwrap().matches(&Value::Null));
    }

    #[test]
    fn wrong_queries_are_refused() {
        let name_part = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
        let value = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
        for (query, why) in [
            (",", "found ',', expected: !, identifier, or 'end of string'"),
            ("=a", "found '=', expected: !, identifier, or 'end of string'"),
            ("a,", "found '', expected: identifier after ','"),
            ("a,,b", "found ',', expected: identifier after ','"),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            ("!a=b", "found '=', expected: ',' or 'end of string'"),
            ("a=b=c", "found '=', expected: ',' or 'end of string'"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            ("a(", "unable to parse requirement: found '(', expected: in, notin, =, ==, !=, gt, lt"),
            ("a===b", "unable to parse requirement: found '=', expected: identifier"),
            ("a in", "unable to parse requirement: found '' expected: '('"),
            ("a in x", "unable to parse requirement: found 'x' expected: '('"),
            ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
            ("a in (x", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("a in (x,", "unable to parse requirement: found '', expected: ',', or identifier"),
            ("a in (x y)", "unable to parse requirement: found 'y', expected: ',' or ')'"),
            ("-a", &format!("unable to parse requirement: <nil>: Invalid value: \"-a\": {name_part}")),
            ("a=-b", &format!("unable to parse requirement: values[0][a]: Invalid value: \"-b\": {value}")),
            (
                "a>x",
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
        ] {
            let failure = LabelSelector::parse(query).unwrap_err();
            assert_eq!((failure.code(), &*failure.message), (400, why), "{query}");
        }
    }

    #[test]
    fn objects_have_selectors() {
        let expression = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]});
        for (selector, said, of_b, of_none) in [
            (Value::Null, "", false, false),
            (json!({}), "", true, true),
            (json!({"matchLabels": {"b": "c", "a": "b"}}), "a=b,b=c", false, false),
            (json!({"matchLabels": {"a": "b"}}), "a=b", true, false),
            (expression("In", json!(["c", "b"])), "a in (b,c)", true, false),
            (expression("NotIn", json!(["b"])), "a notin (b)", false, true),
            (expression("Exists", json!([])), "a", true, false),
            (expression("DoesNotExist", Value::Null), "!a", false, true),
        ] {
            let parsed = LabelSelector::from_value(&selector).unwrap();
            assert_eq!(parsed.to_string(), said, "{selector}");
            assert_eq!(
                (parsed.matches(&json!({"a": "b"})), parsed.matches(&json!({}))),
                (of_b, of_none),
                "{selector}"
            );
        }
        for (selector, why) in [
            (expression("Is", json!([])), "\"Is\" is not a valid label selector operator"),
            (
                expression("In", json!([])),
                "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
            ),
            (
                expression("Exists", json!(["x"])),
                "values: Invalid value: [\"x\"]: values set must be empty for exists and does not exist",
            ),
        ] {
            assert_eq!(LabelSelector::from_value(&selector).unwrap_err().message, why);
        }
    }
}
