//! Limits, as they are typed: `sliding 100/s`, `queue 100/s burst 20`, `concurrency 10`, `none`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use flowgate::{
    Clock, ConcurrencyLimit, LeakyBucket, Limiter, LimiterConfig, LimiterConfigError, LimiterKind,
    Quota, QuotaError, Quotas, Unlimited,
};
use flowgate_tower::AnyLimit;

/// Maximum number of permits of a concurrency limit.
const MAX_PERMITS: u32 = 100_000;
/// The most that a queue may hold.
const MAX_QUEUE: u64 = 100_000;

/// What guards a server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Limit {
    /// A limiter that refuses.
    Refuses(LimiterConfig),
    /// Those over the rate wait for their turns, up to the burst of the quota.
    Queue(Quota),
    /// At most this many concurrently.
    Concurrency(u32),
    None,
}

/// A limit that has been built.
pub(crate) struct Built {
    pub(crate) limit: AnyLimit,
    /// The same limiter, if it can be checked without acquiring.
    pub(crate) limiter: Option<Arc<dyn Limiter>>,
    /// Maximum wait of a request.
    pub(crate) max_wait: Option<Duration>,
}

impl Limit {
    /// Builds an unused limiter.
    pub(crate) fn build(&self, clock: Clock) -> Result<Built, QuotaError> {
        let refusing = |limiter: Arc<dyn Limiter>| Built {
            limit: limiter.clone().into(),
            limiter: Some(limiter),
            max_wait: None,
        };
        Ok(match *self {
            Limit::Refuses(config) => refusing(config.build_on(clock)?),
            Limit::Queue(quota) => {
                let places = quota.explicit_burst().unwrap_or(1);
                let limiter = LeakyBucket::builder(quota.burst(1)).clock(clock).build()?;
                let waiting = usize::try_from(places.saturating_sub(1)).unwrap_or(usize::MAX);
                limiter.queue().set_max_waiters(waiting);
                // A full queue takes this long; one second more for rounding.
                let longest = Duration::from_secs_f64(places as f64 / per_second(quota));
                Built {
                    limit: limiter.into(),
                    limiter: None,
                    max_wait: Some(longest + Duration::from_secs(1)),
                }
            }
            Limit::Concurrency(permits) => Built {
                limit: ConcurrencyLimit::new(permits).into(),
                limiter: None,
                max_wait: None,
            },
            Limit::None => Built {
                limit: unlimited().into(),
                limiter: None,
                max_wait: None,
            },
        })
    }

    /// Returns whether the limiter can be checked without acquiring, which some faults need.
    pub(crate) fn refuses_by_rate(&self) -> bool {
        matches!(self, Limit::Refuses(..))
    }
}

fn unlimited() -> Arc<dyn Limiter> {
    Arc::new(Unlimited::new())
}

fn per_second(quota: Quota) -> f64 {
    quota.count() as f64 / quota.period().as_secs_f64()
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Limit, String> {
        let text = text.trim();
        let (name, rest) = match text.split_once(char::is_whitespace) {
            Some((name, rest)) => (name, rest.trim()),
            None => (text, ""),
        };
        let limit = match name {
            "none" | "unlimited" if rest.is_empty() => return Ok(Limit::None),
            "none" | "unlimited" => return Err(format!("{name} has no rate: write {name}")),
            "concurrency" => {
                let permits = rest.parse().ok();
                return permits
                    .filter(|permits| (1..=MAX_PERMITS).contains(permits))
                    .map(Limit::Concurrency)
                    .ok_or_else(|| {
                        format!(
                            "not a whole number from 1 to {MAX_PERMITS}: write 'concurrency 10'"
                        )
                    });
            }
            "queue" => Limit::Queue(quota(name, rest)?),
            _ if LimiterKind::ALL.iter().all(|kind| kind.name() != name) => {
                return Err(unknown(text));
            }
            _ => Limit::Refuses(
                text.parse()
                    .map_err(|error: LimiterConfigError| error.to_string())?,
            ),
        };
        if let Limit::Queue(quota) = limit
            && quota.explicit_burst().unwrap_or(1) > MAX_QUEUE
        {
            return Err(format!(
                "a queue holds at most {MAX_QUEUE}: write a smaller burst"
            ));
        }
        // Check that this limiter supports this quota.
        match limit.build(Clock::system()) {
            Ok(_) => Ok(limit),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn quota(name: &str, text: &str) -> Result<Quota, String> {
    if text.is_empty() {
        return Err(format!("a rate is missing: write '{name} 100/s'"));
    }
    text.parse().map_err(|error: QuotaError| error.to_string())
}

fn unknown(text: &str) -> String {
    match text.parse::<Quotas>().as_ref().map(Quotas::len) {
        Ok(1) => format!("a limiter's name is missing: write 'token {text}' or 'sliding {text}'"),
        Ok(_) => format!("a limiter's name is missing: write 'token {text}'"),
        Err(_) => format!(
            "not a limiter: write one of {} or queue with a rate, 'concurrency 10', or none",
            LimiterKind::ALL.map(LimiterKind::name).join(", ")
        ),
    }
}

/// Writes the limit as it is typed.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Refuses(config) => config.fmt(f),
            Limit::Queue(quota) => write!(f, "queue {quota}"),
            Limit::Concurrency(permits) => write!(f, "concurrency {permits}"),
            Limit::None => f.write_str("none"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_they_are_shown() {
        for text in [
            "token 100/s burst 20",
            "token 10/s burst 5; 1000/day",
            "leaky 100/s",
            "sliding 100/s",
            "segmented 100/s",
            "fixed 100/s",
            "approximate 100/s",
            "aligned 100/s",
            "queue 100/s burst 20",
            "concurrency 10",
            "none",
        ] {
            assert_eq!(text.parse::<Limit>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_limit_says_what_to_type() {
        for (text, expected) in [
            ("", "not a limiter: write one of token, leaky"),
            ("tokens 5/s", "not a limiter"),
            ("100/s", "a limiter's name is missing: write 'token 100/s'"),
            (
                "10/s burst 5; 1000/day",
                "write 'token 10/s burst 5; 1000/day'",
            ),
            ("sliding", "the quota is missing; write \"sliding 100/s\""),
            ("queue", "a rate is missing: write 'queue 100/s'"),
            ("sliding 5/s burst 3", "burst"),
            ("token many", "many"),
            ("concurrency", "from 1 to 100000"),
            ("concurrency 0", "from 1 to 100000"),
            ("queue 5/s burst 1000000", "at most 100000"),
            ("none 5/s", "write none"),
        ] {
            let error = text.parse::<Limit>().unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
