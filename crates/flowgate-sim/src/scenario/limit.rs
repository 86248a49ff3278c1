use std::error::Error;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use flowgate::{
    Adapt, AdaptiveLimit, Aimd, AnyKeyed, Bdp, ConcurrencyLimit, Gate, GateBuilder, Gradient,
    KeyedLimiterConfig, LimiterConfig, LimiterKind, ManualClock, Quota, Vegas,
};
use serde::{Deserialize, Serialize};

use super::ScenarioError;
use super::waiting::Waiting;
use crate::error::TextError;
use crate::policy::{LimiterPolicy, keyed_limiter, rate_limiter};
use crate::text::serde_by_text;

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
/// | `token 100/s + concurrency 40` | several of these, of which one may be `keyed`: all admit, or none |
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
#[derive(Clone, Debug, PartialEq)]
pub struct LimiterText {
    kind: Kind,
    waiting: Waiting,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    None,
    Adaptive(Algorithm),
    /// One or several, of which all have to admit. At most one is for each key.
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
    Keyed {
        limiter: KeyedLimiterConfig,
        /// The field of a log that is the key.
        by: Option<String>,
    },
}

impl Member {
    /// The configuration of a rate limiter: that of all requests, or of each key.
    fn rate(&self) -> Option<LimiterConfig> {
        match self {
            Self::Rate(config) => Some(*config),
            Self::Keyed { limiter, .. } => Some(limiter.each()),
            Self::Concurrency(_) => None,
        }
    }
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
        self.limiter.fields().next()?
    }

    /// Whether it is several limits, which count requests.
    pub(super) fn is_combined(&self) -> bool {
        self.limiter.members().len() > 1
    }

    /// Returns the periods of its quotas.
    pub(super) fn periods(&self) -> Vec<Duration> {
        let configs = self.limiter.members().iter().filter_map(Member::rate);
        let quotas = configs.filter_map(|config| config.quotas());
        quotas
            .flat_map(|quotas| {
                let periods = quotas.as_slice().iter().map(Quota::period);
                periods.collect::<Vec<_>>()
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
    fn members(&self) -> &[Member] {
        match &self.kind {
            Kind::None | Kind::Adaptive(_) => &[],
            Kind::All(members) => members,
        }
    }

    /// The fields of a log that are the keys of its limits for each key.
    fn fields(&self) -> impl Iterator<Item = Option<&str>> {
        let members = self.members().iter();
        members.filter_map(|member| match member {
            Member::Keyed { by, .. } => Some(by.as_deref()),
            Member::Rate(_) | Member::Concurrency(_) => None,
        })
    }

    fn policy(&self, time: &ManualClock, keys: u64) -> Result<LimiterPolicy, Box<dyn Error>> {
        let policy = match &self.kind {
            Kind::None => LimiterPolicy::rate(LimiterConfig::unlimited().build_on(time)?),
            Kind::Adaptive(algorithm) => {
                let limit = AdaptiveLimit::builder(algorithm.build()).clock(time);
                LimiterPolicy::adaptive(Arc::new(limit.build()?))
            }
            Kind::All(members) => {
                let keys = usize::try_from(keys.clamp(1, MAX_KEYS)).unwrap_or(usize::MAX);
                all(members, time, keys)?
            }
        };
        Ok(self.waiting.of(policy))
    }
}

/// One limit, or a gate of several.
fn all(
    members: &[Member],
    time: &ManualClock,
    keys: usize,
) -> Result<LimiterPolicy, Box<dyn Error>> {
    let permits = |permits: u32| ConcurrencyLimit::builder(permits).clock(time).build();
    match members {
        [Member::Rate(config)] => Ok(LimiterPolicy::from_config(config, time)?),
        [Member::Concurrency(most)] => Ok(LimiterPolicy::concurrency(Arc::new(permits(*most)?))),
        [Member::Keyed { limiter, .. }] => {
            Ok(LimiterPolicy::from_keyed_config(limiter, time, keys)?)
        }
        members => {
            let (mut gate, mut of_keys) = (Gate::builder(), None);
            for (number, member) in (1..).zip(members) {
                let name = format!("{number} {member}");
                match member {
                    Member::Rate(config) => gate = gate.limit(&name, rate_limiter(config, time)?),
                    Member::Concurrency(most) => gate = gate.limit(&name, permits(*most)?),
                    Member::Keyed { limiter, .. } => {
                        of_keys = Some((name, keyed_limiter(limiter, time, keys)?));
                    }
                }
            }
            match of_keys {
                Some((name, keys)) => keyed_gate(gate, &name, keys),
                None => Ok(LimiterPolicy::gate(Arc::new(gate.build()?))),
            }
        }
    }
}

fn keyed_gate(
    gate: GateBuilder,
    name: &str,
    keys: AnyKeyed,
) -> Result<LimiterPolicy, Box<dyn Error>> {
    Ok(match keys {
        AnyKeyed::TokenBucket(keys) => LimiterPolicy::keyed_gate(gate.keyed(name, keys).build()?),
        AnyKeyed::DualTokenBucket(keys) => {
            LimiterPolicy::keyed_gate(gate.keyed(name, keys).build()?)
        }
        AnyKeyed::LeakyBucket(keys) => LimiterPolicy::keyed_gate(gate.keyed(name, keys).build()?),
        AnyKeyed::FixedWindow(keys) => LimiterPolicy::keyed_gate(gate.keyed(name, keys).build()?),
        AnyKeyed::SegmentedWindow(keys) => {
            LimiterPolicy::keyed_gate(gate.keyed(name, keys).build()?)
        }
        AnyKeyed::Unlimited(keys) => LimiterPolicy::keyed_gate(gate.keyed(name, keys).build()?),
        _ => return Err("limits of this kind for each key stand alone; remove '+'".into()),
    })
}

impl FromStr for LimiterText {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let error = |why: &str| TextError::new(text, why);
        let mut words: Vec<&str> = text.split_whitespace().collect();
        let (mut waiting, mut by) = (Waiting::default(), None);
        while let [.., what, value] = words[..] {
            match what {
                "by" if by.is_none() => by = Some(value),
                _ if waiting.read(what, value)? => {}
                _ => break,
            }
            words.truncate(words.len() - 2);
        }
        if let Some(setting @ ("wait" | "queue" | "order" | "codel" | "by")) = words.last().copied()
        {
            let why = format!("'{setting}' has no value, as in 'wait 500ms queue 50'");
            return Err(error(&why));
        }
        // It belongs to the limit before the settings.
        words.extend(by.into_iter().flat_map(|field| ["by", field]));
        if waiting.has_rules() && !waiting.is_allowed() {
            return Err(error("a queue needs a longest wait, such as 'wait 1s'"));
        }
        let kind = match words.first() {
            None => {
                return Err(error(
                    "the limiter is missing; write 'token 100/s' or 'none'",
                ));
            }
            Some(&"none") if words.len() == 1 => Kind::None,
            Some(&"adaptive") => {
                let named = |algorithm: &Algorithm| words[1..] == [algorithm.name()];
                let algorithm = Algorithm::ALL.into_iter().find(named);
                let why = "not an adaptive limit; write 'adaptive gradient', 'adaptive aimd', 'adaptive bdp' or 'adaptive vegas'";
                Kind::Adaptive(algorithm.ok_or_else(|| error(why))?)
            }
            Some(_) => {
                let members = words.split(|word| *word == "+").map(member);
                Kind::All(members.collect::<Result<_, _>>()?)
            }
        };
        let limiter = Self { kind, waiting };
        match limiter.fields().count() {
            0 => Ok(limiter),
            1 if !limiter.waiting.has_rules() => Ok(limiter),
            1 => Err(error(
                "a limit for each key has no queue with rules; remove 'queue', 'order' and 'codel'",
            )),
            _ => Err(error(
                "only one of the limits can be for each key; remove a 'keyed'",
            )),
        }
    }
}

/// What a limiter begins with, except `none`.
fn names() -> impl Iterator<Item = &'static str> {
    let others = ["unlimited", "concurrency", "keyed", "adaptive"];
    LimiterKind::ALL
        .map(LimiterKind::name)
        .into_iter()
        .chain(others)
}

/// Whether `word` begins a limiter, or a quota whose limiter is missing.
fn is_known(word: &str) -> bool {
    word == "none"
        || names().any(|name| name == word)
        || word.starts_with(|first: char| first.is_ascii_digit())
}

fn member(words: &[&str]) -> Result<Member, TextError> {
    let (words, by) = match words {
        [words @ .., "by", field] => (words, Some((*field).to_owned())),
        words => (words, None),
    };
    let text = &words.join(" ");
    let error = |why: &dyn fmt::Display| TextError::new(text, why.to_string());
    // It is refused where it is written, not when the run begins.
    let time = &ManualClock::new();
    match words {
        [] => Err(error(
            &"a limit is missing beside '+'; write 'token 100/s + concurrency 40'",
        )),
        ["keyed", ..] => {
            let limiter = text.parse().map_err(|why| error(&why))?;
            keyed_limiter(&limiter, time, 1).map_err(|why| error(&why))?;
            Ok(Member::Keyed { limiter, by })
        }
        _ if by.is_some() => Err(error(
            &"only a limit for each key has a field; write 'keyed' first",
        )),
        ["concurrency", permits @ ..] => match permits.join(" ").parse() {
            Ok(permits) if (1..=MAX_PERMITS).contains(&permits) => Ok(Member::Concurrency(permits)),
            _ => Err(error(&format_args!(
                "a concurrency limit is from 1 to {MAX_PERMITS}, such as 'concurrency 10'"
            ))),
        },
        [name, ..] if !is_known(name) => Err(error(&format_args!(
            "'{name}' is no limiter; write {} or none, as in 'token 100/s burst 20'",
            names().collect::<Vec<_>>().join(", ")
        ))),
        _ => {
            let config = text.parse().map_err(|why| error(&why))?;
            rate_limiter(&config, time).map_err(|why| error(&why))?;
            Ok(Member::Rate(config))
        }
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(config) => config.fmt(f),
            Self::Concurrency(permits) => write!(f, "concurrency {permits}"),
            Self::Keyed { limiter, by: None } => limiter.fmt(f),
            Self::Keyed {
                limiter,
                by: Some(field),
            } => write!(f, "{limiter} by {field}"),
        }
    }
}

impl fmt::Display for LimiterText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::None => f.write_str("none")?,
            Kind::Adaptive(algorithm) => write!(f, "adaptive {}", algorithm.name())?,
            Kind::All(members) => {
                let members: Vec<String> = members.iter().map(Member::to_string).collect();
                f.write_str(&members.join(" + "))?;
            }
        }
        self.waiting.fmt(f)
    }
}

serde_by_text!(LimiterText);

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
            "keyed token 10/s burst 30 by ip + concurrency 50 wait 2s",
            "concurrency 50 + keyed aligned 10/s + token 100/s",
            "keyed token 10/s; 100/min + token 100/s",
            "keyed leaky 10/s + leaky 100/s",
            "keyed segmented 10/s + sliding 100/s",
            "keyed unlimited + concurrency 50",
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
            (
                "tokn 5/s",
                "'tokn' is no limiter; write token, leaky, sliding, segmented, fixed, aligned, approximate, unlimited, concurrency, keyed, adaptive or none",
            ),
            ("100/s", "token 100/s"),
            ("token", "token 100/s"),
            ("sliding 5/s burst 3", "burst"),
            ("concurrency 0", "from 1 to"),
            ("concurrency 4 0", "from 1 to"),
            ("concurrency", "from 1 to"),
            ("token 5/s wait long", "long"),
            ("token 5/s wait", "'wait' has no value"),
            ("keyed token 5/s by", "'by' has no value"),
            ("token 5/s queue 5", "longest wait"),
            ("token 5/s wait 1s queue many", "whole number"),
            ("keyed sliding 5/s", "sliding"),
            ("keyed fixed 5/s burst 3", "burst"),
            ("keyed token 5/s + keyed token 9/s", "remove a 'keyed'"),
            ("keyed token 5/s + sliding 5/s burst 3", "burst"),
            ("keyed token 5/s + tokn 9/s", "tokn"),
            ("keyed token 5/s + none", "none"),
            ("keyed token 5/s + concurrency 0", "from 1 to"),
            ("keyed token 5/s +", "write 'token 100/s + concurrency 40'"),
            ("+ keyed token 5/s", "write 'token 100/s + concurrency 40'"),
            (
                "keyed token 5/s + concurrency 5 wait 1s queue 5",
                "remove 'queue'",
            ),
            ("keyed token 5/s + concurrency 5 by ip", "write 'keyed'"),
            ("keyed token 5/s by ip by user", "by"),
            ("token 5/s + adaptive gradient", "adaptive"),
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
