//! How long ago something was, in two or three figures.

use jiff::{SignedDuration, Timestamp};

/// How long ago a moment was that is written as Kubernetes writes times. Nothing is `<unknown>`.
pub(super) fn since(written: &str, now: Timestamp) -> String {
    moment(written).map_or_else(|| "<unknown>".to_owned(), |then| short(now.duration_since(then)))
}

/// `None` for no moment, and for the first second of the first year, which stands for none.
pub(super) fn moment(written: &str) -> Option<Timestamp> {
    if written == "0001-01-01T00:00:00Z" { None } else { written.parse().ok() }
}

/// A duration as kubectl shows it: the larger it is, the rougher.
pub(super) fn short(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match seconds {
        // Clocks differ a little.
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => with_rest(minutes, "m", seconds % 60, "s"),
        _ if minutes < 3 * 60 => format!("{minutes}m"),
        _ if hours < 8 => with_rest(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 8 * 24 => with_rest(days, "d", hours % 24, "h"),
        _ if days < 2 * 365 => format!("{days}d"),
        _ if days < 8 * 365 => with_rest(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

fn with_rest(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit}{small}{small_unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_get_rougher() {
        let (minute, hour, day, year) = (60, 3600, 86_400, 365 * 86_400);
        for (seconds, expected) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (2 * minute, "2m"),
            (2 * minute + 1, "2m1s"),
            (10 * minute - 1, "9m59s"),
            (10 * minute, "10m"),
            (3 * hour - 1, "179m"),
            (3 * hour, "3h"),
            (3 * hour + 59, "3h"),
            (3 * hour + minute, "3h1m"),
            (8 * hour - 1, "7h59m"),
            (8 * hour, "8h"),
            (48 * hour - 1, "47h"),
            (2 * day, "2d"),
            (2 * day + hour, "2d1h"),
            (8 * day - 1, "7d23h"),
            (8 * day, "8d"),
            (2 * year - 1, "729d"),
            (2 * year, "2y"),
            (2 * year + day, "2y1d"),
            (8 * year - 1, "7y364d"),
            (8 * year, "8y"),
            (30 * year, "30y"),
        ] {
            assert_eq!(short(SignedDuration::from_secs(seconds)), expected, "{seconds}");
        }
        assert_eq!(short(SignedDuration::from_millis(-1999)), "0s");
    }

    #[test]
    fn moments_can_be_missing() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        for (written, expected) in [
            ("2026-01-01T00:00:00Z", "60s"),
            ("2026-01-01T00:00:59.5Z", "0s"),
            ("2026-01-01T01:00:00+01:00", "60s"),
            ("2026-01-01T00:00:00.000000Z", "60s"),
            ("0001-01-01T00:00:00Z", "<unknown>"),
            ("", "<unknown>"),
        ] {
            assert_eq!(since(written, now), expected, "{written}");
        }
    }
}
