//! Prices as people read them. Programs get the exact form of `Price` itself.

use berth_core::units::Price;

/// Below this an hour's price needs four decimals: the cheapest machines cost less than a cent an hour.
const FINE_BELOW_MICRO_USD: u64 = 100_000_000;

/// `$0.1172`, `$1,234.50`.
pub(crate) fn hourly(price: Price) -> String {
    let fine = price.micro_usd().unsigned_abs() < FINE_BELOW_MICRO_USD;
    dollars(price, if fine { 4 } else { 2 })
}

/// What an hourly price comes to in a month: `$85.54`.
pub(crate) fn monthly(price: Price) -> String {
    dollars(price.per_month(), 2)
}

/// With a sign even where it is positive, for changes.
pub(crate) fn signed(price: Price, format: fn(Price) -> String) -> String {
    let text = format(price);
    if price.micro_usd() > 0 { format!("+{text}") } else { text }
}

fn dollars(price: Price, decimals: u32) -> String {
    let step = 10_u64.pow(6 - decimals);
    let magnitude = price.micro_usd().unsigned_abs();
    let sign = if price.micro_usd() < 0 { "-" } else { "" };
    let steps = magnitude.saturating_add(step / 2) / step;
    if steps == 0 && magnitude > 0 {
        // Something that costs money must not be shown as free.
        let least = format!("{:0>width$}", 1, width = decimals as usize);
        return format!("{sign}<$0.{least}");
    }
    let scale = 10_u64.pow(decimals);
    let (whole, part) = (steps / scale, steps % scale);
    format!("{sign}${}.{part:0width$}", grouped(whole), width = decimals as usize)
}

fn grouped(whole: u64) -> String {
    let digits = whole.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.char_indices() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_for_people() {
        for (micro_usd, per_hour, per_month) in [
            (0, "$0.0000", "$0.00"),
            (1, "<$0.0001", "<$0.01"),
            (117_180, "$0.1172", "$85.54"),
            (99_999_999, "$100.0000", "$73,000.00"),
            (100_000_000, "$100.00", "$73,000.00"),
            (1_234_567_890_000, "$1,234,567.89", "$901,234,559.70"),
            (-40_000, "-$0.0400", "-$29.20"),
        ] {
            let price = Price::from_micro_usd(micro_usd);
            assert_eq!((&*hourly(price), &*monthly(price)), (per_hour, per_month), "{micro_usd}");
        }
    }

    #[test]
    fn changes_carry_their_sign() {
        for (micro_usd, expected) in [(117_180, "+$0.1172"), (0, "$0.0000"), (-117_180, "-$0.1172")] {
            assert_eq!(signed(Price::from_micro_usd(micro_usd), hourly), expected);
        }
    }
}
