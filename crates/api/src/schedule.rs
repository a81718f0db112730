//! Windows of time that open by a cron schedule: when a pool's budget is in force.

use croner::Cron;
use croner::errors::CronError;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::duration::GoDuration;

/// Open from each occurrence of its schedule for its duration, the last instant excluded.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    cron: Cron,
    zone: TimeZone,
    duration: GoDuration,
}

/// What is wrong with a schedule, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ScheduleError {
    #[error(
        "`{0}` has not five fields; write minute, hour, day, month and weekday, for example 0 9 * * mon-fri"
    )]
    Fields(String),
    #[error(
        "`{0}` is not known; write @hourly, @daily, @midnight, @weekly, @monthly, @yearly or @annually, \
         or five fields"
    )]
    Nickname(String),
    #[error(
        "`{0}` is not a schedule: {1}; write minute, hour, day, month and weekday, \
         for example 0 9 * * mon-fri"
    )]
    Cron(String, String),
    #[error("`{0}` is not a time zone; write a name of the IANA database, for example TZ=Europe/Berlin")]
    Zone(String),
    #[error("`{0}` never comes; name a day that the month has")]
    Never(String),
}

const NICKNAMES: [&str; 6] = ["@hourly", "@daily", "@weekly", "@monthly", "@yearly", "@annually"];

impl Window {
    /// `schedule` is cron's five fields or a nickname, in UTC unless it starts with `TZ=` or `CRON_TZ=`.
    pub(crate) fn parse(schedule: &str, duration: GoDuration) -> Result<Self, ScheduleError> {
        let (zone, fields) = split_zone(schedule.trim())?;
        let fields = match fields {
            "@midnight" => "@daily",
            nickname if nickname.starts_with('@') => *NICKNAMES
                .iter()
                .find(|known| **known == nickname)
                .ok_or_else(|| ScheduleError::Nickname(nickname.to_owned()))?,
            fields if fields.split_whitespace().count() == 5 => fields,
            fields => return Err(ScheduleError::Fields(fields.to_owned())),
        };
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let cron =
            parser.parse(fields).map_err(|error| ScheduleError::Cron(fields.to_owned(), plain(&error)))?;
        if !ever_comes(fields) {
            return Err(ScheduleError::Never(fields.to_owned()));
        }
        Ok(Self { cron, zone, duration })
    }

    /// Whether it has opened at or before `now`, and not closed yet.
    pub(crate) fn is_open(&self, now: Timestamp) -> bool {
        // Where it cannot be told it counts as open: a budget in force can only forbid.
        let Ok(earliest) = now.checked_sub(self.duration.as_std()) else { return true };
        self.next_after(earliest).is_none_or(|opening| opening <= now)
    }

    fn next_after(&self, instant: Timestamp) -> Option<Timestamp> {
        let start = instant.to_zoned(self.zone.clone());
        self.cron.find_next_occurrence(&start, false).ok().map(|opening| opening.timestamp())
    }
}

/// Whether the schedule comes in forty years: even a certain weekday on a 29th of February comes after 28, and
/// looking for the 31st of one until the end of time takes its time.
fn ever_comes(fields: &str) -> bool {
    let within = CronParser::builder().build().parse(&format!("0 {fields} 1970-2009"));
    let start = Timestamp::UNIX_EPOCH.to_zoned(TimeZone::UTC);
    // Nicknames have no fields to add a year to, and always come.
    within.is_err() || within.is_ok_and(|cron| cron.find_next_occurrence(&start, true).is_ok())
}

/// The time zone before a schedule's fields, and the fields.
fn split_zone(schedule: &str) -> Result<(TimeZone, &str), ScheduleError> {
    let Some(rest) = schedule.strip_prefix("CRON_TZ=").or_else(|| schedule.strip_prefix("TZ=")) else {
        return Ok((TimeZone::UTC, schedule));
    };
    let (name, fields) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    // Berth's own copy of the database: the answer must not depend on the machine.
    let zone = TimeZoneDatabase::bundled().get(name).ok().filter(|zone| !zone.is_unknown());
    let zone = zone.ok_or_else(|| ScheduleError::Zone(name.to_owned()))?;
    Ok((zone, fields.trim_start()))
}

fn plain(error: &CronError) -> String {
    match error {
        CronError::InvalidPattern(message)
        | CronError::IllegalCharacters(message)
        | CronError::ComponentError(message) => message.trim_end_matches('.').to_owned(),
        other => other.to_string().trim_end_matches('.').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(schedule: &str, duration: &str) -> Result<Window, ScheduleError> {
        Window::parse(schedule, duration.parse().unwrap())
    }

    #[test]
    fn windows_open_at_their_edge_and_close_before_the_other() {
        // 2026-01-05 is a Monday. Berlin's clocks skip 02:00 to 03:00 on 2026-03-29 and repeat it on
        // 2026-10-25; New York's do so on 2026-03-08 and 2026-11-01.
        let (berlin, new_york) = ("TZ=Europe/Berlin 30 2 * * *", "CRON_TZ=America/New_York 0 9 * * mon-fri");
        for (schedule, duration, now, open) in [
            ("0 9 * * 1-5", "8h", "2026-01-05T08:59:59Z", false),
            ("0 9 * * 1-5", "8h", "2026-01-05T09:00:00Z", true),
            ("0 9 * * 1-5", "8h", "2026-01-05T16:59:59.999Z", true),
            ("0 9 * * 1-5", "8h", "2026-01-05T17:00:00Z", false),
            ("0 9 * * MON-FRI", "8h", "2026-01-03T12:00:00Z", false),
            // Across midnight and into a day on which it does not open.
            ("0 22 * * fri", "10h", "2026-01-10T07:59:59Z", true),
            ("0 22 * * fri", "10h", "2026-01-10T08:00:00Z", false),
            // Windows that overlap are one.
            ("0 * * * *", "90m", "2026-01-05T12:45:00Z", true),
            ("*/10 * * * *", "5m", "2026-01-05T12:14:59Z", true),
            ("*/10 * * * *", "5m", "2026-01-05T12:15:00Z", false),
            ("@hourly", "0s", "2026-01-05T12:00:00Z", false),
            ("@hourly", "59m", "2026-01-05T12:59:00Z", false),
            ("@daily", "1h", "2026-01-05T00:30:00Z", true),
            ("@midnight", "1h", "2026-01-05T00:30:00Z", true),
            ("@weekly", "1h", "2026-01-04T00:30:00Z", true),
            ("@monthly", "1h", "2026-01-05T00:30:00Z", false),
            ("@yearly", "1h", "2026-01-01T00:30:00Z", true),
            ("@annually", "1h", "2026-01-01T00:30:00Z", true),
            // Either of a day of the month and a day of the week, as cron has it.
            ("0 0 13 * fri", "1h", "2026-01-09T00:00:00Z", true),
            ("0 0 13 * fri", "1h", "2026-01-13T00:00:00Z", true),
            ("0 0 13 * fri", "1h", "2026-01-14T00:00:00Z", false),
            ("0 0 29 2 *", "24h", "2028-02-29T12:00:00Z", true),
            ("0 0 29 2 *", "24h", "2026-02-28T12:00:00Z", false),
            // A time zone: an hour ahead in winter, two in summer.
            ("TZ=Europe/Berlin 0 9 * * *", "1h", "2026-01-05T07:59:59Z", false),
            ("TZ=Europe/Berlin 0 9 * * *", "1h", "2026-01-05T08:00:00Z", true),
            ("TZ=Europe/Berlin 0 9 * * *", "1h", "2026-07-05T07:00:00Z", true),
            ("TZ=Europe/Berlin 0 9 * * *", "1h", "2026-07-05T08:00:00Z", false),
            ("CRON_TZ=Asia/Kolkata   @daily", "1h", "2026-01-04T18:30:00Z", true),
            ("TZ=UTC 0 9 * * *", "1h", "2026-01-05T09:00:00Z", true),
            (new_york, "8h", "2026-03-06T13:59:59Z", false),
            (new_york, "8h", "2026-03-06T14:00:00Z", true),
            (new_york, "8h", "2026-03-09T13:00:00Z", true),
            // 02:30 does not exist on this day: the window opens when the clocks have gone forward.
            (berlin, "1h", "2026-03-29T00:59:59Z", false),
            (berlin, "1h", "2026-03-29T01:00:00Z", true),
            (berlin, "1h", "2026-03-29T02:00:00Z", false),
            // 02:30 comes twice on this day: the window opens the first time.
            (berlin, "1h", "2026-10-25T00:30:00Z", true),
            (berlin, "1h", "2026-10-25T01:29:59Z", true),
            (berlin, "1h", "2026-10-25T01:30:00Z", false),
            // A duration is time that passes, whatever the clocks show.
            ("TZ=Europe/Berlin 0 0 * * *", "12h", "2026-03-29T10:59:59Z", true),
            ("TZ=Europe/Berlin 0 0 * * *", "12h", "2026-03-29T11:00:00Z", false),
        ] {
            let window = window(schedule, duration).unwrap_or_else(|error| panic!("{schedule}: {error}"));
            assert_eq!(window.is_open(now.parse().unwrap()), open, "{schedule} for {duration} at {now}");
        }
    }

    #[test]
    fn what_is_no_schedule_is_refused_with_what_would_be_right() {
        for (schedule, refusal) in [
            ("", "`` has not five fields; write minute, hour, day, month and weekday"),
            ("0 9 * *", "has not five fields"),
            ("0 0 9 * * 1-5", "has not five fields"),
            ("0 0 9 * * 1-5 2026", "has not five fields"),
            ("61 9 * * *", "`61 9 * * *` is not a schedule: "),
            ("0 25 * * *", "is not a schedule: "),
            ("0 9 * * someday", "is not a schedule: "),
            ("0 9 */0 * *", "is not a schedule: "),
            ("@every 1h", "`@every 1h` is not known; write @hourly,"),
            ("@reboot", "`@reboot` is not known"),
            ("0 0 31 2 *", "`0 0 31 2 *` never comes"),
            ("TZ=Europe/Berlin", "has not five fields"),
            ("TZ=Europe/Atlantis 0 9 * * *", "`Europe/Atlantis` is not a time zone"),
            ("TZ= 0 9 * * *", "`` is not a time zone"),
            ("TZ=Local 0 9 * * *", "`Local` is not a time zone"),
            ("TZ=Etc/Unknown 0 9 * * *", "`Etc/Unknown` is not a time zone"),
            ("TZ=UTC TZ=UTC 0 9 * * *", "has not five fields"),
        ] {
            let error = window(schedule, "1h").expect_err(schedule).to_string();
            assert!(error.contains(refusal), "{schedule}: {error}");
        }
    }
}
