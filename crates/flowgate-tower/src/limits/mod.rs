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
use wait::{AnyWait, KeyWait, Turn, Wait};

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
    /// The time until there is more, exactly if it is over a second; none if there is all of it, or nobody knows.
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
        let is_whole = snapshot.remaining >= snapshot.limit;
        let more_after = (!is_whole).then(|| {
            // There is more when there is all of it, at the latest.
            if snapshot.reset_after <= Duration::from_secs(1) {
                return Some(snapshot.reset_after);
            }
            // Nothing is owed, so the next one comes when the quota says.
            if snapshot.remaining > 0 && is_steady && quota.is_some_and(is_one_a_second) {
                return Some(Duration::from_secs(1));
            }
            let next = (snapshot.remaining + 1).saturating_mul(token);
            match more(next) {
                // It has come in the meantime.
                Ok(()) => Some(Duration::from_nanos(1)),
                Err(denied) => denied.retry_after(),
            }
        });
        Self {
            name,
            snapshot,
            unit: Unit::Requests,
            quota,
            more_after: more_after.flatten(),
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

    /// The seconds in which all of it can be used once, rounded up: the period, if the burst is the count. `None` if
    /// there is no quota, or that is beyond what a `u64` holds.
    pub fn window_seconds(&self) -> Option<u64> {
        let quota = self.quota?;
        let period_ns = quota.period().as_nanos();
        let nanos = period_ns.checked_mul(self.snapshot.limit.into())?;
        // So that the quotient is in seconds. At most 2⁶⁴ · 10⁹.
        let count = u128::from(quota.count().max(1)) * 1_000_000_000;
        match (u64::try_from(nanos), u64::try_from(count)) {
            // Most fit, and a division of 64 bits takes a fraction of the time.
            (Ok(nanos), Ok(count)) => Some(nanos.div_ceil(count)),
            _ => u64::try_from(nanos.div_ceil(count)).ok(),
        }
    }
}

/// Whether a token takes a second at the most.
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
