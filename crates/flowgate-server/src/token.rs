use hyper::header::HeaderValue;

/// A secret that clients send.
#[derive(Clone)]
pub(crate) struct Token(Box<[u8]>);

impl Token {
    pub(crate) fn new(secret: &str) -> Self {
        Self(secret.as_bytes().into())
    }

    /// Compares all bytes, however early they differ, so that the time does not tell where.
    pub(crate) fn is(&self, given: &[u8]) -> bool {
        let differs = self
            .0
            .iter()
            .zip(given)
            .fold(0, |all, (one, other)| all | (one ^ other));
        std::hint::black_box(differs) == 0 && self.0.len() == given.len()
    }

    /// Returns whether the value of `authorization` is `Bearer`, and this secret.
    pub(crate) fn is_borne_by(&self, authorization: Option<&HeaderValue>) -> bool {
        let given = authorization.and_then(|value| value.as_bytes().split_at_checked(7));
        given.is_some_and(|(scheme, given)| {
            scheme.eq_ignore_ascii_case(b"Bearer ") && self.is(given)
        })
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}
