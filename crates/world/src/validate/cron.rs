//! Jobs that are made again and again, and when.

use jiff::tz::TimeZone;

use super::faults::{Faults, text};
use super::job;
use crate::json::{Value, json};

pub(super) fn spec(faults: &mut Faults, spec: &Value) {
    let (field, schedule) = ("spec.schedule", text(spec, "schedule"));
    if schedule.is_empty() {
        faults.required(field, "");
    } else {
        if let Some(why) = problem(schedule) {
            faults.invalid_text(field, schedule, &why);
        }
        if schedule.contains("TZ") {
            let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            faults.invalid_text(field, schedule, why);
        }
    }
    faults.not_negative("spec.startingDeadlineSeconds", &spec["startingDeadlineSeconds"]);
    if let Some(zone) = spec["timeZone"].as_str() {
        time_zone(faults, zone);
    }
    faults.one_of("spec.concurrencyPolicy", &spec["concurrencyPolicy"], &["Allow", "Forbid", "Replace"]);
    job::template(faults, &spec["jobTemplate"]["spec"], "spec.jobTemplate.spec");
    for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        faults.not_negative(&format!("spec.{field}"), &spec[field]);
    }
}

fn time_zone(faults: &mut Faults, zone: &str) {
    let field = "spec.timeZone";
    if zone.is_empty() {
        return faults.invalid_text(field, zone, "timeZone must be nil or non-empty string");
    }
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+".contains(&byte);
    let is_part = |part: &str| {
        !matches!(part, "" | "." | "..")
            && part.len() <= 14
            && !part.starts_with('-')
            && part.bytes().all(is_known)
    };
    let unknown = format!("unknown time zone {zone}");
    if !zone.split('/').all(is_part) {
        return faults.invalid_text(field, zone, &unknown);
    }
    if zone.eq_ignore_ascii_case("local") {
        let why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        faults.invalid_text(field, zone, why);
    }
    if TimeZone::get(zone).is_err() {
        faults.invalid_text(field, zone, &unknown);
    }
}

/// What a field of a schedule may be: from, to, and names from the first on.
struct Bounds(i64, i64, &'static [&'static str]);

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const FIELDS: [Bounds; 5] =
    [Bounds(0, 59, &[]), Bounds(0, 23, &[]), Bounds(1, 31, &[]), Bounds(1, 12, &MONTHS), Bounds(0, 6, &DAYS)];
const NAMED: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// What cannot be read of a schedule, in the words of the library that reads it in Kubernetes.
fn problem(schedule: &str) -> Option<String> {
    if schedule.starts_with('@') {
        let is_known = NAMED.contains(&schedule) || schedule.starts_with("@every ");
        return (!is_known).then(|| format!("unrecognized descriptor: {schedule}"));
    }
    if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
        return None;
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let (count, told) = (fields.len(), fields.join(" "));
        return Some(format!("expected exactly 5 fields, found {count}: [{told}]"));
    }
    let ranges = fields.into_iter().zip(FIELDS).flat_map(|(field, bounds)| {
        let ranges: Vec<&str> = field.split(',').filter(|range| !range.is_empty()).collect();
        ranges.into_iter().map(move |range| check(range, &bounds).err()).collect::<Vec<_>>()
    });
    ranges.flatten().next()
}

/// `*`, a number or a range of them, and a step.
fn check(range: &str, Bounds(least, most, names): &Bounds) -> Result<(), String> {
    let parts: Vec<&str> = range.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let read = |text: &str| {
        let named = names.iter().position(|name| text.eq_ignore_ascii_case(name));
        let named = named.and_then(|at| i64::try_from(at).ok()).map(|at| at + least);
        named.map_or_else(|| whole(text), Ok)
    };
    let (from, mut to) = match ends[..] {
        ["*" | "?", ..] => (*least, *most),
        [only] => (read(only)?, read(only)?),
        [from, to] => (read(from)?, read(to)?),
        _ => return Err(format!("too many hyphens: {range}")),
    };
    let step = match parts[..] {
        [_] => 1,
        [_, step] => {
            if ends.len() == 1 {
                to = *most;
            }
            whole(step)?
        }
        _ => return Err(format!("too many slashes: {range}")),
    };
    if from < *least {
        return Err(format!("beginning of range ({from}) below minimum ({least}): {range}"));
    }
    if to > *most {
        return Err(format!("end of range ({to}) above maximum ({most}): {range}"));
    }
    if from > to {
        return Err(format!("beginning of range ({from}) beyond end of range ({to}): {range}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {range}"));
    }
    Ok(())
}

fn whole(text: &str) -> Result<i64, String> {
    match text.parse::<i64>() {
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => Ok(number),
        Err(_) => {
            let said = json!(text);
            Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {said}: invalid syntax"))
        }
    }
}
