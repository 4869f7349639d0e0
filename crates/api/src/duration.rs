//! Durations as Go writes them: `90s`, `1h30m0s`, `720h`, and the word `Never`.

use std::{fmt, str::FromStr};

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The word that switches off a [`NillableDuration`].
pub const NEVER: &str = "Never";

/// A signed duration in nanoseconds, read and written in Go's notation.
///
/// COMPAT: reads exactly what Go's `time.ParseDuration` reads and writes what `Duration.String` writes, so that
/// values survive a trip through Karpenter unchanged. `kube`'s own duration goes through floating point and panics
/// on overflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(i64);

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseDurationError {
    /// There is nothing to read.
    #[error("a duration cannot be empty; write 0s for none")]
    Empty,
    /// A number was expected where something else stands.
    #[error("duration {0:?} needs a number before every unit, as in 1h30m")]
    NoNumber(String),
    /// A number has no unit.
    #[error("duration {0:?} needs a unit after every number: one of ns, us, ms, s, m, h")]
    NoUnit(String),
    /// The unit is not one Go knows.
    #[error("duration {text:?} has an unknown unit {unit:?}; use one of ns, us, ms, s, m, h")]
    UnknownUnit {
        /// The whole text.
        text: String,
        /// The unit that is not known.
        unit: String,
    },
    /// The value does not fit 64 bits of nanoseconds.
    #[error("duration {0:?} is longer than about 292 years, which is the most that can be written")]
    OutOfRange(String),
}

const NANOSECOND: u64 = 1;
const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// The magnitude of the smallest negative duration, one more than the largest positive one.
const LIMIT: u64 = 1 << 63;

impl GoDuration {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A duration of this many nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// A duration of this many seconds; too many become the longest duration.
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// The duration in nanoseconds.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// The duration as the time library counts it.
    pub const fn as_signed(self) -> SignedDuration {
        SignedDuration::from_nanos(self.0)
    }
}

impl From<GoDuration> for SignedDuration {
    fn from(value: GoDuration) -> Self {
        value.as_signed()
    }
}

impl FromStr for GoDuration {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let out_of_range = || ParseDurationError::OutOfRange(text.to_owned());
        let (negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(Self::ZERO);
        }
        if rest.is_empty() {
            return Err(ParseDurationError::Empty);
        }

        let mut total = 0u64;
        while !rest.is_empty() {
            let (whole, after) = split_digits(rest);
            let (fraction, after) = match after.strip_prefix('.') {
                Some(after) => split_digits(after),
                None => ("", after),
            };
            if whole.is_empty() && fraction.is_empty() {
                return Err(ParseDurationError::NoNumber(text.to_owned()));
            }
            let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
            let (name, after) = after.split_at(end);
            let unit = match name {
                "" => return Err(ParseDurationError::NoUnit(text.to_owned())),
                "ns" => NANOSECOND,
                // The second is the micro sign, the third the Greek letter.
                "us" | "\u{b5}s" | "\u{3bc}s" => MICROSECOND,
                "ms" => MILLISECOND,
                "s" => SECOND,
                "m" => MINUTE,
                "h" => HOUR,
                _ => {
                    return Err(ParseDurationError::UnknownUnit {
                        text: text.to_owned(),
                        unit: name.to_owned(),
                    });
                }
            };
            let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| out_of_range())? };
            total = whole
                .checked_mul(unit)
                .and_then(|part| part.checked_add(fraction_of(unit, fraction)))
                .and_then(|part| total.checked_add(part))
                .filter(|total| *total <= LIMIT)
                .ok_or_else(out_of_range)?;
            rest = after;
        }

        if negative {
            Ok(Self(0i64.wrapping_sub_unsigned(total)))
        } else {
            i64::try_from(total).map(Self).map_err(|_| out_of_range())
        }
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// The nanoseconds in `0.<digits>` of a unit.
///
/// COMPAT: Go drops the digits an `i64` cannot hold and multiplies in floating point, truncating; the last
/// nanosecond depends on it.
fn fraction_of(unit: u64, digits: &str) -> u64 {
    let (mut value, mut scale) = (0u64, 1f64);
    for digit in digits.bytes() {
        let next = value.checked_mul(10).and_then(|v| v.checked_add(u64::from(digit - b'0')));
        match next {
            Some(next) if next <= LIMIT && value <= (LIMIT - 1) / 10 => value = next,
            _ => break,
        }
        scale *= 10.0;
    }
    (value as f64 * (unit as f64 / scale)) as u64
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match nanos {
            0 => f.write_str("0s"),
            1..MICROSECOND => write!(f, "{nanos}ns"),
            MICROSECOND..MILLISECOND => write!(f, "{}\u{b5}s", Decimal(nanos, MICROSECOND)),
            MILLISECOND..SECOND => write!(f, "{}ms", Decimal(nanos, MILLISECOND)),
            SECOND..MINUTE => write!(f, "{}s", Decimal(nanos, SECOND)),
            MINUTE..HOUR => write!(f, "{}m{}s", nanos / MINUTE, Decimal(nanos % MINUTE, SECOND)),
            _ => {
                let (hours, rest) = (nanos / HOUR, nanos % HOUR);
                write!(f, "{hours}h{}m{}s", rest / MINUTE, Decimal(rest % MINUTE, SECOND))
            }
        }
    }
}

/// A count of nanoseconds in a unit, with as many decimals as it needs.
struct Decimal(u64, u64);

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(nanos, unit) = *self;
        let (whole, rest) = (nanos / unit, nanos % unit);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let width = unit.ilog10() as usize;
        let digits = format!("{rest:0width$}");
        write!(f, "{whole}.{}", digits.trim_end_matches('0'))
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// A duration that may be switched off with the word `Never`.
///
/// It is written back in the words it was read in, as Karpenter does, so that tools which compare what they applied
/// with what they find see no difference. Two values are equal when they mean the same time.
#[derive(Clone, Debug)]
pub struct NillableDuration {
    duration: Option<GoDuration>,
    text: String,
}

impl NillableDuration {
    /// The value that never comes.
    pub fn never() -> Self {
        Self { duration: None, text: NEVER.to_owned() }
    }

    /// A duration with its own wording.
    pub(crate) fn worded(duration: GoDuration, text: &str) -> Self {
        Self { duration: Some(duration), text: text.to_owned() }
    }

    /// How long, or `None` for never.
    pub const fn duration(&self) -> Option<GoDuration> {
        self.duration
    }

    /// Whether it never comes.
    pub const fn is_never(&self) -> bool {
        self.duration.is_none()
    }
}

impl From<GoDuration> for NillableDuration {
    fn from(duration: GoDuration) -> Self {
        Self { duration: Some(duration), text: duration.to_string() }
    }
}

impl FromStr for NillableDuration {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let duration = if text == NEVER { None } else { Some(text.parse()?) };
        Ok(Self { duration, text: text.to_owned() })
    }
}

impl PartialEq for NillableDuration {
    fn eq(&self, other: &Self) -> bool {
        self.duration == other.duration
    }
}

impl Eq for NillableDuration {}

impl fmt::Display for NillableDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for NillableDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for NillableDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, nanos: i64, printed: &str) {
        let duration: GoDuration = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(duration.as_nanos(), nanos, "{text}");
        assert_eq!(duration.to_string(), printed, "{text}");
        assert_eq!(printed.parse(), Ok(duration), "{text} read back from {printed}");
    }

    #[test]
    fn reads_and_prints_as_go_does() {
        check("0", 0, "0s");
        check("0s", 0, "0s");
        check("-0", 0, "0s");
        check("5s", 5_000_000_000, "5s");
        check("+5s", 5_000_000_000, "5s");
        check("90s", 90_000_000_000, "1m30s");
        check("720h", 2_592_000_000_000_000, "720h0m0s");
        check("1h", 3_600_000_000_000, "1h0m0s");
        check("1h15m30.918s", 4_530_918_000_000, "1h15m30.918s");
        check("5s3m", 185_000_000_000, "3m5s");
        check("1.5h", 5_400_000_000_000, "1h30m0s");
        check(".5s", 500_000_000, "500ms");
        check("1.s", 1_000_000_000, "1s");
        check("1ns", 1, "1ns");
        check("1100ns", 1_100, "1.1\u{b5}s");
        check("12us", 12_000, "12\u{b5}s");
        check("12\u{b5}s", 12_000, "12\u{b5}s");
        check("12\u{3bc}s", 12_000, "12\u{b5}s");
        check("2200us", 2_200_000, "2.2ms");
        check("3.3s", 3_300_000_000, "3.3s");
        check("-1h2m", -3_720_000_000_000, "-1h2m0s");
        check("0.100000000000000000000h", 360_000_000_000, "6m0s");
        check("0.9223372036854775807h", 3_320_413_933_267, "55m20.413933267s");
        check("9223372036854775807ns", i64::MAX, "2562047h47m16.854775807s");
        check("-9223372036854775808ns", i64::MIN, "-2562047h47m16.854775808s");
    }

    #[test]
    fn says_what_is_wrong_with_a_duration() {
        let error = |text: &str| text.parse::<GoDuration>().expect_err(text);
        assert_eq!(error(""), ParseDurationError::Empty);
        assert_eq!(error("-"), ParseDurationError::Empty);
        assert_eq!(error("3"), ParseDurationError::NoUnit("3".into()));
        assert_eq!(error("s"), ParseDurationError::NoNumber("s".into()));
        assert_eq!(error(".s"), ParseDurationError::NoNumber(".s".into()));
        assert_eq!(error("--3s"), ParseDurationError::NoNumber("--3s".into()));
        assert_eq!(error("1d"), ParseDurationError::UnknownUnit { text: "1d".into(), unit: "d".into() });
        assert_eq!(
            error("9223372036854775808ns"),
            ParseDurationError::OutOfRange("9223372036854775808ns".into())
        );
        assert_eq!(error("2562048h"), ParseDurationError::OutOfRange("2562048h".into()));
        assert_eq!(
            error("99999999999999999999999h"),
            ParseDurationError::OutOfRange("99999999999999999999999h".into())
        );
    }

    #[test]
    fn never_is_a_duration_without_end_and_text_is_kept() {
        let never: NillableDuration = serde_json::from_str("\"Never\"").unwrap();
        assert!(never.is_never());
        assert_eq!(serde_json::to_string(&never).unwrap(), "\"Never\"");

        let kept: NillableDuration = serde_json::from_str("\"720h\"").unwrap();
        assert_eq!(kept.duration(), Some(GoDuration::from_secs(2_592_000)));
        assert_eq!(serde_json::to_string(&kept).unwrap(), "\"720h\"");
        assert_eq!(kept, NillableDuration::from(GoDuration::from_secs(2_592_000)));
    }
}
