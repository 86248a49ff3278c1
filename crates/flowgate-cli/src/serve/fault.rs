//! Injected faults of the server.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use flowgate::LimiterKind;
use flowgate_sim::Share;

use super::Limit;
use crate::argument::duration;

/// One injected fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    /// The limiter checks for a token, does something else, and then takes it.
    Race,
    /// A window lasts longer than its headers report, by this fraction.
    LateReset(f64),
    /// `Retry-After` and similar headers are too short by this time.
    EarlyRetryAfter(Duration),
    /// This number of nodes accept connections in turn, with separate limits.
    Nodes(usize),
    /// This fraction of the admitted requests gets a response with status 500.
    Error(f64),
    /// This fraction of the admitted requests gets no response: the connection is closed.
    Drop(f64),
    /// After this number of refusals, everything is refused for one minute.
    Ban(u64),
}

/// Maximum number of nodes.
const MAX_NODES: usize = 100;

/// All injected faults of one server.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Faults {
    pub(crate) race: bool,
    pub(crate) late_reset: Option<f64>,
    pub(crate) early_retry_after: Option<Duration>,
    pub(crate) nodes: Option<usize>,
    pub(crate) error: Option<f64>,
    pub(crate) drop: Option<f64>,
    pub(crate) ban: Option<u64>,
}

impl Faults {
    /// Combines faults for a server with this limit.
    ///
    /// # Errors
    ///
    /// Returns what to write if two faults are of one kind, or one makes no sense with this limit.
    pub(crate) fn of(faults: &[Fault], limit: &Limit) -> Result<Faults, String> {
        let mut all = Faults::default();
        for fault in faults {
            let needs = match fault {
                Fault::LateReset(_) if !matches!(limit, Limit::Refuses(config) if config.kind() == LimiterKind::Fixed) => {
                    Some("a fixed window: write --limiter 'fixed 100/s'")
                }
                Fault::Race | Fault::EarlyRetryAfter(_) if !limit.refuses_by_rate() => {
                    Some("a rate limiter that refuses: write --limiter 'token 100/s burst 20'")
                }
                Fault::Nodes(_) | Fault::Ban(_) if *limit == Limit::None => {
                    Some("a limiter: write --limiter 'token 100/s burst 20'")
                }
                _ => None,
            };
            if let Some(needs) = needs {
                return Err(format!("--fault {fault} needs {needs}"));
            }
            let is_new = match *fault {
                Fault::Race => !std::mem::replace(&mut all.race, true),
                Fault::LateReset(share) => all.late_reset.replace(share).is_none(),
                Fault::EarlyRetryAfter(by) => all.early_retry_after.replace(by).is_none(),
                Fault::Nodes(nodes) => all.nodes.replace(nodes).is_none(),
                Fault::Error(share) => all.error.replace(share).is_none(),
                Fault::Drop(share) => all.drop.replace(share).is_none(),
                Fault::Ban(refusals) => all.ban.replace(refusals).is_none(),
            };
            if !is_new {
                return Err(format!(
                    "--fault {fault}: a fault of this kind is given already: remove one"
                ));
            }
        }
        Ok(all)
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Fault, String> {
        let (name, value) = match text.trim().split_once('=') {
            Some((name, value)) => (name.trim(), Some(value.trim())),
            None => (text.trim(), None),
        };
        let whole = |least: u64, most: u64, example: u64| {
            value
                .and_then(|value| value.parse().ok())
                .filter(|number| (least..=most).contains(number))
                .ok_or_else(|| {
                    format!("not a whole number from {least} to {most}: write {name}={example}")
                })
        };
        match name {
            "race" if value.is_none() => Ok(Fault::Race),
            "late-reset" => Ok(Fault::LateReset(share(name, value.unwrap_or("25%"))?)),
            "early-retry-after" => duration::or_seconds(value.unwrap_or("1s")).map(Fault::EarlyRetryAfter),
            "nodes" => Ok(Fault::Nodes(whole(2, MAX_NODES as u64, 2)? as usize)),
            "error" => Ok(Fault::Error(share(name, value.unwrap_or("1%"))?)),
            "drop" => Ok(Fault::Drop(share(name, value.unwrap_or("1%"))?)),
            "ban" => whole(1, 1_000_000, 50).map(Fault::Ban),
            _ => Err("no such fault: write race, late-reset=25%, early-retry-after=1s, nodes=2, error=1%, drop=1% \
                      or ban=50"
                .to_owned()),
        }
    }
}

/// `25%`, or `0.25`.
fn share(name: &str, text: &str) -> Result<f64, String> {
    let share = text.parse::<Share>().ok().map(Share::get);
    share
        .filter(|share| *share > 0.0)
        .ok_or_else(|| format!("not a share above 0 and up to 100%: write {name}=1%"))
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Race => f.write_str("race"),
            Fault::LateReset(share) => write!(f, "late-reset={}%", share * 100.0),
            Fault::EarlyRetryAfter(by) => {
                write!(f, "early-retry-after={}", humantime::format_duration(*by))
            }
            Fault::Nodes(nodes) => write!(f, "nodes={nodes}"),
            Fault::Error(share) => write!(f, "error={}%", share * 100.0),
            Fault::Drop(share) => write!(f, "drop={}%", share * 100.0),
            Fault::Ban(refusals) => write!(f, "ban={refusals}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_as_they_are_shown() {
        for text in [
            "race",
            "late-reset=25%",
            "early-retry-after=1s",
            "nodes=2",
            "error=1%",
            "drop=1%",
            "ban=50",
        ] {
            assert_eq!(text.parse::<Fault>().unwrap().to_string(), text);
        }
        assert_eq!("late-reset".parse(), Ok(Fault::LateReset(0.25)));
        assert_eq!(
            "early-retry-after=2".parse(),
            Ok(Fault::EarlyRetryAfter(Duration::from_secs(2)))
        );
        for (text, expected) in [
            ("", "no such fault: write race"),
            ("race=1", "no such fault"),
            ("nodes", "from 2 to 100: write nodes=2"),
            ("nodes=1", "from 2 to 100"),
            ("error=0", "above 0 and up to 100%"),
            ("error=101%", "above 0 and up to 100%"),
            ("drop=NaN", "above 0 and up to 100%"),
            ("ban=0", "from 1 to 1000000"),
        ] {
            let error = text.parse::<Fault>().unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn faults_need_what_they_spoil() {
        for (limit, faults, expected) in [
            ("token 5/s", &["late-reset"][..], "write --limiter 'fixed"),
            (
                "queue 5/s burst 2",
                &["race"],
                "a rate limiter that refuses",
            ),
            (
                "none",
                &["early-retry-after"],
                "a rate limiter that refuses",
            ),
            ("none", &["nodes=2"], "needs a limiter"),
            ("none", &["ban=5"], "needs a limiter"),
            (
                "token 5/s",
                &["error=1%", "error=2%"],
                "of this kind is given already",
            ),
        ] {
            let faults: Vec<_> = faults.iter().map(|text| text.parse().unwrap()).collect();
            let error = Faults::of(&faults, &limit.parse().unwrap()).unwrap_err();
            assert!(error.contains(expected), "{limit} {faults:?}: {error}");
        }
        let all = [Fault::Race, Fault::LateReset(0.25), Fault::Nodes(2)];
        let all = Faults::of(&all, &"fixed 5/s".parse().unwrap()).unwrap();
        assert!(all.race && all.late_reset == Some(0.25) && all.nodes == Some(2));
    }
}
