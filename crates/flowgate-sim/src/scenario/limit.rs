use std::error::Error;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use flowgate::{
    Adapt, AdaptiveLimit, Aimd, Bdp, ConcurrencyLimit, FixedWindow, Gate, Gradient,
    KeyedLimiterConfig, Limiter, LimiterConfig, LimiterKind, ManualClock, Quota, Quotas, Timestamp,
    Vegas,
};
use serde::{Deserialize, Serialize};

use super::ScenarioError;
use super::waiting::Waiting;
use crate::error::TextError;
use crate::policy::LimiterPolicy;

/// The most permits of a concurrency limit.
const MAX_PERMITS: u32 = 1_000_000;
/// The most keys for which a limit per key has memory. Beyond these, it forgets those that were used least.
const MAX_KEYS: u64 = 1 << 22;

/// A limit to simulate.
///
/// ```
/// use flowgate_sim::LimitConfig;
///
/// let limit: LimitConfig = "token 100/s burst 20 wait 500ms queue 50".parse()?;
/// assert_eq!(limit.title(), "token 100/s burst 20 wait 500ms queue 50");
/// # Ok::<(), flowgate_sim::TextError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitConfig {
    /// The name in reports (default: the text of the limiter).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The limiter.
    pub limiter: LimiterText,
}

/// The limiter of a [`LimitConfig`].
///
/// | text | limiter |
/// |---|---|
/// | `token 100/s burst 20` | any text of a [`LimiterConfig`] |
/// | `keyed token 10/s burst 20` | any text of a [`KeyedLimiterConfig`] |
/// | `concurrency 40` | at most 40 requests at a time |
/// | `token 100/s + concurrency 40` | several of these, without `keyed`: all admit, or none |
/// | `adaptive gradient` | an [`AdaptiveLimit`](flowgate::AdaptiveLimit); also `aimd`, `bdp` and `vegas` |
/// | `none` | no limit |
///
/// Settings may follow:
///
/// | setting | meaning |
/// |---|---|
/// | `wait 500ms` | requests wait, for at most 500 ms |
/// | `queue 50` | at most 50 requests wait |
/// | `order lifo` | the newest request is next; also `fifo`, and `adaptive-lifo` ([`Order`](flowgate::Order)) |
/// | `codel 5ms` | the queue sheds by [`Codel`](flowgate::Codel); `5ms/1s` has another interval than 100 ms |
/// | `by user` | after a limit for each key: the field of a log that is the key |
///
/// An `aligned` window begins at the start of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LimiterText {
    kind: Kind,
    waiting: Waiting,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    None,
    Keyed {
        limiter: KeyedLimiterConfig,
        /// The field of a log that is the key.
        by: Option<String>,
    },
    Adaptive(Algorithm),
    /// One or several, of which all have to admit.
    All(Vec<Member>),
}

/// What sets an adaptive limit.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Algorithm {
    Gradient,
    Aimd,
    Bdp,
    Vegas,
}

impl Algorithm {
    const ALL: [Self; 4] = [Self::Gradient, Self::Aimd, Self::Bdp, Self::Vegas];

    fn name(self) -> &'static str {
        match self {
            Self::Gradient => "gradient",
            Self::Aimd => "aimd",
            Self::Bdp => "bdp",
            Self::Vegas => "vegas",
        }
    }

    fn build(self) -> Box<dyn Adapt> {
        match self {
            Self::Gradient => Box::new(Gradient::default()),
            Self::Aimd => Box::new(Aimd::default()),
            Self::Bdp => Box::new(Bdp::default()),
            Self::Vegas => Box::new(Vegas::default()),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Member {
    Rate(LimiterConfig),
    Concurrency(u32),
}

impl LimitConfig {
    /// Returns the name in reports.
    pub fn title(&self) -> String {
        self.name
            .clone()
            .unwrap_or_else(|| self.limiter.to_string())
    }

    /// Returns the field of a log that is the key, if the limiter names one.
    pub fn key_field(&self) -> Option<&str> {
        match &self.limiter.kind {
            Kind::Keyed { by, .. } => by.as_deref(),
            Kind::None | Kind::Adaptive(_) | Kind::All(_) => None,
        }
    }

    /// Returns the periods of its quotas.
    pub(super) fn periods(&self) -> Vec<Duration> {
        let configs: Vec<LimiterConfig> = match &self.limiter.kind {
            Kind::None | Kind::Adaptive(_) => Vec::new(),
            Kind::Keyed { limiter, .. } => vec![limiter.each()],
            Kind::All(members) => {
                let members = members.iter().filter_map(|member| match member {
                    Member::Rate(config) => Some(*config),
                    Member::Concurrency(_) => None,
                });
                members.collect()
            }
        };
        let quotas = configs.iter().filter_map(LimiterConfig::quotas);
        quotas
            .flat_map(|quotas| {
                quotas
                    .as_slice()
                    .iter()
                    .map(Quota::period)
                    .collect::<Vec<_>>()
            })
            .collect()
    }

    /// Builds the limit on the clock of a run, for traffic of `keys` keys.
    pub(super) fn policy(
        &self,
        time: &ManualClock,
        keys: u64,
    ) -> Result<LimiterPolicy, ScenarioError> {
        let limiter = &self.limiter;
        limiter
            .policy(time, keys)
            .map_err(|error| ScenarioError::new(format!("limit '{limiter}': {error}")))
    }
}

impl From<LimiterText> for LimitConfig {
    fn from(limiter: LimiterText) -> Self {
        let name = None;
        Self { name, limiter }
    }
}

impl FromStr for LimitConfig {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        text.parse().map(|limiter: LimiterText| limiter.into())
    }
}

impl LimiterText {
    fn policy(&self, time: &ManualClock, keys: u64) -> Result<LimiterPolicy, Box<dyn Error>> {
        let policy = match &self.kind {
            Kind::None => LimiterPolicy::rate(LimiterConfig::unlimited().build_on(time)?),
            Kind::Keyed { limiter, .. } => {
                let keys = usize::try_from(keys.clamp(1, MAX_KEYS)).unwrap_or(usize::MAX);
                LimiterPolicy::from_keyed_config(limiter, time, keys)?
            }
            Kind::Adaptive(algorithm) => {
                let limit = AdaptiveLimit::builder(algorithm.build()).clock(time);
                LimiterPolicy::adaptive(Arc::new(limit.build()?))
            }
            Kind::All(members) => Self::all(members, time)?,
        };
        Ok(self.waiting.of(policy))
    }

    /// One limit, or a gate of several.
    fn all(members: &[Member], time: &ManualClock) -> Result<LimiterPolicy, Box<dyn Error>> {
        let policy = match members {
            [Member::Rate(config)] => LimiterPolicy::from_config(config, time)?,
            [Member::Concurrency(permits)] => {
                let limit = ConcurrencyLimit::builder(*permits).clock(time).build()?;
                LimiterPolicy::concurrency(Arc::new(limit))
            }
            members => {
                let mut gate = Gate::builder();
                for (index, member) in members.iter().enumerate() {
                    let name = format!("{} {member}", index + 1);
                    gate = match member {
                        Member::Rate(config) => gate.limit(&name, rate_limiter(config, time)?),
                        Member::Concurrency(permits) => {
                            let limit = ConcurrencyLimit::builder(*permits).clock(time);
                            gate.limit(&name, limit.build()?)
                        }
                    };
                }
                LimiterPolicy::gate(Arc::new(gate.build()?))
            }
        };
        Ok(policy)
    }
}

fn rate_limiter(
    config: &LimiterConfig,
    time: &ManualClock,
) -> Result<Arc<dyn Limiter>, flowgate::QuotaError> {
    // Its windows would begin by the clock on the wall, at another time in each run.
    match (
        config.kind(),
        config.quotas().as_ref().map(Quotas::as_slice),
    ) {
        (LimiterKind::Aligned, Some([quota])) => {
            let builder = FixedWindow::builder(*quota).clock(time);
            Ok(Arc::new(builder.align(Timestamp::from_nanos(0)).build()?))
        }
        _ => config.build_on(time),
    }
}

impl FromStr for LimiterText {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let error = |why: &str| TextError::new(text, why);
        let mut words: Vec<&str> = text.split_whitespace().collect();
        let (mut waiting, mut by) = (Waiting::default(), None);
        while let [.., what, value] = words[..] {
            match what {
                "by" if by.is_none() => by = Some(value.to_owned()),
                _ if waiting.read(what, value)? => {}
                _ => break,
            }
            words.truncate(words.len() - 2);
        }
        if waiting.has_rules() && !waiting.is_allowed() {
            return Err(error("a queue needs a longest wait, such as 'wait 1s'"));
        }
        let limiter = words.join(" ");
        let kind = match words.first() {
            None => {
                return Err(error(
                    "the limiter is missing; write 'token 100/s' or 'none'",
                ));
            }
            Some(&"keyed") if words.contains(&"+") => {
                return Err(error("a limit for each key stands alone; remove '+'"));
            }
            Some(&"keyed") if waiting.has_rules() => {
                return Err(error(
                    "a limit for each key has no queue with rules; remove 'queue', 'order' and 'codel'",
                ));
            }
            Some(&"keyed") => Kind::Keyed {
                limiter: limiter.parse().map_err(|error| refusal(text, &error))?,
                by,
            },
            Some(_) if by.is_some() => {
                return Err(error(
                    "only a limit for each key has a field; write 'keyed' first",
                ));
            }
            Some(&"none") if words.len() == 1 => Kind::None,
            Some(&"adaptive") => {
                let named = |algorithm: &Algorithm| words[1..] == [algorithm.name()];
                let algorithm = Algorithm::ALL.into_iter().find(named);
                let why = "not an adaptive limit; write 'adaptive gradient', 'adaptive aimd', 'adaptive bdp' or 'adaptive vegas'";
                Kind::Adaptive(algorithm.ok_or_else(|| error(why))?)
            }
            Some(_) => Kind::All(limiter.split(" + ").map(member).collect::<Result<_, _>>()?),
        };
        Ok(Self { kind, waiting })
    }
}

fn refusal(text: &str, error: &dyn fmt::Display) -> TextError {
    TextError::new(text, error.to_string())
}

fn member(text: &str) -> Result<Member, TextError> {
    let text = text.trim();
    if let Some(permits) = text.strip_prefix("concurrency") {
        return match permits.trim().parse() {
            Ok(permits) if (1..=MAX_PERMITS).contains(&permits) => Ok(Member::Concurrency(permits)),
            _ => {
                let why = format!(
                    "a concurrency limit is from 1 to {MAX_PERMITS}, such as 'concurrency 10'"
                );
                Err(TextError::new(text, why))
            }
        };
    }
    let config: LimiterConfig = text.parse().map_err(|error| refusal(text, &error))?;
    // It is refused where it is written, not when the run begins.
    rate_limiter(&config, &ManualClock::new()).map_err(|error| refusal(text, &error))?;
    Ok(Member::Rate(config))
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(config) => config.fmt(f),
            Self::Concurrency(permits) => write!(f, "concurrency {permits}"),
        }
    }
}

impl fmt::Display for LimiterText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::None => f.write_str("none")?,
            Kind::Adaptive(algorithm) => write!(f, "adaptive {}", algorithm.name())?,
            Kind::Keyed { limiter, by } => {
                limiter.fmt(f)?;
                if let Some(field) = by {
                    write!(f, " by {field}")?;
                }
            }
            Kind::All(members) => {
                let members: Vec<String> = members.iter().map(Member::to_string).collect();
                f.write_str(&members.join(" + "))?;
            }
        }
        self.waiting.fmt(f)
    }
}

impl TryFrom<String> for LimiterText {
    type Error = TextError;

    fn try_from(text: String) -> Result<Self, TextError> {
        text.parse()
    }
}

impl From<LimiterText> for String {
    fn from(limiter: LimiterText) -> Self {
        limiter.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_they_are_written() {
        for text in [
            "none",
            "token 100/s burst 20",
            "token 10/s burst 5; 1000/day",
            "aligned 100/s",
            "sliding 100/s wait 500ms",
            "leaky 100/s wait 1s queue 50",
            "concurrency 40 wait 1m",
            "adaptive gradient wait 100ms queue 50",
            "adaptive vegas",
            "concurrency 40 wait 1s order adaptive-lifo codel 5ms",
            "concurrency 40 wait 1s queue 50 order lifo codel 20ms/1s",
            "adaptive gradient wait 1s order fifo",
            "keyed token 10/s burst 30 by ip wait 2s",
            "token 100/s + concurrency 20 wait 500ms queue 10",
        ] {
            let limit: LimitConfig = text.parse().expect(text);
            assert_eq!(limit.title(), text);
            limit.policy(&ManualClock::new(), 100).expect(text);
        }
    }

    #[test]
    fn what_is_not_a_limit_says_what_to_write() {
        for (text, expected) in [
            ("", "write 'token 100/s'"),
            ("tokn 5/s", "tokn"),
            ("100/s", "token 100/s"),
            ("token", "token 100/s"),
            ("sliding 5/s burst 3", "burst"),
            ("concurrency 0", "from 1 to"),
            ("token 5/s wait long", "long"),
            ("token 5/s queue 5", "longest wait"),
            ("token 5/s wait 1s queue many", "whole number"),
            ("keyed sliding 5/s", "sliding"),
            ("keyed token 5/s + token 9/s", "remove '+'"),
            ("keyed token 5/s wait 1s queue 5", "remove 'queue'"),
            ("keyed token 5/s wait 1s codel 5ms", "and 'codel'"),
            ("concurrency 5 order lifo", "longest wait"),
            ("concurrency 5 wait 1s order last", "'order lifo'"),
            ("concurrency 5 wait 1s codel 1s", "1 to 99999999"),
            ("concurrency 5 wait 1s codel soon", "soon"),
            ("token 5/s by ip", "write 'keyed'"),
            ("adaptive magic", "write 'adaptive gradient'"),
            ("adaptive gradient + token 5/s", "write 'adaptive gradient'"),
        ] {
            let error = text.parse::<LimitConfig>().expect_err(text).to_string();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
