//! What the terminal can show.

use std::env;
use std::io::{IsTerminal, stdout};

use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table, presets};

/// How to write on the place the output goes to. Colour only ever repeats what the words say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) colour: bool,
    /// `None` where nobody sees lines as wide as a window: a file, a pipe.
    pub(crate) width: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Bad,
    Quiet,
}

impl Style {
    pub(crate) const PLAIN: Self = Self { colour: false, width: None };

    /// For standard output, following <https://no-color.org>.
    pub(crate) fn of_stdout() -> Self {
        if !stdout().is_terminal() {
            return Self::PLAIN;
        }
        let colour_refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { colour: !colour_refused, width: Table::new().width() }
    }

    pub(crate) fn heading(self, text: &str) -> String {
        if self.colour { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    pub(crate) fn toned(self, text: &str, tone: Tone) -> String {
        let code = match tone {
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Quiet => "2",
        };
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// Running text, indented by two and no wider than the window.
    pub(crate) fn paragraph(self, text: &str) -> String {
        let width = self.width.map_or(usize::MAX, usize::from);
        let (mut text_so_far, mut column) = (String::new(), usize::MAX);
        for word in text.split(' ') {
            let after = column.saturating_add(1 + word.chars().count());
            if after > width || text_so_far.is_empty() {
                text_so_far.push_str(if text_so_far.is_empty() { "  " } else { "\n  " });
                column = 2 + word.chars().count();
            } else {
                text_so_far.push(' ');
                column = after;
            }
            text_so_far.push_str(word);
        }
        text_so_far
    }

    /// An empty table without borders, indented by two.
    pub(crate) fn table<const N: usize>(self, header: [&str; N], alignments: [CellAlignment; N]) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        match self.width {
            Some(width) => table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width),
            None => table.set_content_arrangement(ContentArrangement::Disabled),
        };
        if self.colour {
            table.enforce_styling().style_text_only();
        } else {
            table.force_no_tty();
        }
        table.set_header(header.map(|text| Cell::new(text).add_attribute(Attribute::Dim)));
        table.discover_columns();
        for (column, alignment) in table.column_iter_mut().zip(alignments) {
            column.set_cell_alignment(alignment);
            column.set_padding((2, 0));
        }
        table
    }
}

/// Text from manifests and catalogs, safe to write on a terminal: an escape sequence in it would move the
/// cursor or hide what follows.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

pub(crate) fn cell(text: &str) -> Cell {
    Cell::new_owned(printable(text))
}

/// A cell of several lines.
pub(crate) fn lines<'a>(lines: impl IntoIterator<Item = &'a str>) -> Cell {
    Cell::new_owned(lines.into_iter().map(printable).collect::<Vec<_>>().join("\n"))
}

pub(crate) fn toned_cell(text: &str, tone: Tone) -> Cell {
    match tone {
        Tone::Good => cell(text).fg(Color::Green),
        Tone::Bad => cell(text).fg(Color::Red),
        Tone::Quiet => cell(text).add_attribute(Attribute::Dim),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_fit_the_window() {
        for (width, expected) in [
            (None, "  one two three"),
            (Some(15), "  one two three"),
            (Some(14), "  one two\n  three"),
            (Some(3), "  one\n  two\n  three"),
        ] {
            assert_eq!(Style { colour: false, width }.paragraph("one two three"), expected, "{width:?}");
        }
    }
}
