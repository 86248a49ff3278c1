//! URLs. They must not contain a password, because messages about them may be logged.

use std::borrow::Cow;

use flowgate_load::Target;

/// Parses the target of the requests.
pub(crate) fn parse(text: &str) -> Result<Target, String> {
    let Some((before, credentials, rest)) = split(text) else {
        return Target::parse(text).map_err(|error| error.to_string());
    };
    let user = match credentials.split_once(':') {
        Some((user, _)) if !user.is_empty() => user,
        _ => "user",
    };
    let scheme = if before.is_empty() { "http://" } else { before };
    Err(format!(
        "the URL contains a user name: write {scheme}{rest} -a {user}:…"
    ))
}

/// Returns the text without the user name and password of a URL.
pub(crate) fn without_credentials(text: &str) -> Cow<'_, str> {
    match split(text) {
        Some((before, _, rest)) => Cow::Owned(format!("{before}…@{rest}")),
        None => Cow::Borrowed(text),
    }
}

/// Returns whether the text is the URL of a server of HTTP, and not that of a store.
#[cfg(any(feature = "decide", feature = "fleet"))]
pub(crate) fn is_http(text: &str) -> bool {
    let mut schemes = ["http://", "https://"].into_iter();
    schemes.any(|scheme| text.starts_with(scheme))
}

/// Splits a URL into the part before the credentials, the credentials, and the rest.
fn split(text: &str) -> Option<(&str, &str, &str)> {
    let begin = text.find("://").map_or(0, |colon| colon + "://".len());
    let (before, behind) = text.split_at(begin);
    let end = behind.find(['/', '?', '#']).unwrap_or(behind.len());
    let at = behind[..end].rfind('@')?;
    Some((before, &behind[..at], &behind[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_repeated() {
        for (text, expected) in [
            ("http://me:secret@host/a", "write http://host/a -a me:…"),
            ("https://me:sec@ret@host", "write https://host -a me:…"),
            ("http://secret@host/", "write http://host/ -a user:…"),
            ("http://:secret@host/", "write http://host/ -a user:…"),
            ("me:secret@host:80", "write http://host:80 -a me:…"),
            ("http://me:sec ret@host/", "write http://host/ -a me:…"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains("sec"), "{text}: {error}");
            assert!(!without_credentials(text).contains("sec"), "{text}");
        }
        for text in ["http://host/@b", "http://host/?a=me:b@c", "http://host#a@b"] {
            assert!(parse(text).is_ok(), "{text}");
            assert_eq!(without_credentials(text), text);
        }
    }
}
