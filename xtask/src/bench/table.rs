//! A table as Markdown, aligned so that it reads as well in a terminal.

use std::fmt;

pub(super) struct Table {
    title: String,
    about: String,
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// How deep the heading is.
    level: usize,
}

impl Table {
    pub(super) fn new(title: &str, about: &str, columns: Vec<&'static str>) -> Self {
        Self { title: title.to_owned(), about: about.to_owned(), columns, rows: Vec::new(), level: 2 }
    }

    /// With a heading of this level.
    #[must_use]
    pub(super) fn at_level(self, level: usize) -> Self {
        Self { level, ..self }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {}\n\n{}\n", "#".repeat(self.level), self.title, self.about)?;
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

pub(super) fn megabytes(kib: u64) -> String {
    format!("{} MB", bytes(kib).div_ceil(1_000_000))
}

pub(super) fn bytes(kib: u64) -> u64 {
    kib.saturating_mul(1024)
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
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new("Title", "About.", vec!["pods", "time"]);
        table.row(vec!["1".to_owned(), "0.500 s".to_owned()]);
        table.row(vec!["20,000".to_owned(), "1.000 s".to_owned()]);
        let expected = "## Title\n\nAbout.\n\n\
                        |   pods |    time |\n\
                        |-------:|--------:|\n\
                        |      1 | 0.500 s |\n\
                        | 20,000 | 1.000 s |\n";
        assert_eq!(table.to_string(), expected);
    }
}
