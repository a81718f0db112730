//! Rules in CEL: `x-kubernetes-validations`.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;
use kube_cel::KubeCelExt;
use kube_cel::cel::objects::{Key, Map, OptionalValue};
use kube_cel::cel::{Context, ExecutionError, Program, Value as Cel};

use super::said::{
    child, duplicate, entry, forbidden, go_type, invalid, invalid_text, invalid_unshown, required, shown,
};
use super::typed::{self, Kind};
use super::{Schema, Type, paths};
use crate::failure::{Cause, CauseReason};
use crate::json::{Text, Value};

/// A rule that can be tried.
#[derive(Debug)]
pub(super) struct Rule {
    text: String,
    message: Option<String>,
    reason: CauseReason,
    /// Below the value that the rule is about; empty for that itself.
    field: String,
    is_old_optional: bool,
    pub(super) uses_old: bool,
    program: Program,
    message_program: Option<Program>,
}

pub(super) enum Unfit {
    Rule(String),
    /// It comes to something else than a truth.
    Outcome,
    MessageExpression(String),
    /// Its message is no text.
    MessageOutcome,
    FieldPath,
}

/// The longest message that an expression may make.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

thread_local! {
    /// The functions of CEL and of Kubernetes. They are the same for all rules and slow to gather.
    static FUNCTIONS: Context<'static> = Context::default().with_all();
    static TIMESTAMP: Option<Program> = Program::compile("timestamp(text)").ok();
    static DURATION: Option<Program> = Program::compile("duration(text)").ok();
}

impl Rule {
    /// `schema` is that of the value that the rule is about.
    pub(super) fn parse(rule: &ValidationRule, schema: &Schema) -> Result<Self, Unfit> {
        let program = Program::compile(&rule.rule).map_err(|error| Unfit::Rule(error.to_string()))?;
        let expression = rule.message_expression.as_deref().filter(|text| !text.is_empty());
        let message_program = expression.map(Program::compile).transpose();
        let message_program = message_program.map_err(|error| Unfit::MessageExpression(error.to_string()))?;
        let field = match rule.field_path.as_deref() {
            None | Some("") => String::new(),
            Some(path) => paths::resolve(path, schema, true).map_err(|_| Unfit::FieldPath)?.0,
        };
        Ok(Self {
            text: rule.rule.trim().to_owned(),
            message: rule
                .message
                .as_deref()
                .map(str::trim)
                .filter(|text| !text.is_empty())
                .map(str::to_owned),
            reason: match rule.reason.as_deref() {
                Some("FieldValueForbidden") => CauseReason::FieldValueForbidden,
                Some("FieldValueRequired") => CauseReason::FieldValueRequired,
                Some("FieldValueDuplicate") => CauseReason::FieldValueDuplicate,
                _ => CauseReason::FieldValueInvalid,
            },
            field,
            is_old_optional: rule.optional_old_self == Some(true),
            uses_old: program.references().has_variable("oldSelf"),
            program,
            message_program,
        })
    }

    /// Whether it fits the schema that it is about.
    pub(super) fn fits(&self, rule: &ValidationRule, schema: &Schema, is_root: bool) -> Result<(), Unfit> {
        let outcome = |source: &str, program: &Program| {
            typed::outcome(source, program.expression(), schema, is_root, self.is_old_optional)
        };
        if !matches!(outcome(&rule.rule, &self.program).map_err(Unfit::Rule)?, Kind::Bool | Kind::Any) {
            return Err(Unfit::Outcome);
        }
        let Some((source, program)) = rule.message_expression.as_deref().zip(self.message_program.as_ref())
        else {
            return Ok(());
        };
        match outcome(source, program).map_err(Unfit::MessageExpression)? {
            Kind::Text | Kind::Any => Ok(()),
            _ => Err(Unfit::MessageOutcome),
        }
    }

    fn cause(&self, path: &str, value: &Value, schema: &Schema, detail: &str) -> Cause {
        let field = child(path, &self.field);
        let value = match schema.type_ {
            Some(Type::Object | Type::Array) => None,
            _ => Some(shown(value)),
        };
        match (self.reason, value) {
            (CauseReason::FieldValueForbidden, _) => forbidden(&field, detail),
            (CauseReason::FieldValueRequired, _) => required(&field, detail),
            (CauseReason::FieldValueDuplicate, value) => duplicate(&field, value.as_deref()),
            (_, Some(value)) => invalid(&field, &value, detail),
            (_, None) => invalid_unshown(&field, detail),
        }
    }

    fn told(&self) -> &str {
        self.message.as_deref().unwrap_or(&self.text)
    }

    /// The message of its own expression, if that makes a fit one; else the fixed one.
    fn detail(&self, context: &Context<'_>) -> String {
        let made = self.message_program.as_ref().and_then(|program| match program.execute(context) {
            Ok(Cel::String(text)) => Some(text.trim().to_owned()),
            _ => None,
        });
        let is_fit =
            |text: &String| !text.is_empty() && !text.contains('\n') && text.len() <= MESSAGE_BYTES_MAX;
        made.filter(is_fit).unwrap_or_else(|| match &self.message {
            Some(message) => message.clone(),
            None => format!("failed rule: {}", self.text),
        })
    }
}

/// The causes of all rules that `value` breaks, coming from `old`.
pub(super) fn check(schema: &Schema, value: &Value, old: Option<&Value>, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let pair = old.map(|old| Pair { value, old });
    let correlation = Correlation { here: pair, around: None };
    FUNCTIONS.with(|functions| {
        let mut walk = Walk { functions, causes: &mut causes };
        walk.value(schema, value, old, path, correlation);
    });
    causes
}

#[derive(Clone, Copy)]
struct Pair<'a> {
    value: &'a Value,
    old: &'a Value,
}

/// What a value was before, or what was around it where that cannot be told.
#[derive(Clone, Copy)]
struct Correlation<'a> {
    here: Option<Pair<'a>>,
    around: Option<Pair<'a>>,
}

impl<'a> Correlation<'a> {
    fn is_unchanged(self) -> bool {
        self.here.or(self.around).is_some_and(|pair| pair.value == pair.old)
    }

    fn field(self, name: &str) -> Self {
        let Some(here) = self.here else { return self };
        if self.around.is_none() && ["apiVersion", "kind"].contains(&name) {
            return Self { here: None, around: None };
        }
        let pair = here.value.get(name).zip(here.old.get(name)).map(|(value, old)| Pair { value, old });
        Self { here: pair, around: self.here }
    }

    fn item(self, schema: &Schema, item: &'a Value) -> Self {
        let Some(here) = self.here else { return self };
        let old = schema.list.earlier(item, here.old);
        Self { here: old.map(|old| Pair { value: item, old }), around: self.here }
    }
}

struct Walk<'a> {
    functions: &'a Context<'static>,
    causes: &'a mut Vec<Cause>,
}

impl Walk<'_> {
    /// Nulls are not judged: a rule around them can.
    fn value(
        &mut self,
        schema: &Schema,
        value: &Value,
        old: Option<&Value>,
        path: &str,
        was: Correlation<'_>,
    ) {
        if value.is_null() || !schema.has_rules() {
            return;
        }
        self.rules(schema, value, old.filter(|old| !old.is_null()), path, was);
        match value {
            Value::Object(fields) => {
                let old_of = |name: &Text| old.and_then(|old| old.get(name));
                if let Some(each) = schema.additional.each() {
                    for (name, value) in fields {
                        self.value(each, value, old_of(name), &entry(path, name), was.field(name));
                    }
                }
                for (name, value) in fields {
                    if let Some(property) = schema.properties.get(name.as_str()) {
                        self.value(property, value, old_of(name), &child(path, name), was.field(name));
                    }
                }
            }
            Value::Array(items) => {
                let Some(of) = &schema.items else { return };
                for (index, item) in items.iter().enumerate() {
                    let old = old.and_then(|old| schema.list.earlier(item, old));
                    self.value(of, item, old, &entry(path, index), was.item(schema, item));
                }
            }
            _ => {}
        }
    }

    fn rules(
        &mut self,
        schema: &Schema,
        value: &Value,
        old: Option<&Value>,
        path: &str,
        was: Correlation<'_>,
    ) {
        if schema.rules.is_empty() {
            return;
        }
        let mut context = self.functions.new_inner_scope();
        context.add_variable_from_value("self", to_cel(schema, value, self.functions));
        let old = old.map(|old| to_cel(schema, old, self.functions));
        for rule in &schema.rules {
            if rule.uses_old && old.is_none() && !rule.is_old_optional {
                continue;
            }
            let mut context = context.new_inner_scope();
            if rule.is_old_optional {
                let old = old.clone().map_or_else(OptionalValue::none, OptionalValue::of);
                context.add_variable_from_value("oldSelf", Cel::Opaque(Arc::new(old)));
            } else if let Some(old) = &old {
                context.add_variable_from_value("oldSelf", old.clone());
            }
            match rule.program.execute(&context) {
                Ok(Cel::Bool(true)) => {}
                Ok(_) => {
                    if rule.uses_old || !was.is_unchanged() {
                        self.causes.push(rule.cause(path, value, schema, &rule.detail(&context)));
                    }
                }
                Err(error) => {
                    let type_ = schema.type_.map_or("", Type::name);
                    let why = match misfit(schema, value) {
                        Some(misfit) => format!("{misfit} evaluating rule: {}", rule.told()),
                        None => failed(&error, rule.told()),
                    };
                    self.causes.push(invalid_text(path, type_, &why));
                }
            }
        }
    }
}

/// What a value is not, though its schema says it is. Only of an object of another kind is this not found before its
/// rules are tried.
fn misfit(schema: &Schema, value: &Value) -> Option<String> {
    let not = |expected: &str| Some(format!("invalid data, expected {expected}, got {}", go_type(value)));
    match (schema.type_?, value) {
        (_, Value::Null)
        | (Type::Number, Value::Number(_))
        | (Type::String, Value::String(_))
        | (Type::Boolean, Value::Bool(_)) => None,
        (Type::Integer, Value::Number(number)) if number.is_i64() => None,
        (Type::Object, Value::Object(fields)) => {
            fields.iter().find_map(|(name, value)| misfit(schema.field(name)?, value))
        }
        (Type::Array, Value::Array(items)) => {
            items.iter().find_map(|item| misfit(schema.items.as_ref()?, item))
        }
        (Type::Object, _) => {
            Some("invalid data, expected a map for the provided schema with type=object".to_owned())
        }
        (Type::Array, _) => {
            Some("invalid data, expected an array for the provided schema with type=array".to_owned())
        }
        (Type::String, _) => not("string"),
        (Type::Boolean, _) => not("bool"),
        (Type::Integer, _) => not("int"),
        (Type::Number, _) => not("float"),
    }
}

/// Why a rule could not be tried, in the words of CEL in Go.
fn failed(error: &ExecutionError, rule: &str) -> String {
    match in_go(error) {
        why if why == NO_OVERLOAD => format!(
            "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {rule}"
        ),
        why => format!("{why} evaluating rule: {rule}"),
    }
}

const NO_OVERLOAD: &str = "no such overload";

/// What went wrong, in the words of CEL in Go.
pub(crate) fn in_go(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchOverload
        | ExecutionError::UnsupportedBinaryOperator(..)
        | ExecutionError::UnsupportedUnaryOperator(..)
        | ExecutionError::ValuesNotComparable(..) => NO_OVERLOAD.to_owned(),
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(Cel::Int(index)) => format!("index out of bounds: {index}"),
        ExecutionError::FunctionError { message, .. } => message.clone(),
        other => other.to_string(),
    }
}

/// The value as rules see it.
fn to_cel(schema: &Schema, value: &Value, functions: &Context<'_>) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(truth) => Cel::Bool(*truth),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) if !schema.is(Type::Number) => Cel::Int(whole),
            (None, Some(real)) if schema.is(Type::Integer) && real.fract() == 0.0 => Cel::Int(whole_of(real)),
            (_, real) => Cel::Float(real.unwrap_or(f64::NAN)),
        },
        Value::String(text) => string_to_cel(schema, text, functions),
        Value::Array(items) => {
            let unsaid = <Schema as Default>::default();
            let of = schema.items.as_deref().unwrap_or(&unsaid);
            Cel::List(Arc::new(items.iter().map(|item| to_cel(of, item, functions)).collect()))
        }
        Value::Object(fields) => {
            let unsaid = <Schema as Default>::default();
            let is_map = schema.properties.is_empty() && schema.additional.is_said();
            let fields = fields.iter().map(|(name, value)| {
                let key = if is_map { name.to_string() } else { escaped(name) };
                let of = schema.field(name).unwrap_or(&unsaid);
                (Key::String(Arc::new(key)), to_cel(of, value, functions))
            });
            Cel::Map(Map { map: Arc::new(fields.collect::<HashMap<_, _>>()) })
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "it is whole, and too large ones were refused")]
fn whole_of(real: f64) -> i64 {
    real as i64
}

fn string_to_cel(schema: &Schema, text: &str, functions: &Context<'_>) -> Cel {
    let plain = || Cel::String(Arc::new(text.to_owned()));
    let made = |program: &Option<Program>, text: &str| {
        let mut context = functions.new_inner_scope();
        context.add_variable_from_value("text", Cel::String(Arc::new(text.to_owned())));
        program.as_ref().and_then(|program| program.execute(&context).ok()).unwrap_or_else(plain)
    };
    if !schema.is(Type::String) {
        return plain();
    }
    match schema.checks.format.map(|format| format.name) {
        Some("date-time" | "datetime") => TIMESTAMP.with(|program| made(program, text)),
        Some("date") => TIMESTAMP.with(|program| made(program, &format!("{text}T00:00:00Z"))),
        Some("duration") => DURATION.with(|program| made(program, text)),
        Some("byte") => STANDARD.decode(text).map_or_else(|_| plain(), |bytes| Cel::Bytes(Arc::new(bytes))),
        _ => plain(),
    }
}

const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The name by which a rule can reach a field.
pub(super) fn escaped(name: &str) -> String {
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    let name = name.replace("__", "__underscores__");
    name.replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__")
}
