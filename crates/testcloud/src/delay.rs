//! How long something takes: always the same, between two bounds, or log-normal.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::dice;

/// A distribution of durations, written `30s`, `10s..90s` or `lognormal(40s, 0.5)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Delay {
    /// Always this long.
    Fixed(Duration),
    /// Anything between two bounds.
    Uniform(Duration, Duration),
    /// The logarithm is normal: a median, and a standard deviation of the logarithm.
    LogNormal(Duration, f64),
}

/// A text that is no delay.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no delay; write 30s, 10s..90s or lognormal(40s, 0.5)")]
pub struct BadDelay(String);

impl Delay {
    /// No delay.
    pub const NONE: Self = Self::Fixed(Duration::ZERO);

    /// The n-th draw for some purpose.
    pub(crate) fn draw(self, seed: u64, what: &str, n: u64) -> Duration {
        match self {
            Self::Fixed(duration) => duration,
            Self::Uniform(from, to) => from + to.saturating_sub(from).mul_f64(dice::uniform(seed, what, n)),
            Self::LogNormal(median, sigma) => {
                let factor = (sigma * dice::normal(seed, what, n)).exp();
                Duration::try_from_secs_f64(median.as_secs_f64() * factor).unwrap_or(Duration::MAX)
            }
        }
    }
}

/// A duration written `90s`, `1m30s`, `250ms`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let parsed = text.trim().parse::<SignedDuration>().ok().and_then(|d| Duration::try_from(d).ok());
    parsed.ok_or_else(|| format!("{text:?} is no duration; write 90s, 1m30s or 250ms"))
}

fn written(duration: Duration) -> String {
    match SignedDuration::try_from(duration) {
        Ok(duration) => format!("{duration:#}").replace(' ', ""),
        Err(_) => format!("{}s", duration.as_secs()),
    }
}

impl FromStr for Delay {
    type Err = BadDelay;

    fn from_str(text: &str) -> Result<Self, BadDelay> {
        let bad = || BadDelay(text.to_owned());
        if let Some(inside) = text.strip_prefix("lognormal(").and_then(|rest| rest.strip_suffix(')')) {
            let (median, sigma) = inside.split_once(',').ok_or_else(bad)?;
            let sigma: f64 = sigma.trim().parse().map_err(|_| bad())?;
            let sane = (0.0..=5.0).contains(&sigma);
            return parse_duration(median)
                .ok()
                .filter(|_| sane)
                .map(|m| Self::LogNormal(m, sigma))
                .ok_or_else(bad);
        }
        if let Some((from, to)) = text.split_once("..") {
            let bounds = parse_duration(from).ok().zip(parse_duration(to).ok());
            return bounds.filter(|(a, b)| a <= b).map(|(a, b)| Self::Uniform(a, b)).ok_or_else(bad);
        }
        parse_duration(text).map(Self::Fixed).map_err(|_| bad())
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(duration) => f.write_str(&written(*duration)),
            Self::Uniform(from, to) => write!(f, "{}..{}", written(*from), written(*to)),
            Self::LogNormal(median, sigma) => write!(f, "lognormal({}, {sigma})", written(*median)),
        }
    }
}

impl Serialize for Delay {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Delay {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_written_as_they_are_read() {
        for text in ["0s", "30s", "250ms", "10s..1m30s", "lognormal(40s, 0.5)"] {
            assert_eq!(text.parse::<Delay>().unwrap().to_string(), text);
        }
        for text in ["", "30", "-1s", "9s..1s", "lognormal(40s)", "lognormal(40s, -1)", "soon"] {
            assert!(text.parse::<Delay>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn draws_follow_the_distribution_and_repeat() {
        let draws = |text: &str| -> Vec<f64> {
            let delay: Delay = text.parse().unwrap();
            (0..999).map(|n| delay.draw(1, "join", n).as_secs_f64()).collect()
        };
        assert!(draws("10s..20s").iter().all(|d| (10.0..20.0).contains(d)));
        let mut spread = draws("lognormal(40s, 0.5)");
        assert_eq!(spread, draws("lognormal(40s, 0.5)"));
        spread.sort_by(f64::total_cmp);
        assert!((35.0..45.0).contains(&spread[499]), "median {}", spread[499]);
        assert!(spread[998] > 100.0 && spread[0] < 20.0);
    }
}
