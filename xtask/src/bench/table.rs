//! A table as Markdown, aligned so that it reads as well in a terminal.

use std::fmt;
use std::time::Duration;

pub(super) struct Table {
    title: String,
    about: String,
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(title: &str, about: &str, columns: Vec<&'static str>) -> Self {
        Self { title: title.to_owned(), about: about.to_owned(), columns, rows: Vec::new() }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "### {}\n\n{}\n", self.title, self.about)?;
        let widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(column, name)| {
                let cells = self.rows.iter().filter_map(|row| row.get(column)).map(String::len);
                cells.chain([name.len()]).max().unwrap_or(0)
            })
            .collect();
        for (name, width) in self.columns.iter().zip(&widths) {
            write!(f, "| {name:>width$} ")?;
        }
        writeln!(f, "|")?;
        for width in &widths {
            write!(f, "|-{}:", "-".repeat(*width))?;
        }
        writeln!(f, "|")?;
        for row in &self.rows {
            for (cell, width) in row.iter().zip(&widths) {
                write!(f, "| {cell:>width$} ")?;
            }
            writeln!(f, "|")?;
        }
        Ok(())
    }
}

/// `1345` as `1,345`.
pub(super) fn count(number: impl Into<u64>) -> String {
    let digits = number.into().to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(super) fn seconds(microseconds: u64) -> String {
    // Rounded up, so that no time looks shorter than it was.
    let milliseconds = microseconds.div_ceil(1000);
    format!("{}.{:03} s", milliseconds / 1000, milliseconds % 1000)
}

pub(super) fn timed(time: Duration) -> String {
    seconds(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

pub(super) fn megabytes(kib: u64) -> String {
    format!("{} MB", bytes(kib).div_ceil(1_000_000))
}

pub(super) fn bytes(kib: u64) -> u64 {
    kib.saturating_mul(1024)
}

/// `1345.5` as `$1,345.50`.
pub(super) fn money(dollars: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and rounded")]
    let cents = (dollars * 100.0).round() as u64;
    format!("${}.{:02}", count(cents / 100), cents % 100)
}

pub(super) fn percent(percent: f64) -> String {
    format!("{percent:.2}%")
}

/// How many times as much the first is as the second.
pub(super) fn ratio(first: u64, second: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a ratio with few digits")]
    let ratio = first as f64 / second.max(1) as f64;
    ratio
}

/// Each number divided by the one before; the first has none.
pub(super) fn ratios(numbers: impl Iterator<Item = u64>) -> Vec<String> {
    let mut before = None;
    numbers
        .map(|number| {
            let before = before.replace(number);
            before.map_or_else(String::new, |before| format!("{:.2}", ratio(number, before)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        for (number, text) in [(0_u32, "0"), (999, "999"), (1_345, "1,345"), (1_000_000, "1,000,000")] {
            assert_eq!(count(number), text);
        }
        for (microseconds, text) in
            [(0, "0.000 s"), (1, "0.001 s"), (499_999, "0.500 s"), (2_041_000, "2.041 s")]
        {
            assert_eq!(seconds(microseconds), text);
        }
        for (kib, text) in [(0, "0 MB"), (976, "1 MB"), (977, "2 MB"), (292_968, "300 MB")] {
            assert_eq!(megabytes(kib), text);
        }
        for (dollars, text) in [(0.0, "$0.00"), (3_687.496, "$3,687.50"), (0.999, "$1.00")] {
            assert_eq!(money(dollars), text);
        }
        assert_eq!(ratios([200, 300, 150].into_iter()), ["", "1.50", "0.50"]);
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new("Title", "About.", vec!["pods", "time"]);
        table.row(vec!["1".to_owned(), "0.500 s".to_owned()]);
        table.row(vec!["20,000".to_owned(), "1.000 s".to_owned()]);
        let expected = "### Title\n\nAbout.\n\n\
                        |   pods |    time |\n\
                        |-------:|--------:|\n\
                        |      1 | 0.500 s |\n\
                        | 20,000 | 1.000 s |\n";
        assert_eq!(table.to_string(), expected);
    }
}
