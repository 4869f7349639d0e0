//! Money per hour, exact.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

const NANOS_PER_DOLLAR: i64 = 1_000_000_000;

/// A price in billionths of a dollar per hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(i64);

/// A text that is not a decimal number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a price")]
pub struct PriceError(String);

impl Price {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// The largest price, which stands for "cannot be bought".
    pub const MAX: Self = Self(i64::MAX);

    /// A price in billionths of a dollar.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// The price in billionths of a dollar.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// The nearest price to a floating point number of dollars; not-a-number becomes zero.
    pub fn from_dollars(dollars: f64) -> Self {
        Self((dollars * NANOS_PER_DOLLAR as f64).round() as i64)
    }

    /// The price in dollars, for display and linear programs.
    pub fn dollars(self) -> f64 {
        self.0 as f64 / NANOS_PER_DOLLAR as f64
    }

    /// The price of several of the same.
    #[must_use]
    pub const fn times(self, count: i64) -> Self {
        Self(self.0.saturating_mul(count))
    }
}

impl FromStr for Price {
    type Err = PriceError;

    /// Reads a decimal number with an optional sign; digits beyond the ninth round half away from zero.
    fn from_str(text: &str) -> Result<Self, PriceError> {
        let error = || PriceError(text.to_owned());
        let (sign, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !digits(whole) || !digits(fraction) {
            return Err(error());
        }
        let (kept, dropped) = fraction.split_at(fraction.len().min(9));
        let round_up = i64::from(dropped.as_bytes().first().is_some_and(|b| *b >= b'5'));
        let nanos: i64 = format!("{whole}{kept:0<9}").parse().map_err(|_| error())?;
        Ok(Self(sign * nanos.saturating_add(round_up)))
    }
}

impl Add for Price {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Price {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Price {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Sum for Price {
    fn sum<I: Iterator<Item = Self>>(prices: I) -> Self {
        prices.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Price {
    /// Dollars with as many decimals as the price has.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (nanos, sign) = (self.0.unsigned_abs(), if self.0 < 0 { "-" } else { "" });
        let scale = NANOS_PER_DOLLAR.unsigned_abs();
        let fraction = format!("{:09}", nanos % scale);
        let fraction = fraction.trim_end_matches('0');
        let point = if fraction.is_empty() { "" } else { "." };
        write!(f, "{sign}{}{point}{fraction}", nanos / scale)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn decimals_are_exact() {
        for (text, nanos) in [
            ("0.0042", 4_200_000),
            ("12", 12_000_000_000),
            (".5", 500_000_000),
            ("+0.1", 100_000_000),
            ("-1.25", -1_250_000_000),
            ("0.1234567895", 123_456_790),
        ] {
            assert_eq!(text.parse::<Price>().unwrap().nanos(), nanos, "{text}");
        }
        for text in ["", "-", ".", "1e3", "$1", "1,5", "1.2.3", "99999999999999999999"] {
            assert!(text.parse::<Price>().is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn text_round_trips(nanos in any::<i32>(), dollars in -1_000_000i64..1_000_000) {
            let price = Price::from_nanos(dollars * 1_000_000_000 + i64::from(nanos));
            prop_assert_eq!(price.to_string().parse::<Price>().unwrap(), price);
            prop_assert_eq!(Price::from_dollars(price.dollars()), price);
        }
    }
}
