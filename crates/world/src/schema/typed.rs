//! Whether a rule fits the schema of what it is about: the fields that it names are there, and what it compares or
//! computes with is of types that go together. What cannot be told from the schema is let be.

use std::collections::BTreeMap;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators,
};

use super::rules::escaped;
use super::{Schema, Type};

/// What a value is to CEL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nobody knows before there is a value.
    Any,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Null,
    Timestamp,
    Duration,
    List(Box<Self>),
    /// By texts.
    Map(Box<Self>),
    /// With these fields, under the names that rules have for them.
    Object(BTreeMap<String, Self>),
}

impl Kind {
    /// Nothing for what rules do not see. The root of an object has a name, whatever its schema says.
    fn of(schema: &Schema, is_root: bool) -> Option<Self> {
        if schema.is_int_or_string {
            return Some(Self::Any);
        }
        let below = |schema: &Schema| Self::of(schema, schema.is_embedded);
        match schema.type_? {
            Type::Boolean => Some(Self::Bool),
            Type::Integer => Some(Self::Int),
            Type::Number => Some(Self::Double),
            Type::String => Some(match schema.checks.format.map(|format| format.name) {
                Some("byte") => Self::Bytes,
                Some("duration") => Self::Duration,
                Some("date" | "date-time" | "datetime") => Self::Timestamp,
                _ => Self::Text,
            }),
            Type::Array => Some(Self::List(Box::new(below(schema.items.as_deref()?)?))),
            Type::Object => {
                if let Some(each) = schema.additional.each() {
                    return Some(Self::Map(Box::new(below(each)?)));
                }
                let fields = schema.properties.iter();
                let mut fields: BTreeMap<String, Self> =
                    fields.filter_map(|(name, of)| Some((escaped(name), below(of)?))).collect();
                if is_root {
                    let named = ["name", "generateName"].map(|name| (name.to_owned(), Self::Text));
                    fields.insert("metadata".to_owned(), Self::Object(named.into()));
                    fields.extend(["apiVersion", "kind"].map(|name| (name.to_owned(), Self::Text)));
                }
                Some(Self::Object(fields))
            }
        }
    }

    pub(super) fn named(&self) -> String {
        match self {
            Self::Any => "dyn".to_owned(),
            Self::Bool => "bool".to_owned(),
            Self::Int => "int".to_owned(),
            Self::Uint => "uint".to_owned(),
            Self::Double => "double".to_owned(),
            Self::Text => "string".to_owned(),
            Self::Bytes => "bytes".to_owned(),
            Self::Null => "null".to_owned(),
            Self::Timestamp => "timestamp".to_owned(),
            Self::Duration => "duration".to_owned(),
            Self::List(of) => format!("list({})", of.named()),
            Self::Map(of) => format!("map(string, {})", of.named()),
            Self::Object(_) => "object".to_owned(),
        }
    }

    fn is_number(&self) -> bool {
        matches!(self, Self::Int | Self::Uint | Self::Double)
    }

    /// Whether a value of this kind may be where one of the other is. Of nulls, the schema does not tell enough.
    fn goes_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any | Self::Null, _) | (_, Self::Any | Self::Null) => true,
            (Self::List(a), Self::List(b)) | (Self::Map(a), Self::Map(b)) => a.goes_with(b),
            (a, b) => a == b,
        }
    }
}

/// What a rule about a schema comes to, or what is wrong with it in the words of CEL in Go.
pub(super) fn outcome(
    source: &str,
    expression: &IdedExpr,
    schema: &Schema,
    is_root: bool,
    is_old_optional: bool,
) -> Result<Kind, String> {
    let subject = Kind::of(schema, is_root || schema.is_embedded).unwrap_or(Kind::Any);
    let old = if is_old_optional { Kind::Any } else { subject.clone() };
    outcome_with(source, expression, vec![("self".to_owned(), subject), ("oldSelf".to_owned(), old)])
}

/// The same of an expression over other variables.
pub(super) fn outcome_with(
    source: &str,
    expression: &IdedExpr,
    variables: Vec<(String, Kind)>,
) -> Result<Kind, String> {
    let mut reader =
        Reader { tokens: tokens(source), passed: BTreeMap::new(), variables, complaints: Vec::new() };
    let Found { kind, .. } = reader.read(expression);
    reader.complaints.sort_by_key(|complaint| complaint.at);
    if reader.complaints.is_empty() {
        return Ok(kind);
    }
    let told = reader.complaints.iter().map(|complaint| complaint.shown(source));
    Err(told.collect::<Vec<String>>().join("\n"))
}

/// What an expression comes to, and where in the rule CEL says that it is.
struct Found {
    kind: Kind,
    at: usize,
}

struct Complaint {
    /// The byte of the rule.
    at: usize,
    why: String,
}

impl Complaint {
    fn shown(&self, source: &str) -> String {
        let before = source.get(..self.at).unwrap_or_default();
        let line = before.matches('\n').count();
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
        let text = source.split('\n').nth(line).unwrap_or_default();
        let (why, row, dots) = (&self.why, line + 1, ".".repeat(column));
        format!("ERROR: <input>:{row}:{}: {why}\n | {text}\n | {dots}^", column + 1)
    }
}

/// Goes through a rule from left to right, so that what it finds can be found again in the text.
struct Reader<'a> {
    tokens: Vec<Token<'a>>,
    /// How often each token has been come by.
    passed: BTreeMap<String, usize>,
    variables: Vec<(String, Kind)>,
    complaints: Vec<Complaint>,
}

impl Reader<'_> {
    /// Where the next token of this text is, of those that have not been come by.
    fn pass(&mut self, text: &str) -> usize {
        let passed = self.passed.entry(text.to_owned()).or_default();
        let mut same = self.tokens.iter().filter(|token| token.text == text);
        let found = same.nth(*passed).map_or(0, |token| token.at);
        *passed += 1;
        found
    }

    fn complain(&mut self, at: usize, why: String) -> Kind {
        self.complaints.push(Complaint { at, why });
        Kind::Any
    }

    fn read(&mut self, expression: &IdedExpr) -> Found {
        match &expression.expr {
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Literal(literal) => {
                let at = if is_negative(literal) { self.pass("-") } else { 0 };
                Found { kind: of_literal(literal), at }
            }
            Expr::List(list) => {
                let kinds: Vec<Kind> = list.elements.iter().map(|element| self.read(element).kind).collect();
                let same = kinds.first().filter(|first| kinds.iter().all(|kind| kind == *first));
                Found { kind: Kind::List(Box::new(same.cloned().unwrap_or(Kind::Any))), at: 0 }
            }
            Expr::Map(_) | Expr::Struct(_) | Expr::Unspecified => Found { kind: Kind::Any, at: 0 },
        }
    }

    fn variable(&mut self, name: &str) -> Found {
        let at = self.pass(name);
        let kind = match self.variables.iter().rev().find(|(known, _)| known == name) {
            Some((_, kind)) => kind.clone(),
            None if TYPES.contains(&name) => Kind::Any,
            None => self.complain(at, format!("undeclared reference to '{name}' (in container '')")),
        };
        Found { kind, at }
    }

    fn select(&mut self, select: &SelectExpr) -> Found {
        // A field that is only asked for is where the question is.
        let asked = select.test.then(|| self.pass("has") + "has".len());
        let operand = self.read(&select.operand).kind;
        let field = self.pass(&format!(".{}", select.field));
        let at = asked.unwrap_or(field);
        let kind = match operand {
            Kind::Any => Kind::Any,
            Kind::Map(of) => *of,
            Kind::Object(mut fields) => match fields.remove(&select.field) {
                Some(kind) => kind,
                None => self.complain(at, format!("undefined field '{}'", select.field)),
            },
            other => self.complain(at, format!("type '{}' does not support field selection", other.named())),
        };
        Found { kind: if select.test { Kind::Bool } else { kind }, at }
    }

    fn call(&mut self, call: &CallExpr) -> Found {
        let name = &*call.func_name;
        match (&call.target, &call.args[..]) {
            (None, [left, right]) if matches!(name, operators::LOGICAL_AND | operators::LOGICAL_OR) => {
                self.truth(left);
                let at = symbol(name).map_or(0, |symbol| self.pass(symbol));
                self.truth(right);
                Found { kind: Kind::Bool, at }
            }
            (None, [left, right]) if symbol(name).is_some() => self.binary(name, left, right),
            (None, [condition, yes, no]) if name == operators::CONDITIONAL => {
                let condition = self.read(condition).kind;
                let at = self.pass("?");
                let (yes, no) = (self.read(yes).kind, self.read(no).kind);
                let kind = if condition.goes_with(&Kind::Bool) && yes.goes_with(&no) {
                    if yes == Kind::Any { no } else { yes }
                } else {
                    self.no_overload(at, name, &[condition, yes, no])
                };
                Found { kind, at }
            }
            (None, [operand]) if matches!(name, operators::LOGICAL_NOT | operators::NEGATE) => {
                let at = self.pass(if name == operators::NEGATE { "-" } else { "!" });
                let kind = self.read(operand).kind;
                let fits = match name {
                    operators::NEGATE => matches!(kind, Kind::Any | Kind::Int | Kind::Double),
                    _ => kind.goes_with(&Kind::Bool),
                };
                Found { kind: if fits { kind } else { self.no_overload(at, name, &[kind]) }, at }
            }
            (None, [operand, index]) if name == operators::INDEX => {
                let operand = self.read(operand);
                self.read(index);
                let kind = match operand.kind {
                    Kind::List(of) | Kind::Map(of) => *of,
                    _ => Kind::Any,
                };
                Found { kind, ..operand }
            }
            (target, args) => self.function(name, target.as_deref(), args),
        }
    }

    fn function(&mut self, name: &str, target: Option<&IdedExpr>, args: &[IdedExpr]) -> Found {
        // It is where its arguments begin.
        let (target, at) = match target {
            Some(target) => {
                let target = self.target(target);
                (Some(target), self.pass(&format!(".{name}")) + 1 + name.len())
            }
            None => (None, self.pass(name) + name.len()),
        };
        let args: Vec<Kind> = args.iter().map(|arg| self.read(arg).kind).collect();
        let kind = match (name, target.as_ref().or(args.first())) {
            ("size", Some(Kind::Bool | Kind::Int | Kind::Uint | Kind::Double))
            | (
                "startsWith" | "endsWith" | "matches",
                Some(Kind::Bool | Kind::Int | Kind::Uint | Kind::Double | Kind::List(_) | Kind::Map(_)),
            ) => {
                let args: Vec<String> = args.iter().map(Kind::named).collect();
                let target = target.map_or_else(String::new, |target| format!("{}.", target.named()));
                let given = format!("{target}({})", args.join(", "));
                self.complain(at, format!("found no matching overload for '{name}' applied to '{given}'"))
            }
            _ => of_function(name),
        };
        Found { kind, at }
    }

    /// What a function is called on, or the namespace that it is in.
    fn target(&mut self, target: &IdedExpr) -> Kind {
        match &target.expr {
            Expr::Ident(name) if self.variables.iter().all(|(known, _)| known != name) => {
                self.pass(name);
                Kind::Any
            }
            _ => self.read(target).kind,
        }
    }

    /// What is to be true or false.
    fn truth(&mut self, expression: &IdedExpr) {
        let Found { kind, at } = self.read(expression);
        if !kind.goes_with(&Kind::Bool) {
            self.complain(at, format!("expected type 'bool' but found '{}'", kind.named()));
        }
    }

    fn binary(&mut self, name: &str, left: &IdedExpr, right: &IdedExpr) -> Found {
        let left = self.read(left).kind;
        let at = symbol(name).map_or(0, |symbol| self.pass(symbol));
        let right = self.read(right).kind;
        let kind = computed(name, &left, &right);
        Found { kind: kind.unwrap_or_else(|| self.no_overload(at, name, &[left, right])), at }
    }

    fn no_overload(&mut self, at: usize, name: &str, kinds: &[Kind]) -> Kind {
        let kinds: Vec<String> = kinds.iter().map(Kind::named).collect();
        self.complain(
            at,
            format!("found no matching overload for '{name}' applied to '({})'", kinds.join(", ")),
        )
    }

    /// What a macro stands for: only what its author wrote is in the text.
    fn comprehension(&mut self, of: &ComprehensionExpr) -> Found {
        let range = self.read(&of.iter_range);
        let item = match range.kind {
            Kind::List(item) => *item,
            Kind::Map(_) => Kind::Text,
            Kind::Any | Kind::Object(_) => Kind::Any,
            other => {
                let why = "cannot be range of a comprehension (must be list, map, or dynamic)";
                self.complain(range.at, format!("expression of type '{}' {why}", other.named()))
            }
        };
        self.pass(&of.iter_var);
        if let Some(name) = &of.iter_var2 {
            self.pass(name);
        }
        let outer = self.variables.len();
        let first = if of.iter_var2.is_some() { Kind::Any } else { item };
        self.variables.push((of.iter_var.clone(), first));
        self.variables.extend(of.iter_var2.iter().map(|name| (name.clone(), Kind::Any)));
        let made = self.step(&of.loop_step, &of.accu_var);
        self.variables.truncate(outer);
        let kind = match &of.accu_init.expr {
            Expr::Literal(_) => Kind::Bool,
            Expr::List(_) => made,
            _ => Kind::Any,
        };
        Found { kind, at: range.at }
    }

    /// Reads what is below the calls that a macro has made around its result; what the last of it comes to.
    fn step(&mut self, expression: &IdedExpr, result: &str) -> Kind {
        let is_result = |arg: &IdedExpr| matches!(&arg.expr, Expr::Ident(name) if name == result);
        match &expression.expr {
            Expr::Call(call) if call.args.iter().any(is_result) => {
                let wants_truth = matches!(
                    &*call.func_name,
                    operators::LOGICAL_AND | operators::LOGICAL_OR | operators::CONDITIONAL
                );
                let mut last = Kind::Any;
                for (index, arg) in call.args.iter().enumerate().filter(|(_, arg)| !is_result(arg)) {
                    if wants_truth && (index == 0 || call.func_name != operators::CONDITIONAL) {
                        self.truth(arg);
                    } else {
                        last = self.step(arg, result);
                    }
                }
                last
            }
            _ => self.read(expression).kind,
        }
    }
}

/// What comes of two values, if they go together.
fn computed(name: &str, left: &Kind, right: &Kind) -> Option<Kind> {
    let is_unknown = [left, right].iter().any(|kind| matches!(kind, Kind::Any | Kind::Null));
    match name {
        operators::EQUALS | operators::NOT_EQUALS => left.goes_with(right).then_some(Kind::Bool),
        operators::IN => match right {
            Kind::List(of) => left.goes_with(of).then_some(Kind::Bool),
            Kind::Map(_) => left.goes_with(&Kind::Text).then_some(Kind::Bool),
            Kind::Any | Kind::Null => Some(Kind::Bool),
            _ => None,
        },
        operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS => {
            let has_order = !matches!(left, Kind::List(_) | Kind::Map(_) | Kind::Object(_)) && left == right;
            let is_number = left.is_number() && right.is_number();
            (is_unknown || is_number || has_order).then_some(Kind::Bool)
        }
        _ if is_unknown => Some(Kind::Any),
        operators::ADD => match (left, right) {
            (Kind::Int | Kind::Uint | Kind::Double | Kind::Text | Kind::Bytes | Kind::Duration, _)
                if left == right =>
            {
                Some(left.clone())
            }
            (Kind::List(_), Kind::List(_)) if left.goes_with(right) => Some(left.clone()),
            (Kind::Timestamp, Kind::Duration) | (Kind::Duration, Kind::Timestamp) => Some(Kind::Timestamp),
            _ => None,
        },
        operators::SUBSTRACT => match (left, right) {
            (Kind::Timestamp, Kind::Timestamp) => Some(Kind::Duration),
            (Kind::Timestamp, Kind::Duration) => Some(Kind::Timestamp),
            (Kind::Int | Kind::Uint | Kind::Double | Kind::Duration, _) if left == right => {
                Some(left.clone())
            }
            _ => None,
        },
        operators::MODULO => (matches!(left, Kind::Int | Kind::Uint) && left == right).then(|| left.clone()),
        _ => (left.is_number() && left == right).then(|| left.clone()),
    }
}

/// As an operator of two values is written.
fn symbol(name: &str) -> Option<&'static str> {
    Some(match name {
        operators::LOGICAL_AND => "&&",
        operators::LOGICAL_OR => "||",
        operators::SUBSTRACT => "-",
        operators::ADD => "+",
        operators::MULTIPLY => "*",
        operators::DIVIDE => "/",
        operators::MODULO => "%",
        operators::EQUALS => "==",
        operators::NOT_EQUALS => "!=",
        operators::GREATER_EQUALS => ">=",
        operators::LESS_EQUALS => "<=",
        operators::GREATER => ">",
        operators::LESS => "<",
        operators::IN => "in",
        _ => return None,
    })
}

/// Types are values, too.
const TYPES: [&str; 11] =
    ["bool", "bytes", "double", "dyn", "int", "list", "map", "null_type", "string", "type", "uint"];

fn is_negative(literal: &LiteralValue) -> bool {
    match literal {
        LiteralValue::Int(number) => *number.inner() < 0,
        LiteralValue::Double(number) => *number.inner() < 0.0,
        _ => false,
    }
}

fn of_literal(literal: &LiteralValue) -> Kind {
    match literal {
        LiteralValue::Boolean(_) => Kind::Bool,
        LiteralValue::Bytes(_) => Kind::Bytes,
        LiteralValue::Double(_) => Kind::Double,
        LiteralValue::Int(_) => Kind::Int,
        LiteralValue::Null => Kind::Null,
        LiteralValue::String(_) => Kind::Text,
        LiteralValue::UInt(_) => Kind::Uint,
    }
}

/// What a function gives, where that does not depend on what it is given.
fn of_function(name: &str) -> Kind {
    match name {
        "size" | "int" | "indexOf" | "lastIndexOf" => Kind::Int,
        "string" | "lowerAscii" | "upperAscii" | "trim" | "replace" | "substring" | "join" => Kind::Text,
        "double" => Kind::Double,
        "startsWith" | "endsWith" | "matches" | "contains" | "isSorted" => Kind::Bool,
        "timestamp" => Kind::Timestamp,
        "duration" => Kind::Duration,
        _ => Kind::Any,
    }
}

/// An operator, a name, or a field with the dot before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Token<'a> {
    at: usize,
    text: &'a str,
}

/// Those that are looked for again: all but texts and brackets.
fn tokens(source: &str) -> Vec<Token<'_>> {
    const SYMBOLS: [&str; 15] =
        ["&&", "||", "==", "!=", ">=", "<=", ">", "<", "-", "+", "*", "/", "%", "?", "!"];
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let word_len = |text: &str| text.find(|letter| !is_word(letter)).unwrap_or(text.len());
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(rest) = source.get(at..).filter(|rest| !rest.is_empty()) {
        let first = rest.chars().next().unwrap_or_default();
        let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
        let len = if matches!(first, '"' | '\'') {
            quoted_len(rest, first)
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if is_word(first) {
            word_len(rest)
        } else if first == '.' {
            1 + word_len(&rest[1..])
        } else {
            symbol.map_or(first.len_utf8(), |symbol| symbol.len())
        };
        let text = &rest[..len];
        if is_word(first) || (first == '.' && len > 1) || symbol.is_some_and(|symbol| *symbol == text) {
            found.push(Token { at, text });
        }
        at += len;
    }
    found
}

/// How long a text is, with its quotes.
fn quoted_len(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, letter) in rest.char_indices().skip(1) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if letter == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}
