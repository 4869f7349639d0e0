//! Cron lines as Kubernetes reads them, and when they come next.
//!
//! COMPAT: the grammar is that of `ParseStandard` in robfig/cron v3, which CronJobs and budgets use: five fields, names of
//! months and days, `?` for `*`, `5/15` for `5-59/15`, and the usual `@daily` and its like. `@every` and zones within the
//! line are refused, as the API server refuses the latter. A time that a clock skips does not come; one that it shows twice
//! comes twice.

use jiff::civil::{Date, Time};
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{Span, Timestamp};

/// How many days ahead the next time is looked for; longer than from one 29 February to the next, with a century between.
const HORIZON_DAYS: usize = 366 * 9;

/// A cron line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether a day must be right both in the month and in the week, because one of the two is any.
    both: bool,
}

/// Why a text is no cron line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    /// The number of fields is wrong.
    #[error("has {0} fields and needs 5: minute, hour, day of month, month, day of week")]
    Fields(usize),
    /// A field is not understood.
    #[error("{0:?} is no {1}")]
    Field(String, &'static str),
    /// It is understood by others, but not here.
    #[error("{0:?} is not supported")]
    Unsupported(String),
}

struct Field {
    name: &'static str,
    least: u32,
    most: u32,
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const FIELDS: [Field; 5] = [
    Field { name: "minute", least: 0, most: 59, names: &[] },
    Field { name: "hour", least: 0, most: 23, names: &[] },
    Field { name: "day of the month", least: 1, most: 31, names: &[] },
    Field { name: "month", least: 1, most: 12, names: &MONTHS },
    Field { name: "day of the week", least: 0, most: 6, names: &WEEKDAYS },
];

impl Cron {
    /// Reads a cron line.
    pub fn parse(text: &str) -> Result<Self, CronError> {
        let text = text.trim();
        let text = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other if other.starts_with('@') || other.contains('=') => {
                return Err(CronError::Unsupported(other.to_owned()));
            }
            other => other,
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.len() != FIELDS.len() {
            return Err(CronError::Fields(words.len()));
        }
        let mut bits = [0; FIELDS.len()];
        let mut any = [false; FIELDS.len()];
        for (i, (word, field)) in words.iter().zip(&FIELDS).enumerate() {
            (bits[i], any[i]) = field.parse(word)?;
        }
        let [minutes, hours, days, months, weekdays] = bits;
        Ok(Self { minutes, hours, days, months, weekdays, both: any[2] || any[4] })
    }

    /// The first time after an instant, both in milliseconds since 1970; none if there is none in years.
    pub fn next(&self, after: i64, zone: &Zone) -> Option<i64> {
        let start = Timestamp::from_millisecond(after).ok()?;
        let from = zone.0.to_datetime(start);
        let first = from.date().yesterday().ok()?;
        let mut date = first;
        for _ in 0..HORIZON_DAYS {
            if self.has_day(date) {
                let found = (0..24u32)
                    .filter(|hour| self.hours >> hour & 1 == 1)
                    // A clock is set back by less than three hours, so that earlier ones cannot come again.
                    .filter(|hour| {
                        let span = Span::new().hours(i64::from(*hour) + 4);
                        date.to_datetime(Time::midnight()).checked_add(span).is_ok_and(|end| end >= from)
                    })
                    .find_map(|hour| self.in_hour(date, hour, after, zone));
                if found.is_some() {
                    return found;
                }
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    /// Whether a window that opens at each of the line's times in UTC and stays open so long is open now, all in seconds.
    pub fn is_open(&self, now: i64, duration: i64) -> bool {
        let opened = self.next(now.saturating_sub(duration).saturating_mul(1_000), &Zone::UTC);
        opened.is_some_and(|opened| opened <= now.saturating_mul(1_000))
    }

    fn has_day(&self, date: Date) -> bool {
        let day = self.days >> date.day() & 1 == 1;
        let weekday = self.weekdays >> date.weekday().to_sunday_zero_offset() & 1 == 1;
        let right = if self.both { day && weekday } else { day || weekday };
        right && self.months >> date.month() & 1 == 1
    }

    /// The first time of an hour that comes after an instant.
    fn in_hour(&self, date: Date, hour: u32, after: i64, zone: &Zone) -> Option<i64> {
        let minutes = (0..60u32).filter(|minute| self.minutes >> minute & 1 == 1);
        let times = minutes.flat_map(|minute| {
            let at = date.at(hour as i8, minute as i8, 0, 0);
            let offsets = match zone.0.to_ambiguous_timestamp(at).offset() {
                AmbiguousOffset::Unambiguous { offset } => [Some(offset), None],
                AmbiguousOffset::Gap { .. } => [None, None],
                AmbiguousOffset::Fold { before, after } => [Some(before), Some(after)],
            };
            offsets.into_iter().flatten().filter_map(move |offset| offset.to_timestamp(at).ok())
        });
        times.map(Timestamp::as_millisecond).filter(|time| *time > after).min()
    }
}

impl Field {
    /// The values of a field as bits, and whether it takes any.
    fn parse(&self, word: &str) -> Result<(u64, bool), CronError> {
        let wrong = || CronError::Field(word.to_owned(), self.name);
        let (mut bits, mut any) = (0, false);
        for part in word.split(',') {
            let (range, step) = match part.split_once('/') {
                None => (part, None),
                Some((range, step)) => (range, Some(step.parse::<u32>().map_err(|_| wrong())?)),
            };
            let is_any = range == "*" || range == "?";
            let (from, to) = match range.split_once('-') {
                _ if is_any => (self.least, self.most),
                Some((from, to)) => (self.value(from).ok_or_else(wrong)?, self.value(to).ok_or_else(wrong)?),
                None => {
                    let from = self.value(range).ok_or_else(wrong)?;
                    (from, if step.is_some() { self.most } else { from })
                }
            };
            if from < self.least || to > self.most || from > to || step == Some(0) {
                return Err(wrong());
            }
            let step = step.unwrap_or(1);
            any |= is_any && step == 1;
            bits |= (from..=to).step_by(step as usize).fold(0, |bits, value| bits | 1 << value);
        }
        Ok((bits, any))
    }

    fn value(&self, text: &str) -> Option<u32> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        match named {
            Some(at) => Some(at as u32 + self.least),
            None => text.parse().ok(),
        }
    }
}

/// A time zone, by a database that is part of the program: the same on every machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Zone {
    /// Universal time.
    pub const UTC: Self = Self(TimeZone::UTC);

    /// A zone by its IANA name; none if there is no such zone.
    pub fn named(name: &str) -> Option<Self> {
        if name == "UTC" || name == "Etc/UTC" {
            return Some(Self::UTC);
        }
        TimeZoneDatabase::bundled().get(name).ok().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_millisecond()
    }

    /// The next times of a line after an instant.
    #[track_caller]
    fn check(line: &str, zone: &str, after: &str, expected: &[&str]) {
        let (cron, zone) = (Cron::parse(line).unwrap(), Zone::named(zone).unwrap());
        let mut at = millis(after);
        for expected in expected {
            at = cron.next(at, &zone).unwrap();
            assert_eq!(Timestamp::from_millisecond(at).unwrap(), expected.parse().unwrap(), "{line}");
        }
    }

    #[test]
    fn ordinary_lines() {
        check(
            "*/15 * * * *",
            "UTC",
            "2026-03-01T10:07:30Z",
            &["2026-03-01T10:15:00Z", "2026-03-01T10:30:00Z"],
        );
        check("5/20 9-10 * * MON-fri", "UTC", "2026-03-06T10:45:00Z", &["2026-03-09T09:05:00Z"]);
        check("0 0 29 2 ?", "UTC", "2026-01-01T00:00:00Z", &["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]);
        check("@daily", "UTC", "2026-12-31T00:00:00Z", &["2027-01-01T00:00:00Z"]);
        check("30 6 * * *", "Asia/Kolkata", "2026-03-01T00:00:00Z", &["2026-03-01T01:00:00Z"]);
    }

    #[test]
    fn days_of_month_and_week_are_alternatives_unless_one_is_any() {
        check(
            "0 12 13 * 5",
            "UTC",
            "2026-03-01T00:00:00Z",
            &["2026-03-06T12:00:00Z", "2026-03-13T12:00:00Z", "2026-03-20T12:00:00Z"],
        );
        check(
            "0 12 13 * *",
            "UTC",
            "2026-03-01T00:00:00Z",
            &["2026-03-13T12:00:00Z", "2026-04-13T12:00:00Z"],
        );
    }

    #[test]
    fn a_window_is_open_for_its_duration() {
        let nightly = Cron::parse("0 22 * * *").unwrap();
        let open = |now: &str| nightly.is_open(millis(now) / 1_000, 8 * 3600);
        assert!(
            !open("2026-11-16T21:59:00Z") && open("2026-11-16T22:00:00Z") && open("2026-11-17T05:59:59Z")
        );
        assert!(!open("2026-11-17T06:00:00Z"));
    }

    #[test]
    fn clocks_that_jump() {
        // 02:30 does not come on the night to summer time, and comes twice on the night from it.
        check(
            "30 2 * * *",
            "Europe/Berlin",
            "2026-03-28T12:00:00Z",
            &["2026-03-30T00:30:00Z", "2026-03-31T00:30:00Z"],
        );
        check(
            "30 2 * * *",
            "Europe/Berlin",
            "2026-10-24T12:00:00Z",
            &["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"],
        );
    }

    #[test]
    fn what_is_no_line() {
        for bad in [
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 7",
            "5-1 * * * *",
            "*/0 * * * *",
            "a * * * *",
            "@every 1h",
            "TZ=UTC * * * * *",
        ] {
            assert!(Cron::parse(bad).is_err(), "{bad}");
        }
        assert!(Zone::named("Mars/Olympus").is_none());
        let never = Cron::parse("0 0 31 2 *").unwrap();
        assert_eq!(never.next(0, &Zone::UTC), None);
    }
}
