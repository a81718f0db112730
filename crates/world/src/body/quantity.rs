//! Quantities as the server keeps them: in the shortest form of the kind in which they were written.

use berth_core::units::{Quantity, QuantityError};

const WRONG_FORM: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const WRONG_SUFFIX: &str = "unable to parse quantity's suffix";
const NANOS: i128 = 1_000_000_000;

/// `1000m` is `1`, `1024Ki` is `1Mi`; or what the server has against it.
pub(crate) fn canonical(text: &str) -> Result<String, String> {
    let quantity: Quantity = text.parse().map_err(|error| match error {
        QuantityError::UnknownSuffix(_, suffix) if has_letters_of_a_suffix(&suffix) => {
            WRONG_SUFFIX.to_owned()
        }
        _ => WRONG_FORM.to_owned(),
    })?;
    let suffix =
        text.trim_start_matches(['+', '-']).trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let nanos = quantity.nanos();
    let is_whole = nanos % NANOS == 0;
    Ok(match suffix {
        suffix if suffix.ends_with('i') && is_whole && nanos.abs() >= 1024 * NANOS => binary(nanos / NANOS),
        suffix if suffix.starts_with(['e', 'E']) && suffix != "E" => exponent(nanos),
        _ => quantity.to_string(),
    })
}

fn has_letters_of_a_suffix(suffix: &str) -> bool {
    let rest = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let rest = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    rest.bytes().all(|byte| byte.is_ascii_digit())
}

fn binary(units: i128) -> String {
    let suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let (mut units, mut power) = (units, 0);
    while units % 1024 == 0 && power + 1 < suffixes.len() {
        units /= 1024;
        power += 1;
    }
    format!("{units}{}", suffixes.get(power).unwrap_or(&""))
}

/// By powers of a thousand.
fn exponent(nanos: i128) -> String {
    if nanos == 0 {
        return "0".to_owned();
    }
    let (mut number, mut power) = (nanos, -9);
    while number % 1000 == 0 {
        number /= 1000;
        power += 3;
    }
    if power == 0 { number.to_string() } else { format!("{number}e{power}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_one_form() {
        for (text, expected) in [
            ("0", Ok("0")),
            ("1000m", Ok("1")),
            ("1.5", Ok("1500m")),
            ("1.5Gi", Ok("1536Mi")),
            ("1024Ki", Ok("1Mi")),
            ("1023", Ok("1023")),
            ("0.5Ki", Ok("512")),
            ("2Ki", Ok("2Ki")),
            ("1e3", Ok("1e3")),
            ("1E4", Ok("10e3")),
            ("5E", Ok("5E")),
            ("1000", Ok("1k")),
            ("-3k", Ok("-3k")),
            ("x", Err(WRONG_FORM)),
            ("", Err(WRONG_FORM)),
            ("1kk", Err(WRONG_SUFFIX)),
            ("1 Gi", Err(WRONG_FORM)),
        ] {
            assert_eq!(canonical(text), expected.map(str::to_owned).map_err(str::to_owned), "{text}");
        }
    }
}
