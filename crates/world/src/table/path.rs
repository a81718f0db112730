//! Paths into objects, as printer columns have them: `.a.b`, `.a['b']`, `.a[0]`, `.a[*]`,
//! `.a[?(@.type=="Ready")].status`.

use crate::json::Value;

/// A path that can be read.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// All of a list's elements, or of an object's values.
    Any,
    /// The elements from one index up to another, where negative ones count from the end.
    Slice {
        from: i64,
        to: Option<i64>,
    },
    /// The elements of a list for which something is there.
    With(JsonPath),
    /// The elements of a list for which a comparison holds.
    Where {
        left: JsonPath,
        operator: Comparison,
        right: Value,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The path does not fit the object: an index out of bounds, or a list where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoesNotFit;

impl JsonPath {
    /// `None` for what is no path, or one of a kind that is not understood.
    pub fn parse(path: &str) -> Option<Self> {
        let mut rest = path.trim();
        rest = rest.strip_prefix(['$', '@']).unwrap_or(rest);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, after) = if let Some(rest) = rest.strip_prefix("[?(") {
                let (inside, after) = until_unquoted(rest, ")]")?;
                (filter(inside)?, after)
            } else if let Some(rest) = rest.strip_prefix('[') {
                let (inside, after) = until_unquoted(rest, "]")?;
                (subscript(inside.trim())?, after)
            } else {
                field(rest.strip_prefix('.')?)?
            };
            steps.push(step);
            rest = after.trim_start();
        }
        Some(Self { steps })
    }

    /// All that the path leads to. What is not there is left out.
    pub fn find<'a>(&self, object: &'a Value) -> Result<Vec<&'a Value>, DoesNotFit> {
        self.steps.iter().try_fold(vec![object], |found, step| {
            let mut next = Vec::new();
            for value in found {
                step.follow(value, &mut next)?;
            }
            Ok(next)
        })
    }
}

impl Step {
    fn follow<'a>(&self, value: &'a Value, found: &mut Vec<&'a Value>) -> Result<(), DoesNotFit> {
        if value.is_null() {
            return if matches!(self, Self::With(_) | Self::Where { .. }) { Err(DoesNotFit) } else { Ok(()) };
        }
        match self {
            Self::Field(name) => found.extend(value.as_object().and_then(|fields| fields.get(name))),
            Self::Any => match value {
                Value::Object(fields) => found.extend(fields.values()),
                Value::Array(elements) => found.extend(elements),
                _ => {}
            },
            Self::Slice { from, to } => {
                let elements = value.as_array().ok_or(DoesNotFit)?;
                found.extend(slice(elements, *from, *to)?);
            }
            Self::With(path) => {
                for element in value.as_array().ok_or(DoesNotFit)? {
                    if path.find(element).is_ok_and(|there| !there.is_empty()) {
                        found.push(element);
                    }
                }
            }
            Self::Where { left, operator, right } => {
                for element in value.as_array().ok_or(DoesNotFit)? {
                    match left.find(element)?[..] {
                        [] => {}
                        [left] => {
                            if operator.holds(left, right)? {
                                found.push(element);
                            }
                        }
                        _ => return Err(DoesNotFit),
                    }
                }
            }
        }
        Ok(())
    }
}

impl Comparison {
    fn holds(self, left: &Value, right: &Value) -> Result<bool, DoesNotFit> {
        let order = match (left, right) {
            (Value::String(left), Value::String(right)) => left.cmp(right),
            (Value::Number(left), Value::Number(right)) if left.is_f64() == right.is_f64() => {
                match (left.as_i64(), right.as_i64()) {
                    (Some(left), Some(right)) => left.cmp(&right),
                    _ => left.as_f64().partial_cmp(&right.as_f64()).ok_or(DoesNotFit)?,
                }
            }
            (Value::Bool(left), Value::Bool(right)) if matches!(self, Self::Equal | Self::NotEqual) => {
                left.cmp(right)
            }
            _ => return Err(DoesNotFit),
        };
        Ok(match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        })
    }
}

fn slice(elements: &[Value], from: i64, to: Option<i64>) -> Result<&[Value], DoesNotFit> {
    let length = i64::try_from(elements.len()).map_err(|_| DoesNotFit)?;
    let from_end = |index: i64| if index < 0 { index + length } else { index };
    let (from, to) = (from_end(from), to.map_or(length, from_end));
    if from == to {
        return Ok(&[]);
    }
    let [from, to] = [from, to].map(|index| usize::try_from(index).map_err(|_| DoesNotFit));
    let (from, to) = (from?, to?);
    // A slice that begins after the end fits no list, though nothing would be in it.
    if from >= elements.len() { Err(DoesNotFit) } else { elements.get(from..to).ok_or(DoesNotFit) }
}

/// A field's name up to the next step, in which a backslash takes the meaning from what follows.
fn field(rest: &str) -> Option<(Step, &str)> {
    let mut name = String::new();
    let mut letters = rest.char_indices();
    let mut end = rest.len();
    while let Some((index, letter)) = letters.next() {
        match letter {
            '\\' => name.extend(letters.next().map(|(_, escaped)| escaped)),
            '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}' | ' ' | '\t' | '\r' | '\n' => {
                end = index;
                break;
            }
            _ => name.push(letter),
        }
    }
    let step = match &*name {
        "" if !rest.is_empty() => return None,
        "*" => Step::Any,
        _ => Step::Field(name),
    };
    Some((step, &rest[end..]))
}

/// What is between brackets: an index, a range, a star, or a name in quotes.
fn subscript(inside: &str) -> Option<Step> {
    if inside == "*" {
        return Some(Step::Slice { from: 0, to: None });
    }
    for quote in ['\'', '"'] {
        if let Some(name) = inside.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return Some(Step::Field(name.replace('\\', "")));
        }
    }
    let (from, to) = if let Some((from, to)) = inside.split_once(':') {
        let number = |text: &str| if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) };
        (number(from)?.unwrap_or(0), number(to)?)
    } else {
        let index: i64 = inside.parse().ok()?;
        // After the last there is only the end.
        (index, if index == -1 { None } else { Some(index.checked_add(1)?) })
    };
    Some(Step::Slice { from, to })
}

/// `@.a`, or `@.a=="b"`.
fn filter(inside: &str) -> Option<Step> {
    let Some(at) = inside.find(['!', '<', '>', '=']) else {
        return Some(Step::With(JsonPath::parse(inside)?));
    };
    let (left, rest) = inside.split_at(at);
    let right = rest.trim_start_matches(['!', '<', '>', '=']);
    let operator = match &rest[..rest.len() - right.len()] {
        "==" => Comparison::Equal,
        "!=" => Comparison::NotEqual,
        "<" => Comparison::Less,
        "<=" => Comparison::LessOrEqual,
        ">" => Comparison::Greater,
        ">=" => Comparison::GreaterOrEqual,
        _ => return None,
    };
    Some(Step::Where { left: JsonPath::parse(left)?, operator, right: literal(right.trim())? })
}

fn literal(text: &str) -> Option<Value> {
    for quote in ['\'', '"'] {
        if let Some(inside) = text.strip_prefix(quote) {
            return inside.strip_suffix(quote).map(|inside| Value::from(inside.replace('\\', "")));
        }
    }
    match serde_json::from_str(text) {
        Ok(value @ (Value::Number(_) | Value::Bool(_))) => Some(value),
        _ => None,
    }
}

/// What is before the first `end` outside of quotes, and what is after it.
fn until_unquoted<'a>(text: &'a str, end: &str) -> Option<(&'a str, &'a str)> {
    let mut quote = None;
    for (index, letter) in text.char_indices() {
        match (letter, quote) {
            (_, Some(open)) if letter == open => quote = None,
            ('\'' | '"', None) => quote = Some(letter),
            (_, None) if text[index..].starts_with(end) => {
                return Some((&text[..index], &text[index + end.len()..]));
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn paths_lead_to_values() {
        let object = json!({
            "a": {"b": {"c": 1}, "x.y/z": "dotted", "none": null, "flag": true},
            "list": [10, 20, 30], "empty": [],
            "conditions": [
                {"type": "Ready", "status": "True", "count": 1},
                {"type": "Other", "status": "False", "count": 2},
                {"status": "Unknown"},
            ],
        });
        let cases: &[(&str, Result<Value, DoesNotFit>)] = &[
            (".a.b.c", Ok(json!([1]))),
            ("$.a.b.c", Ok(json!([1]))),
            (".a['b']['c']", Ok(json!([1]))),
            (".a[\"b\"].c", Ok(json!([1]))),
            (r".a.x\.y/z", Ok(json!(["dotted"]))),
            (".a['x.y/z']", Ok(json!(["dotted"]))),
            (r".a['x\.y/z']", Ok(json!(["dotted"]))),
            (".a.none", Ok(json!([null]))),
            (".a.none.more", Ok(json!([]))),
            (".a.missing.more", Ok(json!([]))),
            (".a.b.c.d", Ok(json!([]))),
            (".list[0]", Ok(json!([10]))),
            (".list[2]", Ok(json!([30]))),
            (".list[-1]", Ok(json!([30]))),
            (".list[-3]", Ok(json!([10]))),
            (".list[3]", Err(DoesNotFit)),
            (".list[-4]", Err(DoesNotFit)),
            (".list[1:]", Ok(json!([20, 30]))),
            (".list[:2]", Ok(json!([10, 20]))),
            (".list[:-1]", Ok(json!([10, 20]))),
            (".list[1:1]", Ok(json!([]))),
            (".list[2:1]", Err(DoesNotFit)),
            (".list[*]", Ok(json!([10, 20, 30]))),
            (".list.*", Ok(json!([10, 20, 30]))),
            (".a.b.*", Ok(json!([1]))),
            (".empty[*]", Ok(json!([]))),
            (".empty[0]", Err(DoesNotFit)),
            (".missing[0]", Ok(json!([]))),
            (".a[0]", Err(DoesNotFit)),
            (r#".conditions[?(@.type=="Ready")].status"#, Ok(json!(["True"]))),
            (".conditions[?(@.type == 'Ready')].status", Ok(json!(["True"]))),
            (".conditions[?(@.type!='Ready')].status", Ok(json!(["False"]))),
            (".conditions[?(@.type=='No)]')].status", Ok(json!([]))),
            (".conditions[?(@.count>1)].type", Ok(json!(["Other"]))),
            (".conditions[?(@.count<=1)].type", Ok(json!(["Ready"]))),
            (".conditions[?(@.type)].status", Ok(json!(["True", "False"]))),
            (".conditions[?(@.count=='1')].type", Err(DoesNotFit)),
            (".missing[?(@.type=='Ready')].status", Ok(json!([]))),
            (".a[?(@.type=='Ready')]", Err(DoesNotFit)),
            (".", Ok(json!([]))),
        ];
        for (path, expected) in cases {
            let found = JsonPath::parse(path).unwrap().find(&object).map(|found| json!(found));
            assert_eq!(found, *expected, "{path}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for path in [
            "a",
            ".a[",
            ".a[x]",
            ".a[?(@.b",
            ".a[?(@.b=='x]",
            ".a[?(@.b=x)]",
            ".a..b",
            ".a]",
            ".a b",
            ".a[?(@.b=!1)]",
        ] {
            assert_eq!(JsonPath::parse(path), None, "{path}");
        }
    }
}
