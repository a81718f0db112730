//! Writing to standard output, where the reader may leave at any time.

use std::fmt::Display;
use std::io::{self, BufWriter, Write};

use serde::Serialize;

use crate::commands::Failure;

pub(crate) fn text(text: &str) -> Result<(), Failure> {
    to_stdout(|out| out.write_all(text.as_bytes()))
}

pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    to_stdout(|out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        writeln!(out)
    })
}

pub(crate) fn yaml(value: &impl Serialize) -> Result<(), Failure> {
    let text =
        serde_saphyr::to_string(value).map_err(|e| Failure::Output(io::Error::other(e.to_string())))?;
    self::text(&text)
}

/// One line on standard error. Nobody can be told if that fails.
pub(crate) fn problem(problem: &dyn Display) {
    let _ = writeln!(io::stderr().lock(), "{problem}");
}

fn to_stdout(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    write(&mut out).and_then(|()| out.flush()).map_err(Failure::Output)
}
