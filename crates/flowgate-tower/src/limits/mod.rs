//! What a layer may be a layer of: [`Limits`].

mod any;
mod per_key;
mod table;
mod wait;

pub use any::AnyLimit;
pub use per_key::{Missing, PerKey};
pub use table::{IntoTable, Table};

use crate::RequestHead;
use crate::by::NoKey;
use flowgate::{Denied, Gate, KeyedError, Limiter, OwnedKeyPermit, OwnedPermit, Quota, Snapshot};
use std::fmt;
use std::time::Duration;
pub(crate) use wait::AnyWait;
use wait::{KeyWait, Turn, Wait};

/// Whatever a [`LimitLayer`](crate::LimitLayer) asks: [`AnyLimit`], or a limit [for each key](PerKey). Sealed.
///
/// ```
/// use flowgate::{ConcurrencyLimit, Keyed};
/// use flowgate_tower::{LimitLayer, Limits, by};
/// use http::{Request, Response};
/// # use std::convert::Infallible;
/// # use tower::{Layer, ServiceExt, service_fn};
/// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// /// What all layers of a program have in common, whatever they limit by.
/// fn usual<L: Limits>(layer: LimitLayer<L>) -> LimitLayer<L> {
///     layer.exempt_paths(["/health"])
/// }
///
/// let limits = Keyed::token_bucket("100/min".parse()?).capacity(1000)?;
/// let each = usual(LimitLayer::keyed(limits, by::header("x-api-key")));
/// let all = usual(LimitLayer::new(ConcurrencyLimit::new(0)));
/// let service = each.layer(all.layer(service_fn(answer)));
/// let response = service.oneshot(Request::get("/health").body(String::new())?).await?;
/// assert!(response.status().is_success());
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub trait Limits: sealed::Sealed {}

impl<L: sealed::Sealed> Limits for L {}

pub(crate) mod sealed {
    use super::{Cause, Denied, Duration, Permit, RequestHead, Standing, Wait};

    pub trait Sealed: Clone + Send + Sync + 'static {
        /// Whose limit it is, for as long as the request lasts.
        type Key: Send + 'static;

        /// A wait for a turn, by itself.
        type Wait: Wait;

        /// Whose request it is; `None` if no limit is meant for it.
        fn key(&self, request: &RequestHead<'_>) -> Result<Option<Self::Key>, Cause>;

        /// Takes `cost` units, or one token, at once. What is held until the end, if it is more than tokens.
        fn try_take(&self, key: &Self::Key, cost: Option<u64>) -> Result<Option<Permit>, Denied>;

        /// Takes them in turn, within `patience`.
        fn wait(&self, key: &Self::Key, cost: Option<u64>, patience: Duration) -> Self::Wait;

        /// How many units one token is.
        fn token(&self, key: &Self::Key) -> u64;

        /// Gives back `n` units that turned out not to be needed.
        fn refund(&self, key: &Self::Key, n: u64);

        /// Takes `n` units more, for what has already been done.
        fn charge(&self, key: &Self::Key, n: u64);

        /// How each of its limits stands now.
        fn standings(&self, key: &Self::Key, name: &str, tell: impl FnMut(&Standing<'_>));

        /// The name of the limit that refused, if it is not the layer's.
        fn name_of(&self, denied: &Denied) -> Option<&str>;

        /// Whether it is the client's own limit, not one that it shares with others.
        fn is_the_clients(&self, key: &Self::Key) -> bool;
    }
}

/// What a request holds while it lasts.
pub enum Permit {
    Slots(OwnedPermit),
    Gate(OwnedPermit<Gate>),
    Key(OwnedKeyPermit),
}

impl Permit {
    /// How many slots are in use by it.
    fn slots(&self) -> u64 {
        match self {
            Self::Slots(permit) => permit.units(),
            Self::Gate(permit) => permit.units(),
            Self::Key(permit) => permit.units(),
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permit({})", self.slots())
    }
}

/// Why a request was not let through.
#[derive(Clone, Debug, PartialEq)]
pub enum Cause {
    Denied(Denied),
    NoKey(NoKey),
    /// A quota of the key's own that this kind of limiter cannot keep.
    Quota(KeyedError),
}

/// How a limit stands at one instant.
#[derive(Debug)]
pub struct Standing<'a> {
    pub name: &'a str,
    /// In tokens.
    pub snapshot: Snapshot,
    pub unit: Unit,
    pub quota: Option<Quota>,
    /// The time until another token is available: exact if none remains. If some remain, the time is only there if
    /// it is a second or more.
    pub more_after: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Requests,
    ConcurrentRequests,
}

impl<'a> Standing<'a> {
    /// Of any limiter of rate.
    fn of_limiter(name: &'a str, limiter: &dyn Limiter) -> Self {
        let policy = limiter.policy();
        let quota = policy.map(|policy| policy.quota);
        let is_steady = policy.is_some_and(|policy| policy.is_steady);
        let more = |n| limiter.peek_n_at(limiter.clock().now(), n);
        Self::of_rate(name, limiter.snapshot(), quota, is_steady, more)
    }

    /// Of a limit of rate. `more` says when as many units as it is given can be had.
    fn of_rate(
        name: &'a str,
        snapshot: Snapshot,
        quota: Option<Quota>,
        is_steady: bool,
        more: impl FnOnce(u64) -> Result<(), Denied>,
    ) -> Self {
        let token = quota.map_or(1, |quota| quota.scale());
        // Whole tokens, so that nobody is told of one that is not there.
        let snapshot = in_tokens(snapshot, token);
        let more_after = match snapshot.remaining {
            remaining if remaining >= snapshot.limit => None,
            // The bucket is full when its only token is back.
            0 if snapshot.limit == 1 && is_steady => Some(snapshot.reset_after),
            0 => time_until(more(token)),
            // In whole seconds there is nothing to report.
            _ if snapshot.reset_after < Duration::from_secs(1) => None,
            // There is no debt, so the quota determines when the next token comes.
            _ if is_steady && quota.is_some_and(is_one_a_second) => None,
            remaining => {
                let more_after = time_until(more((remaining + 1).saturating_mul(token)));
                more_after.filter(|more_after| *more_after >= Duration::from_secs(1))
            }
        };
        Self {
            name,
            snapshot,
            unit: Unit::Requests,
            quota,
            more_after,
        }
    }

    fn of_slots(name: &'a str, snapshot: Snapshot) -> Self {
        Self {
            name,
            snapshot,
            unit: Unit::ConcurrentRequests,
            quota: None,
            more_after: None,
        }
    }

    /// What flows in during a whole number of seconds, as tokens and seconds: at least the limit, and at most 1 % less than
    /// the quota. `None` if there is no quota, or if the seconds do not fit into a `u64`.
    pub fn quota_and_window(&self) -> Option<(u64, u64)> {
        let quota = self.quota?;
        let limit = self.snapshot.limit;
        let period_ns = quota.period().as_nanos();
        let tokens = u128::from(quota.count().max(1));
        // Less than a token.
        if limit == 0 {
            return Some((0, 1));
        }
        // Both at most 2⁶⁴ · 10⁹.
        let fills_ns = period_ns.checked_mul(limit.into())?;
        let tokens_ns = tokens * NS_PER_SECOND;
        let seconds = u64::try_from(fills_ns.div_ceil(tokens_ns)).ok()?.max(1);
        // Rounding up is at most 1 % then, if it rounds at all.
        if fills_ns == u128::from(seconds) * tokens_ns || seconds > MOST_SCALED {
            return Some((limit, seconds));
        }
        // The least number of seconds that give whole tokens.
        let whole = period_ns / greatest_common_divisor(tokens_ns, period_ns);
        if let Ok(whole @ 1..=MOST_SCALED) = u64::try_from(whole) {
            let window = seconds.next_multiple_of(whole);
            let flows_in = tokens_ns.checked_mul(window.into())? / period_ns;
            return Some((u64::try_from(flows_in).unwrap_or(u64::MAX), window));
        }
        // So many fillings that rounding up is at most 1 %.
        let times = (u128::from(MOST_SCALED) * tokens_ns).div_ceil(fills_ns);
        let window = times.checked_mul(fills_ns)?.div_ceil(tokens_ns);
        let quota = times.checked_mul(limit.into())?;
        Some((
            u64::try_from(quota).unwrap_or(u64::MAX),
            u64::try_from(window).ok()?,
        ))
    }
}

const NS_PER_SECOND: u128 = 1_000_000_000;

/// The longest window that is chosen such that its quota is a whole number, in seconds.
const MOST_SCALED: u64 = 100;

fn greatest_common_divisor(a: u128, b: u128) -> u128 {
    match b {
        0 => a,
        b => greatest_common_divisor(b, a % b),
    }
}

/// The time after which `answer` would be yes; 1 ns if it is by now.
fn time_until(answer: Result<(), Denied>) -> Option<Duration> {
    match answer {
        Ok(()) => Some(Duration::from_nanos(1)),
        Err(denied) => denied.retry_after(),
    }
}

/// Whether a token takes one second or less.
fn is_one_a_second(quota: Quota) -> bool {
    quota.period() <= Duration::from_secs(quota.count())
}

fn in_tokens(mut snapshot: Snapshot, token: u64) -> Snapshot {
    if token != 1 {
        snapshot.limit /= token;
        snapshot.remaining /= token;
    }
    snapshot
}
