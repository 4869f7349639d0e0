//! Node names.
//!
//! COMPAT: upstream's `toNode` names a Node `kwok-<claim>-<silly name>-<sequence>-<10 characters>-<32-bit number>`, all
//! but the claim by chance. Here the same parts come from a hash of the token.

use super::PROVIDER_PREFIX;
use crate::port::{ProviderId, Token};
use headstart_core::hash;

const NOUNS: [&str; 16] = [
    "anchor", "beetle", "candle", "dune", "ember", "fjord", "gable", "heron", "iris", "juniper", "kettle",
    "lantern", "marten", "nettle", "otter", "pebble",
];
const ADJECTIVES: [&str; 16] = [
    "amber", "brisk", "cobalt", "dapper", "early", "faint", "gentle", "hazel", "ivory", "jolly", "keen",
    "lucid", "mellow", "nimble", "opal", "plain",
];
/// Leaves room for the rest of a name, which may have 253 characters.
const LONGEST_CLAIM: usize = 180;

/// The name of the Node a claim's token stands for.
pub(super) fn for_launch(claim: &str, token: &Token) -> String {
    let draw = |what: &str| hash::stable(&[what, claim, &token.0]);
    let pick = |what: &str, words: [&'static str; 16]| words[(draw(what) % 16) as usize];
    let mut characters = draw("characters");
    let alphanumeric: String = (0..10)
        .map(|_| {
            let digit = (characters % 36) as u32;
            characters /= 36;
            char::from_digit(digit, 36).unwrap_or('0')
        })
        .collect();
    let (noun, adjective) = (pick("noun", NOUNS), pick("adjective", ADJECTIVES));
    let (sequence, number) = (draw("sequence") % 1000, draw("number") as u32);
    let claim = claim.get(..LONGEST_CLAIM).unwrap_or(claim);
    format!("kwok-{claim}-{noun}{adjective}-{sequence}-{alphanumeric}-{number}")
}

/// The name in a provider id of this cloud.
pub(super) fn of(id: &ProviderId) -> Option<&str> {
    let name = id.0.strip_prefix(PROVIDER_PREFIX)?;
    let valid = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    (!name.is_empty() && name.bytes().all(valid)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_always_gives_the_same_name() {
        let name = |uid: &str| for_launch("general-x7k2p", &Token(uid.into()));
        assert_eq!(name("0b0e"), name("0b0e"));
        assert_ne!(name("0b0e"), name("0b0f"));
        let parts: Vec<String> = name("0b0e").split('-').map(str::to_owned).collect();
        assert_eq!(parts.len(), 7, "{parts:?}");
        assert_eq!(parts[..3].join("-"), "kwok-general-x7k2p");
        assert!(parts[4].parse::<u16>().is_ok() && parts[5].len() == 10 && parts[6].parse::<u32>().is_ok());
    }

    #[test]
    fn names_are_valid_however_long_the_claims_is() {
        let name = for_launch(&"x".repeat(253), &Token("u".into()));
        assert!(name.len() <= 253);
        let id = ProviderId(format!("kwok://{name}"));
        assert_eq!(of(&id), Some(name.as_str()));
        for bad in ["kwok://", "kwok://../x", "other://a", ""] {
            assert_eq!(of(&ProviderId(bad.into())), None, "{bad}");
        }
    }
}
