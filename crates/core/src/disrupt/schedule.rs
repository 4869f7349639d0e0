//! When a budget's window opens: five cron fields in UTC.
//!
//! COMPAT: the same lines are read as by the parser that Karpenter uses: names of months and days, lists, ranges, steps (`5/15`
//! goes on to the end), `?` for `*`; Sunday is 0, not 7. If both days are restricted, either may match.

use std::str::FromStr;

/// A schedule in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
}

/// A line that is no schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a schedule of five cron fields or one of @yearly, @monthly, @weekly, @daily and @hourly"
)]
pub struct ScheduleError(String);

/// The values that a field allows, a bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    bits: u64,
    /// Whether it was left open.
    any: bool,
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const DAY: i64 = 86_400;
/// How far ahead to look: a leap day on a given weekday comes once in 28 years, or in 40 around 2100.
const MOST_DAYS: i64 = 41 * 366;

impl FromStr for Schedule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        let line = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        let error = || ScheduleError(text.to_owned());
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else { return Err(error()) };
        let read = |text, least, most, names: &[&str], first| {
            Field::read(text, least, most, names, first).ok_or_else(error)
        };
        Ok(Self {
            minutes: read(minutes, 0, 59, &[], 0)?,
            hours: read(hours, 0, 23, &[], 0)?,
            days: read(days, 1, 31, &[], 0)?,
            months: read(months, 1, 12, &MONTHS, 1)?,
            weekdays: read(weekdays, 0, 6, &WEEKDAYS, 0)?,
        })
    }
}

impl Field {
    fn read(text: &str, least: u32, most: u32, names: &[&str], first_name: u32) -> Option<Self> {
        let value = |text: &str| {
            let lower = text.to_ascii_lowercase();
            let known = names.iter().position(|name| *name == lower).map(|at| at as u32 + first_name);
            known.or_else(|| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten())
        };
        let mut field = Self { bits: 0, any: false };
        for part in text.split(',') {
            let (range, step) = match part.split_once('/') {
                Some((range, step)) => (range, Some(value(step).filter(|step| *step > 0)?)),
                None => (part, None),
            };
            let (from, to) = if ["*", "?"].contains(&range) {
                field.any |= step.is_none_or(|step| step == 1);
                (least, most)
            } else if let Some((from, to)) = range.split_once('-') {
                (value(from)?, value(to)?)
            } else {
                let from = value(range)?;
                (from, if step.is_some() { most } else { from })
            };
            if from < least || to > most || from > to {
                return None;
            }
            for value in (from..=to).step_by(step.unwrap_or(1) as usize) {
                field.bits |= 1 << value;
            }
        }
        Some(field)
    }

    const fn has(self, value: u32) -> bool {
        self.bits & (1 << value) != 0
    }

    /// The least value that is not below this one.
    const fn from(self, value: u32) -> Option<u32> {
        let rest = if value > 63 { 0 } else { self.bits >> value };
        if rest == 0 { None } else { Some(value + rest.trailing_zeros()) }
    }
}

impl Schedule {
    /// The first time after this one, both in seconds since 1970.
    pub fn next(&self, after: i64) -> Option<i64> {
        let start = after.div_euclid(60) * 60 + 60;
        let (first, of_day) = (start.div_euclid(DAY), start.rem_euclid(DAY));
        for day in first..first + MOST_DAYS {
            if !self.is_day(day) {
                continue;
            }
            let (mut hour, mut minute) =
                if day == first { ((of_day / 3600) as u32, (of_day / 60 % 60) as u32) } else { (0, 0) };
            while let Some(found) = self.hours.from(hour).filter(|hour| *hour < 24) {
                if found > hour {
                    minute = 0;
                }
                if let Some(minute) = self.minutes.from(minute) {
                    return Some(day * DAY + i64::from(found) * 3600 + i64::from(minute) * 60);
                }
                (hour, minute) = (found + 1, 0);
            }
        }
        None
    }

    /// Whether a window that opens at each time of the schedule and stays open so long is open now, all in seconds.
    pub fn is_open(&self, now: i64, duration: i64) -> bool {
        self.next(now.saturating_sub(duration)).is_some_and(|opened| opened <= now)
    }

    /// Whether the schedule has a time on this day since 1970.
    fn is_day(&self, day: i64) -> bool {
        let (month, day_of_month) = month_and_day(day);
        // The first day of 1970 was a Thursday.
        let weekday = (day + 4).rem_euclid(7) as u32;
        let (of_month, of_week) = (self.days.has(day_of_month), self.weekdays.has(weekday));
        let day_suits =
            if self.days.any || self.weekdays.any { of_month && of_week } else { of_month || of_week };
        self.months.has(month) && day_suits
    }
}

/// Month and day of the month of a day since 1970, in the Gregorian calendar.
fn month_and_day(day: i64) -> (u32, u32) {
    // Counted from 1 March of year 0, so that leap days come last; eras of 400 years have equally many days.
    let from_march = day + 719_468;
    let of_era = from_march.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    ((if month < 10 { month + 3 } else { month - 9 }) as u32, day as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds since 1970 of a time such as `2026-11-16 12:30`.
    fn at(text: &str) -> i64 {
        let number = |range: std::ops::Range<usize>| text[range].parse::<i64>().unwrap();
        let (year, month, day) = (number(0..4), number(5..7), number(8..10));
        let days: i64 = (1970..year).map(|year| 365 + i64::from(is_leap(year))).sum();
        let lengths = [31, 28 + i64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let before: i64 = lengths[..month as usize - 1].iter().sum();
        (days + before + day - 1) * DAY + number(11..13) * 3600 + number(14..16) * 60
    }

    fn is_leap(year: i64) -> bool {
        year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
    }

    #[test]
    fn the_next_time_follows_the_fields() {
        for (line, after, expected) in [
            ("* * * * *", "2026-11-16 12:30", "2026-11-16 12:31"),
            ("0 9 * * *", "2026-11-16 08:59", "2026-11-16 09:00"),
            ("0 9 * * *", "2026-11-16 09:00", "2026-11-17 09:00"),
            ("5/15 * * * *", "2026-11-16 12:36", "2026-11-16 12:50"),
            ("*/20 1-3 * * *", "2026-11-16 03:40", "2026-11-17 01:00"),
            ("0 0 31 * *", "2026-11-16 00:00", "2026-12-31 00:00"),
            ("0 0 29 feb ?", "2026-11-16 00:00", "2028-02-29 00:00"),
            ("0 22 * * mon-fri", "2026-11-20 23:00", "2026-11-23 22:00"),
            ("0 0 1,15 * 0", "2026-11-16 00:00", "2026-11-22 00:00"),
            ("@weekly", "2026-11-16 00:00", "2026-11-22 00:00"),
            ("@yearly", "2026-11-16 00:00", "2027-01-01 00:00"),
            ("@hourly", "2026-12-31 23:00", "2027-01-01 00:00"),
            ("0 0 29 2 1", "2096-03-01 00:00", "2097-02-04 00:00"),
        ] {
            let next = line.parse::<Schedule>().unwrap().next(at(after));
            assert_eq!(next, Some(at(expected)), "{line} after {after}");
        }
        assert_eq!("0 0 31 2 *".parse::<Schedule>().unwrap().next(0), None);
    }

    #[test]
    fn a_window_is_open_for_its_duration() {
        let nightly: Schedule = "0 22 * * *".parse().unwrap();
        let open = |now: &str| nightly.is_open(at(now), 8 * 3600);
        assert!(!open("2026-11-16 21:59") && open("2026-11-16 22:00") && open("2026-11-17 05:59"));
        assert!(!open("2026-11-17 06:00"));
    }

    #[test]
    fn nonsense_is_refused() {
        for line in [
            "",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 7",
            "5-3 * * * *",
            "*/0 * * * *",
            "a * * * *",
            "@every 1h",
            "TZ=UTC 0 0 * * *",
            "1--2 * * * *",
            "-1 * * * *",
        ] {
            assert!(line.parse::<Schedule>().is_err(), "{line:?}");
        }
    }

    #[test]
    fn days_have_their_dates() {
        for (text, expected) in
            [("1970-01-01 00:00", (1, 1)), ("2000-02-29 00:00", (2, 29)), ("2026-11-16 00:00", (11, 16))]
        {
            assert_eq!(month_and_day(at(text).div_euclid(DAY)), expected);
        }
    }
}
