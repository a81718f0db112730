//! The log, on standard error.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::filter::LevelFilter;

use crate::args::{LogFormat, LogLevel};

pub(super) fn begin(level: LogLevel, format: LogFormat) {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let log = tracing_subscriber::fmt().with_max_level(level).with_writer(stderr);
    // It can only be begun once in a process, and is.
    let _ = match format {
        LogFormat::Console => log.with_ansi(stderr().is_terminal()).try_init(),
        LogFormat::Json => {
            log.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init()
        }
    };
}
