use super::LimiterKind;
use crate::quota::QuotaError;
use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

/// Error of a text that is no [`LimiterConfig`](super::LimiterConfig); it states what to write instead.
///
/// ```
/// use flowgate::LimiterConfig;
///
/// let error = "100/s".parse::<LimiterConfig>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "invalid limiter \"100/s\": the name is missing; write \"token 100/s\", or leaky, sliding, segmented, fixed, \
///      aligned or approximate in place of token",
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimiterConfigError {
    text: Box<str>,
    reason: Reason,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    NameMissing,
    UnknownName(Box<str>),
    QuotaMissing,
    /// A quota for a kind without quotas.
    QuotaOfUnlimited,
    Quota(Box<QuotaError>),
    /// A limit for each key, where a single limiter is required.
    Keyed,
    /// A single limiter, where a limit for each key is required.
    NotKeyed,
    /// A kind that is not available for each key.
    NotForKeys(LimiterKind),
}

/// The largest number of characters of a text that the message repeats.
const MOST: usize = 80;

impl LimiterConfigError {
    pub(super) fn new(text: &str, reason: Reason) -> Self {
        Self {
            text: text.chars().take(MOST).collect::<String>().into(),
            reason,
        }
    }

    /// Returns the error of the quota, if the quota is the reason.
    pub fn quota(&self) -> Option<&QuotaError> {
        match &self.reason {
            Reason::Quota(error) => Some(&**error),
            _ => None,
        }
    }
}

impl fmt::Display for LimiterConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text.escape_debug();
        write!(f, "invalid limiter \"{text}\": ")?;
        match &self.reason {
            Reason::NameMissing => {
                write!(f, "the name is missing; write \"token {text}\", or ")?;
                others(f)?;
                f.write_str(" in place of token")
            }
            Reason::UnknownName(name) => {
                let name: String = name.chars().take(MOST).collect();
                let name = name.escape_debug();
                write!(f, "\"{name}\" is no limiter; write token, ")?;
                others(f)?;
                f.write_str(", and a quota, as in \"token 100/s burst 20\", or unlimited")
            }
            Reason::QuotaMissing => {
                write!(f, "the quota is missing; write \"{text} 100/s\"")
            }
            Reason::QuotaOfUnlimited => {
                f.write_str("unlimited has no quota; write \"unlimited\"")
            }
            Reason::Quota(error) => error.fmt(f),
            Reason::Keyed => f.write_str("one limiter is wanted here; leave out \"keyed\""),
            Reason::NotKeyed => f.write_str(
                "a limit for each key is wanted; write \"keyed\" and a limiter, as in \"keyed token 10/s burst 20\"",
            ),
            Reason::NotForKeys(kind) => write!(
                f,
                "there is no {} limiter for each key; write token, leaky, fixed, aligned or segmented",
                kind.name()
            ),
        }
    }
}

/// Prints the names except the first.
fn others(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let [_, others @ .., last] = LimiterKind::ALL.map(LimiterKind::name);
    f.write_str(&others.join(", "))?;
    write!(f, " or {last}")
}

impl core::error::Error for LimiterConfigError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        self.quota().map(|error| error as _)
    }
}
