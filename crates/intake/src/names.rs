//! How labels may be spelled.

const MOST: usize = 63;
const MOST_OF_DOMAIN: usize = 253;

/// What is wrong with a label key, if anything.
pub(crate) fn wrong_key(key: &str) -> Option<&'static str> {
    let (domain, name) = match key.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, key),
    };
    let is_domain = |domain: &str| {
        let part = |part: &str| is_word(part, |b| b == b'-') && !part.bytes().any(|b| b.is_ascii_uppercase());
        domain.len() <= MOST_OF_DOMAIN && domain.split('.').all(part)
    };
    if domain.is_some_and(|domain| !is_domain(domain)) {
        Some("must start with a lower case DNS name before the slash")
    } else if !is_name(name) {
        Some(
            "must have a name of 1 to 63 letters, digits, '-', '_' or '.' that starts and ends with a letter or digit",
        )
    } else {
        None
    }
}

/// What is wrong with a label value, if anything.
pub(crate) fn wrong_value(value: &str) -> Option<&'static str> {
    (!value.is_empty() && !is_name(value)).then_some(
        "must be at most 63 letters, digits, '-', '_' or '.' and start and end with a letter or digit",
    )
}

fn is_name(text: &str) -> bool {
    text.len() <= MOST && is_word(text, |b| b"-_.".contains(&b))
}

/// Letters and digits, and within them what else is allowed.
fn is_word(text: &str, inner: impl Fn(u8) -> bool) -> bool {
    let outer = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    outer(bytes.first())
        && outer(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || inner(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_names_with_an_optional_domain() {
        for good in ["a", "A_b.c-d", "example.com/a", "x-1.y/Zone"] {
            assert_eq!(wrong_key(good), None, "{good}");
        }
        for bad in ["", "-a", "a.", "a/b/c", "/a", "a/", "Example.com/a", "a..b/c", "é", &"x".repeat(64)] {
            assert!(wrong_key(bad).is_some(), "{bad}");
        }
        assert_eq!(wrong_value(""), None);
        assert!(wrong_value("a b").is_some() && wrong_value("_").is_some());
    }
}
