//! Exact Kubernetes quantities.
//!
//! The value is an integer number of nano-units, so sums and comparisons never round. The notation a quantity was
//! written in is remembered for display only: two quantities are equal when their values are.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const NANOS_PER_UNIT: i128 = 1_000_000_000;
const NANOS_PER_MILLI: i128 = 1_000_000;
/// Fraction digits kept exactly; what lies beyond rounds away from zero.
const FRACTION_DIGITS: usize = 18;

/// An exact amount of some resource.
///
/// Arithmetic saturates at about 1.7 × 10²⁹ units, far beyond any resource that can exist.
#[derive(Clone, Copy, Default)]
pub struct Quantity {
    nanos: i128,
    notation: Notation,
}

/// How a quantity prefers to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notation {
    /// `1500m`, `12M`.
    #[default]
    Decimal,
    /// `512Mi`.
    Binary,
    /// `12e6`.
    Exponent,
}

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text has no number, or characters that belong to no quantity.
    #[error("{0:?} is not a quantity")]
    Malformed(String),
    /// The number is followed by a suffix Kubernetes does not know.
    #[error("{text:?} has the unknown quantity suffix {suffix:?}")]
    UnknownSuffix {
        /// The whole text.
        text: String,
        /// The part that was not understood.
        suffix: String,
    },
}

impl Quantity {
    /// The quantity zero.
    pub const ZERO: Self = Self { nanos: 0, notation: Notation::Decimal };
    /// The largest quantity.
    pub const MAX: Self = Self { nanos: i128::MAX, notation: Notation::Decimal };

    /// A whole number of units.
    pub const fn from_units(units: i64) -> Self {
        Self { nanos: units as i128 * NANOS_PER_UNIT, notation: Notation::Decimal }
    }

    /// A whole number of thousandths.
    pub const fn from_millis(millis: i64) -> Self {
        Self { nanos: millis as i128 * NANOS_PER_MILLI, notation: Notation::Decimal }
    }

    /// A number of bytes, written with binary suffixes.
    pub const fn from_bytes(bytes: i64) -> Self {
        Self { nanos: bytes as i128 * NANOS_PER_UNIT, notation: Notation::Binary }
    }

    /// A number of nano-units.
    pub const fn from_nanos(nanos: i128, notation: Notation) -> Self {
        Self { nanos, notation }
    }

    /// The exact value in nano-units.
    pub const fn nanos(self) -> i128 {
        self.nanos
    }

    /// The notation used for display.
    pub const fn notation(self) -> Notation {
        self.notation
    }

    /// The value in units, rounded away from zero as Kubernetes does, and saturated.
    pub fn units(self) -> i64 {
        saturate(div_away(self.nanos, NANOS_PER_UNIT))
    }

    /// The value in thousandths, rounded away from zero as Kubernetes does, and saturated.
    pub fn millis(self) -> i64 {
        saturate(div_away(self.nanos, NANOS_PER_MILLI))
    }

    /// The nearest floating point number, for ratios and linear programs only.
    pub fn as_f64(self) -> f64 {
        self.nanos as f64 / NANOS_PER_UNIT as f64
    }

    /// Whether the value is zero.
    pub const fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether the value is below zero.
    pub const fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// The sum, or `None` when it is out of range.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.nanos.checked_add(other.nanos).map(|nanos| self.with(other, nanos))
    }

    /// The difference, or `None` when it is out of range.
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.nanos.checked_sub(other.nanos).map(|nanos| self.with(other, nanos))
    }

    /// The product with a count, saturating.
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        Self { nanos: self.nanos.saturating_mul(i128::from(count)), notation: self.notation }
    }

    /// The value with negative amounts replaced by zero.
    #[must_use]
    pub fn at_least_zero(self) -> Self {
        if self.is_negative() { Self { nanos: 0, ..self } } else { self }
    }

    /// A zero adopts the notation of what is added to it, as in Kubernetes.
    fn with(self, other: Self, nanos: i128) -> Self {
        let notation = if self.nanos == 0 { other.notation } else { self.notation };
        Self { nanos, notation }
    }
}

fn div_away(value: i128, by: i128) -> i128 {
    let quotient = value / by;
    if value % by == 0 { quotient } else { quotient + value.signum() }
}

fn saturate(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

impl Add for Quantity {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        self.with(other, self.nanos.saturating_add(other.nanos))
    }
}

impl Sub for Quantity {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.with(other, self.nanos.saturating_sub(other.nanos))
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Quantity {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Neg for Quantity {
    type Output = Self;
    fn neg(self) -> Self {
        Self { nanos: self.nanos.saturating_neg(), notation: self.notation }
    }
}

impl Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let malformed = || QuantityError::Malformed(text.to_owned());
        if text.is_empty() {
            return Err(malformed());
        }
        let (negative, unsigned) = match text.as_bytes()[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, rest) = split_digits(unsigned);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), split_digits);
        if !suffix.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'-') {
            return Err(malformed());
        }
        let scale = Scale::from_suffix(suffix).ok_or_else(|| QuantityError::UnknownSuffix {
            text: text.to_owned(),
            suffix: suffix.to_owned(),
        })?;
        let (magnitude, notation) = scale.apply(whole, fraction);
        Ok(Self { nanos: if negative { -magnitude } else { magnitude }, notation })
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// What a suffix multiplies by.
#[derive(Clone, Copy)]
enum Scale {
    Ten { exponent: i64, notation: Notation },
    Two { exponent: u32 },
}

const DECIMAL_SUFFIXES: [(&str, i64); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY_SUFFIXES: [(&str, u32); 6] =
    [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

impl Scale {
    fn from_suffix(suffix: &str) -> Option<Self> {
        if let Some(&(_, exponent)) = DECIMAL_SUFFIXES.iter().find(|(name, _)| *name == suffix) {
            return Some(Self::Ten { exponent, notation: Notation::Decimal });
        }
        if let Some(&(_, exponent)) = BINARY_SUFFIXES.iter().find(|(name, _)| *name == suffix) {
            return Some(Self::Two { exponent });
        }
        let exponent = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
        Some(Self::Ten { exponent, notation: Notation::Exponent })
    }

    /// Nano-units of the number `whole.fraction` under this scale.
    fn apply(self, whole: &str, fraction: &str) -> (i128, Notation) {
        let (kept, dropped) = fraction.split_at(fraction.len().min(FRACTION_DIGITS));
        let sticky = i128::from(dropped.bytes().any(|b| b != b'0'));
        match self {
            Self::Ten { exponent, notation } => {
                let places = i64::try_from(kept.len()).unwrap_or(i64::MAX);
                let shift = exponent.saturating_add(9).saturating_sub(places);
                let value = digits(whole, kept).map_or(i128::MAX, |mantissa| shift_ten(mantissa, shift));
                (value.saturating_add(sticky), notation)
            }
            Self::Two { exponent } => {
                let whole = digits(whole, "")
                    .map_or(i128::MAX, |n| n.saturating_mul(1 << exponent).saturating_mul(NANOS_PER_UNIT));
                // 10⁹/10ᵏ is a whole number for k ≤ 9, else one over 2ᵏ⁻⁹·5ᵏ⁻⁹, whose twos the suffix absorbs.
                let part = digits("", kept).unwrap_or(0);
                let part = match u32::try_from(kept.len()).unwrap_or(0) {
                    k @ 0..=9 => part * (1i128 << exponent) * 10i128.pow(9 - k),
                    k if exponent >= k - 9 => {
                        div_away(part * (1i128 << (exponent - (k - 9))), 5i128.pow(k - 9))
                    }
                    k => div_away(part * (1i128 << exponent), 10i128.pow(k - 9)),
                };
                // Kubernetes caps binary amounts at the largest 64-bit integer.
                let cap = i128::from(i64::MAX) * NANOS_PER_UNIT;
                let value = whole.saturating_add(part).saturating_add(sticky).min(cap);
                let small = value > 0 && value < NANOS_PER_UNIT;
                (value, if small { Notation::Decimal } else { Notation::Binary })
            }
        }
    }
}

/// The number made of these digits, or `None` when it exceeds the range.
fn digits(whole: &str, fraction: &str) -> Option<i128> {
    whole
        .bytes()
        .chain(fraction.bytes())
        .try_fold(0i128, |n, b| n.checked_mul(10)?.checked_add(i128::from(b - b'0')))
}

fn shift_ten(mantissa: i128, shift: i64) -> i128 {
    if mantissa == 0 {
        return 0;
    }
    match u32::try_from(shift.unsigned_abs()).ok().and_then(|n| 10i128.checked_pow(n)) {
        Some(power) if shift >= 0 => mantissa.saturating_mul(power),
        Some(power) => div_away(mantissa, power),
        None if shift >= 0 => i128::MAX,
        None => 1,
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let whole = self.nanos % NANOS_PER_UNIT == 0;
        let large = self.nanos.unsigned_abs() >= 1024 * NANOS_PER_UNIT.unsigned_abs();
        if self.notation == Notation::Binary && whole && large {
            let mut units = self.nanos / NANOS_PER_UNIT;
            let mut suffix = "";
            for (name, _) in BINARY_SUFFIXES {
                if units % 1024 != 0 {
                    break;
                }
                units /= 1024;
                suffix = name;
            }
            return write!(f, "{units}{suffix}");
        }
        let (mut number, mut exponent) = (self.nanos, -9);
        while number % 1000 == 0 && (exponent < 18 || self.notation == Notation::Exponent) {
            number /= 1000;
            exponent += 3;
        }
        if self.notation == Notation::Exponent {
            return if exponent == 0 { write!(f, "{number}") } else { write!(f, "{number}e{exponent}") };
        }
        let suffix = DECIMAL_SUFFIXES.iter().find(|(_, e)| *e == exponent).map_or("", |(name, _)| name);
        write!(f, "{number}{suffix}")
    }
}

impl fmt::Debug for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl de::Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity such as 500m, 2 or 1Gi")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, units: i64) -> Result<Quantity, E> {
        Ok(Quantity::from_units(units))
    }

    fn visit_u64<E: de::Error>(self, units: u64) -> Result<Quantity, E> {
        Ok(Quantity::from_nanos(i128::from(units) * NANOS_PER_UNIT, Notation::Decimal))
    }

    fn visit_f64<E: de::Error>(self, units: f64) -> Result<Quantity, E> {
        format!("{units}").parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn q(text: &str) -> Quantity {
        text.parse().unwrap()
    }

    #[test]
    fn every_notation_has_its_exact_value() {
        for (text, nanos) in [
            ("0", 0),
            ("1", 1_000_000_000),
            ("+1", 1_000_000_000),
            ("-1", -1_000_000_000),
            ("100n", 100),
            ("1u", 1_000),
            ("250m", 250_000_000),
            ("0.5", 500_000_000),
            (".5", 500_000_000),
            ("1.", 1_000_000_000),
            ("1e3", 1_000_000_000_000),
            ("1E3", 1_000_000_000_000),
            ("1e-3", 1_000_000),
            ("1e+2", 100_000_000_000),
            ("12E", 12_000_000_000_000_000_000_000_000_000),
            ("1Ei", (1i128 << 60) * 1_000_000_000),
            ("0.5Gi", (1i128 << 29) * 1_000_000_000),
            ("1.1Ki", 1_126_400_000_000),
            ("0.1n", 1),
            ("-0.1n", -1),
            ("0.0000000001Ki", 103),
            ("20Ei", i128::from(i64::MAX) * 1_000_000_000),
            ("00012", 12_000_000_000),
            ("0Gi", 0),
            // Kubernetes reads a missing number as zero.
            ("Gi", 0),
            ("-", 0),
        ] {
            assert_eq!(q(text).nanos(), nanos, "{text}");
        }
    }

    #[test]
    fn what_kubernetes_refuses_is_refused() {
        let refused = "1K 1e 1gi 1.2.3 0x10 1_000 m5m 1m5 ١ 1Zi --1 1-";
        for text in refused.split(' ').chain(["", "1 Gi"]) {
            assert!(text.parse::<Quantity>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn display_is_canonical_and_keeps_the_notation() {
        for (text, shown) in [
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("0.5", "500m"),
            ("1000", "1k"),
            ("1024Ki", "1Mi"),
            ("1.5Gi", "1536Mi"),
            ("512Ki", "512Ki"),
            ("0.5Ki", "512"),
            ("1000Ki", "1000Ki"),
            ("1000e3", "1e6"),
            ("1e3", "1e3"),
            ("1e-3", "1e-3"),
            ("12E", "12E"),
            ("-1500m", "-1500m"),
            ("1000E", "1000E"),
            ("100e-9", "100e-9"),
            ("0.3Ki", "307200m"),
        ] {
            assert_eq!(q(text).to_string(), shown, "{text}");
        }
    }

    #[test]
    fn views_round_away_from_zero() {
        assert_eq!(q("1n").millis(), 1);
        assert_eq!(q("-1n").units(), -1);
        assert_eq!(q("1001m").units(), 2);
        assert_eq!(q("12E").millis(), i64::MAX);
    }

    #[test]
    fn sums_with_zero_take_the_notation_of_the_other() {
        assert_eq!((Quantity::ZERO + q("2Gi")).to_string(), "2Gi");
        assert_eq!((q("1Gi") + q("1000")).to_string(), "1073742824");
        assert_eq!(Quantity::MAX + q("1"), Quantity::MAX);
        assert_eq!(Quantity::MAX.checked_add(q("1")), None);
    }

    #[test]
    fn numbers_are_read_too() {
        let read = |json: &str| serde_json::from_str::<Quantity>(json).unwrap();
        assert_eq!(read("2"), q("2"));
        assert_eq!(read("0.25"), q("250m"));
        assert_eq!(read("\"1Gi\""), q("1Gi"));
        assert!(serde_json::from_str::<Quantity>("\"1Q\"").is_err());
    }

    fn quantity() -> impl Strategy<Value = Quantity> {
        let notation = prop_oneof![Just(Notation::Decimal), Just(Notation::Binary), Just(Notation::Exponent)];
        let nanos = prop_oneof![
            any::<i64>().prop_map(i128::from),
            any::<i64>().prop_map(|n| i128::from(n) * 1_000_000_000)
        ];
        (nanos, notation).prop_map(|(nanos, notation)| Quantity::from_nanos(nanos, notation))
    }

    proptest! {
        #[test]
        fn text_round_trips(quantity in quantity()) {
            prop_assert_eq!(q(&quantity.to_string()), quantity);
        }

        #[test]
        fn display_is_stable(quantity in quantity()) {
            // A plain number does not tell that it was binary, so what is read may be written shorter, once.
            let shown = q(&quantity.to_string()).to_string();
            prop_assert_eq!(q(&shown).to_string(), shown);
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in "[+-]?[0-9.]{0,40}[a-zA-Z]{0,2}[+-]?[0-9]{0,20}") {
            if let Ok(quantity) = text.parse::<Quantity>() {
                prop_assert_eq!(q(&quantity.to_string()), quantity);
            }
        }

        #[test]
        fn adding_then_subtracting_returns(a in quantity(), b in quantity()) {
            prop_assert_eq!(a + b - b, a);
            prop_assert_eq!(a.cmp(&b), a.nanos().cmp(&b.nanos()));
        }
    }
}
