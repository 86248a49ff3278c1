//! The limiters that the suite is run over: for each what it promises, what its types can take, and how it is built
//! on an explicit time.

mod better_bucket;
mod flowgate;
mod gcra;
mod governor;
mod leaky_bucket;
mod rate_net;
mod ratelimit;
mod simple_rate_limiter;
mod throttle_net;
mod throttlecrab;

use std::time::Duration;

use flowgate_testkit::Rate;
use flowgate_testkit::conformance::Contract;
use flowgate_testkit::promise::Kind;
use flowgate_testkit::script::{OperationOutcome, Retry, Setup};
use flowgate_testkit::subject::{Capabilities, Subject};

use crate::matrix::Slack;

/// What a builder lends its subject to.
pub type Test<'a> = &'a mut dyn FnMut(&mut dyn Subject);

/// A limiter of some crate, or why it cannot be judged.
#[derive(Clone, Copy)]
pub struct Peer {
    /// The crate with its version, and which of its limiters.
    pub name: &'static str,
    /// What it promises.
    pub kind: Kind,
    /// Which quotas it is asked to keep, in words.
    pub takes: &'static str,
    /// How it is given a time.
    pub driven: Driven,
    /// Where it differs from a contract and its documentation says so.
    pub documented: &'static [Documented],
}

/// Where a limiter differs from contracts, in the words of its documentation.
#[derive(Clone, Copy)]
pub struct Documented {
    /// From which.
    pub contracts: &'static [Contract],
    /// In what, and by how much.
    pub difference: Difference,
    /// The words.
    pub says: &'static str,
}

/// A difference that a documentation admits.
#[derive(Clone, Copy)]
pub enum Difference {
    /// It admits more, or refuses what would fit, by no more than this.
    Of(Slack),
    /// It would admit earlier than it told.
    EarlierThanTold,
    /// It makes no promise.
    Any,
}

/// How a limiter is given a time.
#[derive(Clone, Copy)]
pub enum Driven {
    /// It takes any time, also an earlier one.
    Any(Builder),
    /// Its time can only go forward.
    Forward(Builder),
    /// The caller says when a period is over; it has no time.
    Periods(Builder),
    /// It reads a clock that a test cannot set.
    Not(&'static str),
}

/// Builds a limiter.
#[derive(Clone, Copy)]
pub struct Builder {
    /// Whether it has types and constructors for such limits.
    pub takes: fn(&Limits) -> bool,
    /// What it can do.
    pub can: Capabilities,
    /// A [`flowgate_testkit::subject::BuildSubject`].
    pub build: fn(&Setup, Test<'_>),
}

/// A quota in the numbers that other crates are built with.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Tokens per period.
    pub count: u128,
    /// The period.
    pub period: Duration,
    /// Maximum burst.
    pub burst: u64,
}

impl Limits {
    /// Those of a setup, in units.
    pub fn of(setup: &Setup) -> Self {
        let rate = Rate::of(setup.quota);
        Self {
            count: rate.limit_units,
            period: Duration::from_nanos(rate.period_ns),
            burst: rate.burst_units,
        }
    }

    /// The count, where the type that the crate has for it can hold it.
    pub fn count<T: TryFrom<u128>>(&self) -> Option<T> {
        T::try_from(self.count).ok()
    }

    /// The burst, likewise.
    pub fn burst<T: TryFrom<u64>>(&self) -> Option<T> {
        T::try_from(self.burst).ok()
    }

    /// The time between two units, if it is a whole number of nanoseconds.
    pub fn interval(&self) -> Option<Duration> {
        let period_ns = self.period.as_nanos();
        if !period_ns.is_multiple_of(self.count) {
            return None;
        }
        u64::try_from(period_ns / self.count)
            .ok()
            .map(Duration::from_nanos)
    }

    /// Returns whether the limits need neither rounding nor large numbers.
    ///
    /// That is a whole number of milliseconds between units, and a burst that refills within a year.
    pub fn are_ordinary(&self) -> bool {
        const YEAR: Duration = Duration::from_secs(365 * 86_400);
        self.interval().is_some_and(|interval| {
            interval.subsec_nanos().is_multiple_of(1_000_000)
                && u128::from(self.burst) * interval.as_nanos() <= YEAR.as_nanos()
        })
    }
}

/// What most can do: take any amount, and tell when to come back.
const TELLS: Capabilities = Capabilities {
    costs: true,
    retry_after: true,
    ..Capabilities::NONE
};

/// All limiters, ours first.
pub fn all() -> Vec<Peer> {
    let mut peers = flowgate::PEERS.to_vec();
    peers.extend([
        governor::PEER,
        ratelimit::PEER,
        leaky_bucket::PEER,
        gcra::PEER,
        better_bucket::PEER,
        throttlecrab::PEER,
    ]);
    peers.extend(throttle_net::PEERS);
    peers.extend(rate_net::PEERS);
    peers.push(simple_rate_limiter::PEER);
    peers.extend([
        Peer {
            name: "throttle-kit 2.1.2",
            kind: Kind::Bucket,
            takes: "",
            driven: Driven::Not("its limiter reads a private Instant; see the defects"),
            documented: &[],
        },
        Peer {
            name: "async-rate-limiter 1.1.0",
            kind: Kind::Bucket,
            takes: "",
            driven: Driven::Not("its limiter reads a private Instant; see defects and waiting"),
            documented: &[],
        },
    ]);
    peers
}

/// Returns whether a limiter of this name belongs to flowgate, which must have no findings.
pub fn is_ours(name: &str) -> bool {
    name.starts_with("flowgate ")
}

impl Peer {
    /// Returns what the crate documents about a contract.
    pub fn documents(&self, contract: Contract) -> Option<&'static Documented> {
        let mut documented = self.documented.iter();
        documented.find(|documented| documented.contracts.contains(&contract))
    }
}

/// The answer of a crate that says yes, or for how long no; `None` for what it says never fits.
fn answer(decision: Result<(), Option<Duration>>) -> OperationOutcome {
    match decision {
        Ok(()) => OperationOutcome::Admitted,
        Err(Some(wait)) => OperationOutcome::Refused(Retry::After(wait)),
        Err(None) => OperationOutcome::Refused(Retry::Never),
    }
}

/// Reads "the longest duration there is" as never, for the crates that write it so.
fn unless_never(wait: Duration) -> Option<Duration> {
    Some(wait).filter(|wait| *wait != Duration::MAX)
}

/// Reservations: until when, and of how much.
#[derive(Default)]
struct Reserved(Vec<(u64, u32)>);

impl Reserved {
    /// Notes one for `wait` after `now_ns`.
    fn add(&mut self, n: u32, now_ns: u64, wait: Duration) -> OperationOutcome {
        let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        let at_ns = now_ns.saturating_add(wait_ns);
        self.0.push((at_ns, n));
        OperationOutcome::Promised { at_ns }
    }

    /// Takes one out, if its time is still ahead: later it has been used, and these crates ask that only what was
    /// not used is given back.
    fn cancel(&mut self, pick: usize, now_ns: u64) -> Option<u32> {
        let pick = pick.checked_rem(self.0.len())?;
        (self.0[pick].0 > now_ns).then(|| self.0.remove(pick).1)
    }
}
