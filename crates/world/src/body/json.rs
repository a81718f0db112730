//! JSON as Go reads it: with the order and the repetition of fields, and Go's words for what is wrong.

use crate::json::{Map, Number, Value};

/// A value as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// As its digits, which error messages repeat.
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// Go reads far deeper, but no object is; this fits on every stack.
pub(crate) const DEPTH_MAX: usize = 200;

impl Json {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut scanner = Scanner { bytes, at: 0 };
        let value = scanner.value(0)?;
        scanner.skip_space();
        match scanner.peek() {
            None => Ok(value),
            Some(byte) => Err(unexpected(byte, "after top-level value")),
        }
    }

    /// Go's word for what it is.
    pub(crate) fn go_kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Number(_) => "number",
            Self::Text(_) => "string",
            Self::List(_) => "array",
            Self::Object(_) => "object",
        }
    }

    /// Of a field that is there more than once, the last counts.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(is) => Value::Bool(*is),
            Self::Number(digits) => number(digits),
            Self::Text(text) => Value::String(text.into()),
            Self::List(items) => items.iter().map(Self::to_value).collect(),
            Self::Object(fields) => {
                fields.iter().map(|(key, value)| (key.clone(), value.to_value())).collect::<Map>().into()
            }
        }
    }
}

/// Whole numbers stay whole where they fit.
pub(super) fn number(digits: &str) -> Value {
    let whole = digits.parse::<i64>().ok().map(Number::from);
    let number = whole.or_else(|| Number::from_f64(digits.parse().ok()?));
    number.map_or(Value::Null, Value::Number)
}

impl From<&Value> for Json {
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(is) => Self::Bool(*is),
            Value::Number(number) => Self::Number(number.to_string()),
            Value::String(text) => Self::Text(text.to_string()),
            Value::Array(items) => Self::List(items.iter().map(Self::from).collect()),
            Value::Object(fields) => {
                Self::Object(fields.iter().map(|(key, value)| (key.to_string(), Self::from(value))).collect())
            }
        }
    }
}

const END: &str = "unexpected end of JSON input";

fn unexpected(byte: u8, context: &str) -> String {
    let shown = match byte {
        b'\'' => r"\'".to_owned(),
        b'"' => "\"".to_owned(),
        b'\n' => r"\n".to_owned(),
        b'\r' => r"\r".to_owned(),
        b'\t' => r"\t".to_owned(),
        b'\\' => r"\\".to_owned(),
        0x07 => r"\a".to_owned(),
        0x08 => r"\b".to_owned(),
        0x0b => r"\v".to_owned(),
        0x0c => r"\f".to_owned(),
        0..=0x1f | 0x7f => format!(r"\x{byte:02x}"),
        0x80..=0x9f | 0xa0 | 0xad => format!(r"\u{byte:04x}"),
        _ => char::from(byte).to_string(),
    };
    format!("invalid character '{shown}' {context}")
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn next(&mut self) -> Result<u8, String> {
        let byte = self.peek().ok_or(END)?;
        self.at += 1;
        Ok(byte)
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn after_space(&mut self) -> Result<u8, String> {
        self.skip_space();
        self.next()
    }

    fn value(&mut self, depth: usize) -> Result<Json, String> {
        if depth > DEPTH_MAX {
            return Err("exceeded max depth".to_owned());
        }
        match self.after_space()? {
            b'{' => self.object(depth),
            b'[' => self.list(depth),
            b'"' => self.text().map(Json::Text),
            b't' => self.literal("true", Json::Bool(true)),
            b'f' => self.literal("false", Json::Bool(false)),
            b'n' => self.literal("null", Json::Null),
            first @ (b'-' | b'0'..=b'9') => self.number(first),
            byte => Err(unexpected(byte, "looking for beginning of value")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, String> {
        let mut fields = Vec::new();
        loop {
            match self.after_space()? {
                b'}' if fields.is_empty() => return Ok(Json::Object(fields)),
                b'"' => {}
                byte => return Err(unexpected(byte, "looking for beginning of object key string")),
            }
            let key = self.text()?;
            match self.after_space()? {
                b':' => {}
                byte => return Err(unexpected(byte, "after object key")),
            }
            fields.push((key, self.value(depth + 1)?));
            match self.after_space()? {
                b',' => {}
                b'}' => return Ok(Json::Object(fields)),
                byte => return Err(unexpected(byte, "after object key:value pair")),
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Json, String> {
        let mut items = Vec::new();
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Json::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            match self.after_space()? {
                b',' => {}
                b']' => return Ok(Json::List(items)),
                byte => return Err(unexpected(byte, "after array element")),
            }
        }
    }

    fn literal(&mut self, word: &str, value: Json) -> Result<Json, String> {
        for expected in word.bytes().skip(1) {
            let byte = self.next()?;
            if byte != expected {
                let context = format!("in literal {word} (expecting '{}')", char::from(expected));
                return Err(unexpected(byte, &context));
            }
        }
        Ok(value)
    }

    fn number(&mut self, first: u8) -> Result<Json, String> {
        let start = self.at - 1;
        let mut digit = first;
        if digit == b'-' {
            digit = self.next()?;
            if !digit.is_ascii_digit() {
                return Err(unexpected(digit, "in numeric literal"));
            }
        }
        if digit != b'0' {
            self.skip_digits();
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        let digits = self.bytes.get(start..self.at).unwrap_or_default();
        Ok(Json::Number(String::from_utf8_lossy(digits).into_owned()))
    }

    fn digits(&mut self, context: &str) -> Result<(), String> {
        let byte = self.next()?;
        if !byte.is_ascii_digit() {
            return Err(unexpected(byte, context));
        }
        self.skip_digits();
        Ok(())
    }

    fn skip_digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }

    /// What follows the opening quote.
    fn text(&mut self) -> Result<String, String> {
        let mut bytes = Vec::new();
        loop {
            match self.next()? {
                b'"' => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
                b'\\' => {
                    let mut room = [0; 4];
                    bytes.extend_from_slice(self.escape()?.encode_utf8(&mut room).as_bytes());
                }
                byte @ 0..=0x1f => return Err(unexpected(byte, "in string literal")),
                byte => bytes.push(byte),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        Ok(match self.next()? {
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            byte @ (b'\\' | b'/' | b'"') => char::from(byte),
            b'u' => {
                let first = self.hex()?;
                if !(0xd800..0xdc00).contains(&first) {
                    return Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                // Half of a pair; without the other half it is nothing.
                let before = self.at;
                if self.bytes.get(self.at..self.at + 2) == Some(br"\u") {
                    self.at += 2;
                    let second = self.hex()?;
                    if (0xdc00..0xe000).contains(&second) {
                        let whole = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                        return Ok(char::from_u32(whole).unwrap_or(char::REPLACEMENT_CHARACTER));
                    }
                    self.at = before;
                }
                char::REPLACEMENT_CHARACTER
            }
            byte => return Err(unexpected(byte, "in string escape code")),
        })
    }

    fn hex(&mut self) -> Result<u32, String> {
        let mut value = 0;
        for _ in 0..4 {
            let byte = self.next()?;
            let Some(digit) = char::from(byte).to_digit(16) else {
                return Err(unexpected(byte, r"in \u hexadecimal character escape"));
            };
            value = value * 16 + digit;
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn what_is_json() {
        for (text, expected) in [
            (" null ", json!(null)),
            ("[1, -2.5e1, 0, true,false, \"\"]", json!([1, -25.0, 0, true, false, ""])),
            (r#"{"a": {"b": []}, "a": {}}"#, json!({"a": {}})),
            (r#""\u0041\n\/\ud83d\ude00\ud83dx""#, json!("A\n/\u{1f600}\u{fffd}x")),
            ("9223372036854775808", json!(9_223_372_036_854_775_808_f64)),
        ] {
            assert_eq!(Json::parse(text.as_bytes()).map(|json| json.to_value()), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_not_json_is_said_in_gos_words() {
        for (text, expected) in [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("foo", "invalid character 'o' in literal false (expecting 'a')"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("{,", "invalid character ',' looking for beginning of object key string"),
            (r#"{"a" 1"#, "invalid character '1' after object key"),
            (r#"{"a": 1 2"#, "invalid character '2' after object key:value pair"),
            ("[1 2", "invalid character '2' after array element"),
            ("[,", "invalid character ',' looking for beginning of value"),
            ("01", "invalid character '1' after top-level value"),
            ("-x", "invalid character 'x' in numeric literal"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("1ex", "invalid character 'x' in exponent of numeric literal"),
            (r#""\x"#, "invalid character 'x' in string escape code"),
            (r#""\u00g"#, r"invalid character 'g' in \u hexadecimal character escape"),
            ("\"\n", r"invalid character '\n' in string literal"),
            ("'", r"invalid character '\'' looking for beginning of value"),
        ] {
            assert_eq!(Json::parse(text.as_bytes()), Err(expected.to_owned()), "{text}");
        }
        assert_eq!(Json::parse("[".repeat(1_000_000).as_bytes()), Err("exceeded max depth".to_owned()));
    }
}
