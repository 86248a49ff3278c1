//! Limiters that are not part of this library.

#[cfg(feature = "fleet")]
mod fleet;
mod wait;

pub use wait::CustomWait;

use super::table::sealed::Sealed;
use super::{Answer, Names, Patience, Permit, Standing, standing};
use flowgate::{Clock, Denied, Quota};
use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A limiter of your own, for [`LimitLayer`](crate::LimitLayer) and [`ClientLayer`](crate::client::ClientLayer).
///
/// Use it for a limiter that calls a database or another service, or for an algorithm that this library does not have.
///
/// Implement [`decide`](Self::decide), and pass the limiter to a layer in a [`Custom`]. The layer does the rest: keys,
/// exemptions, waiting, dry run, responses with `Retry-After`, header fields and counts. Code that cannot wait, such as a
/// sampler of traces, takes an [`ImmediateLimit`](flowgate::ImmediateLimit) instead.
///
/// `K` is the type of the key: that of a [`KeySource`](crate::by::KeySource), the host (a `String`) in a `ClientLayer`, or
/// `()` for one limit that all requests share.
///
/// # Examples
///
/// A fixed window of one day for each tenant, in a store that all servers share:
///
/// ```
/// use flowgate::{Denied, Quota};
/// use flowgate_tower::{Admission, Custom, CustomLimit, Deciding, LimitLayer, by};
/// use http::{Request, Response};
/// use std::collections::HashMap;
/// use std::future::Future;
/// use std::pin::Pin;
/// use std::sync::{Arc, Mutex};
/// use std::time::Duration;
/// # use std::convert::Infallible;
/// # use tower::{Layer, ServiceExt, service_fn};
/// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
///
/// /// What the program needs of its database.
/// trait Store: Send + Sync {
///     /// Adds `n` to a counter, unless that makes more than `limit`. Returns what is left, or the time until the counter is
///     /// reset.
///     fn add(&self, counter: String, n: u64, limit: u64) -> Pin<Box<dyn Future<Output = Added> + Send + '_>>;
/// }
///
/// type Added = Result<Result<u64, Duration>, std::io::Error>;
///
/// struct Daily {
///     store: Box<dyn Store>,
///     quota: Quota,
/// }
///
/// impl CustomLimit<String> for Daily {
///     fn decide(self: Arc<Self>, tenant: String, n: u64) -> Deciding {
///         Box::pin(async move {
///             let limit = self.quota.count();
///             if n > limit {
///                 return Err(Denied::never(n, limit));
///             }
///             match self.store.add(format!("requests:{tenant}"), n, limit).await {
///                 Ok(Ok(left)) => Ok(Admission::new().remaining(left)),
///                 Ok(Err(reset_after)) => Err(Denied::retry_in(reset_after)),
///                 Err(error) => {
///                     eprintln!("rate limits: {error}");
///                     Err(Denied::outage())
///                 }
///             }
///         })
///     }
///
///     fn quota(&self, _: &String) -> Option<Quota> {
///         Some(self.quota)
///     }
/// }
///
/// // In memory here; in a program, a table of Postgres or a key of Redis.
/// #[derive(Default)]
/// struct Memory(Mutex<HashMap<String, u64>>);
///
/// impl Store for Memory {
///     fn add(&self, counter: String, n: u64, limit: u64) -> Pin<Box<dyn Future<Output = Added> + Send + '_>> {
///         Box::pin(async move {
///             let mut counters = self.0.lock().map_err(|_| std::io::Error::other("poisoned"))?;
///             let count = counters.entry(counter).or_default();
///             if *count + n > limit {
///                 return Ok(Err(Duration::from_secs(3600)));
///             }
///             *count += n;
///             Ok(Ok(limit - *count))
///         })
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let daily = Daily { store: Box::new(Memory::default()), quota: Quota::per_day(1) };
/// let layer = LimitLayer::keyed(Custom::new(daily), by::header("x-tenant"));
/// let service = layer.layer(service_fn(answer));
/// let ask = || Request::get("/").header("x-tenant", "shop").body(String::new());
///
/// let response = service.clone().oneshot(ask()?).await?;
/// assert_eq!(response.headers()["ratelimit"], "\"default\";r=0");
/// let refused = service.oneshot(ask()?).await?;
/// assert_eq!(refused.status(), 429);
/// assert_eq!(refused.headers()["retry-after"], "3600");
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Refusals and outages
///
/// | result of `decide` | response |
/// |---|---|
/// | [`Denied::retry_in`] | 429, with `Retry-After`; a layer that waits calls `decide` again then |
/// | [`Denied::never`] | 429, without `Retry-After` |
/// | [`Denied::busy`], [`Denied::queue_full`] | as those of a [`ConcurrencyLimit`](flowgate::ConcurrencyLimit) |
/// | [`Denied::closed`] | 503 |
/// | [`Denied::outage`] | 503, or the request is admitted: [`Custom::admit_during_outages`] |
///
/// # Waiting
///
/// A layer that waits calls `decide` again after the time in the refusal. It keeps no queue, so a later request may be
/// admitted first.
///
/// A time that is too short does no harm. After a refusal with less than 1 ms, the layer calls `decide` again after 1 ms,
/// then after 2 ms, and so on up to one second. The 17th such refusal in a row is final.
///
/// # Cancel safety
///
/// The layer drops the future if the client disconnects, or when the [timeout](Custom::timeout) ends. What the future has
/// taken by then is lost, unless its own `Drop` returns it.
pub trait CustomLimit<K = ()>: Send + Sync + 'static {
    /// Decides whether to admit a request of `key` that costs `n` units.
    ///
    /// `n` is the result of [`LimitLayer::cost`](crate::LimitLayer::cost), or 1. The limiter takes all of the units, or
    /// none.
    ///
    /// # Errors
    ///
    /// The future returns [`Denied`], made by one of its constructors, if the request is not admitted.
    fn decide(self: Arc<Self>, key: K, n: u64) -> Deciding;

    /// Returns the quota of `key`, for `RateLimit-Policy` (default: none, and there are no such fields).
    fn quota(&self, key: &K) -> Option<Quota> {
        let _ = key;
        None
    }

    /// Returns `n` units that were not needed (default: does nothing).
    ///
    /// [`LimitLayer::settle`](crate::LimitLayer::settle) calls it, and a `ClientLayer` whose host asks for a pause.
    fn refund(&self, key: &K, n: u64) {
        let _ = (key, n);
    }

    /// Takes `n` more units for work that is already done (default: does nothing).
    ///
    /// [`LimitLayer::settle`](crate::LimitLayer::settle) calls it.
    fn charge(&self, key: &K, n: u64) {
        let _ = (key, n);
    }
}

/// What [`CustomLimit::decide`] returns: `Box::pin(async move { … })`.
///
/// ```
/// use flowgate::Denied;
/// use flowgate_tower::{Admission, Deciding};
///
/// /// While there is maintenance, there are no requests.
/// fn closed() -> Deciding {
///     Box::pin(async { Err(Denied::closed()) })
/// }
/// # let _ = closed();
/// ```
pub type Deciding = Pin<Box<dyn Future<Output = Result<Admission, Denied>> + Send>>;

/// A request that a [`CustomLimit`] admits.
///
/// ```
/// use flowgate_tower::Admission;
/// use std::sync::Arc;
///
/// let in_flight = Arc::new(());
/// let admission = Admission::new().remaining(7).holding(Arc::clone(&in_flight));
/// assert_eq!(Arc::strong_count(&in_flight), 2);
/// drop(admission); // the layer does that when the response has ended
/// assert_eq!(Arc::strong_count(&in_flight), 1);
/// ```
#[derive(Default)]
pub struct Admission {
    remaining: Option<u64>,
    held: Option<Box<dyn Any + Send + Sync>>,
    is_of_outage: bool,
}

impl Admission {
    /// Creates an admission that reports nothing and holds nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of tokens that are left, for the `RateLimit` field. It needs a [quota](CustomLimit::quota).
    #[must_use]
    pub fn remaining(self, tokens: u64) -> Self {
        Self {
            remaining: Some(tokens),
            ..self
        }
    }

    /// Keeps `guard`, such as a permit, until the request is done.
    ///
    /// A request is done when its response's body has ended, or when it has failed or is canceled. The layer then drops
    /// `guard`.
    #[must_use]
    pub fn holding(self, guard: impl Send + Sync + 'static) -> Self {
        Self {
            held: Some(Box::new(guard)),
            ..self
        }
    }

    fn of_outage() -> Self {
        Self {
            is_of_outage: true,
            ..Self::default()
        }
    }

    /// Whether the limiter could not decide.
    pub(crate) fn is_of_outage(&self) -> bool {
        self.is_of_outage
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission")
            .field("remaining", &self.remaining)
            .field("holds", &self.held.is_some())
            .finish_non_exhaustive()
    }
}

/// A [`CustomLimit`] as a layer takes it.
///
/// | setting | default |
/// |---|---|
/// | [`timeout`](Self::timeout) | one second |
/// | during an outage | requests are rejected ([`admit_during_outages`](Self::admit_during_outages)) |
/// | [`with_clock`](Self::with_clock) | [`Clock::system`] |
///
/// ```
/// use flowgate::Denied;
/// use flowgate_tower::client::ClientLayer;
/// use flowgate_tower::{Admission, Custom, CustomLimit, Deciding, LimitLayer};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// /// Asks a service of the company.
/// struct Budget;
///
/// impl CustomLimit for Budget {
///     fn decide(self: Arc<Self>, _: (), n: u64) -> Deciding {
///         Box::pin(async move { if n < 10 { Ok(Admission::new()) } else { Err(Denied::never(n, 9)) } })
///     }
/// }
///
/// let budget: Arc<dyn CustomLimit> = Arc::new(Budget); // which one may depend on the configuration
/// let custom = Custom::from(budget).timeout(Duration::from_millis(50)).admit_during_outages();
/// let server = LimitLayer::new(custom);
/// let client = ClientLayer::new(Custom::new(Budget));
/// # let _ = (server, client);
/// ```
pub struct Custom<K = ()> {
    limit: Arc<dyn CustomLimit<K>>,
    clock: Clock,
    timeout: Duration,
    admits_outages: bool,
}

impl<K: 'static> Custom<K> {
    /// Wraps `limit`, with the default settings.
    pub fn new(limit: impl CustomLimit<K>) -> Self {
        Self::from(Arc::new(limit) as Arc<dyn CustomLimit<K>>)
    }
}

impl<K> Custom<K> {
    /// Sets how long a decision may take. After that, it counts as an [outage](Denied::outage).
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Admits requests during outages: [`Denied::outage`], or no decision in time.
    ///
    /// [`Counts::outages`](crate::Counts::outages) counts them either way.
    #[must_use]
    pub fn admit_during_outages(self) -> Self {
        Self {
            admits_outages: true,
            ..self
        }
    }

    /// Sets the clock for waits and for the timeout.
    #[must_use]
    pub fn with_clock(self, clock: impl Into<Clock>) -> Self {
        let clock = clock.into();
        Self { clock, ..self }
    }
}

impl<K: 'static> Custom<K> {
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn ask(
        self: &Arc<Self>,
        key: K,
        cost: Option<u64>,
        patience: Patience,
    ) -> CustomWait<K> {
        CustomWait::new(Arc::clone(self), key, cost.unwrap_or(1), patience)
    }

    pub(crate) fn refund(&self, key: &K, n: u64) {
        self.limit.refund(key, n);
    }

    pub(crate) fn charge(&self, key: &K, n: u64) {
        self.limit.charge(key, n);
    }

    pub(crate) fn standings(
        &self,
        key: &K,
        names: &Names,
        answer: Answer<'_>,
        mut tell: impl FnMut(&Standing<'_>),
    ) {
        let Some(quota) = self.limit.quota(key) else {
            return;
        };
        let remaining = |permit: &Permit| permit.admission()?.remaining;
        let (remaining, more_after) = match answer {
            Ok(permit) => match permit.and_then(remaining) {
                Some(remaining) => (remaining, None),
                None => return,
            },
            Err(denied) if denied.retry_after().is_some() => (0, denied.retry_after()),
            Err(_) => return,
        };
        tell(&Standing::of_answer(
            &names.limit,
            quota,
            remaining,
            more_after,
        ));
    }

    pub(crate) fn each(&self, key: &K) -> Option<Duration> {
        self.limit.quota(key).map(standing::each_of)
    }
}

impl<K> From<Arc<dyn CustomLimit<K>>> for Custom<K> {
    fn from(limit: Arc<dyn CustomLimit<K>>) -> Self {
        Self {
            limit,
            clock: Clock::system(),
            timeout: Duration::from_secs(1),
            admits_outages: false,
        }
    }
}

impl<K: Clone + Send + Sync + 'static> Sealed<K> for Custom<K> {
    type Wait = CustomWait<K>;

    fn clock(&self) -> &Clock {
        self.clock()
    }

    fn try_take(
        self: &Arc<Self>,
        _: &K,
        _: Option<&Quota>,
        _: Option<u64>,
    ) -> Result<Option<Permit>, Denied> {
        Err(Denied::busy())
    }

    fn takes_time(&self) -> bool {
        true
    }

    fn wait(
        self: &Arc<Self>,
        key: &K,
        _: Option<&Quota>,
        cost: Option<u64>,
        patience: Patience,
    ) -> Self::Wait {
        self.ask(key.clone(), cost, patience)
    }

    fn token(&self, _: Option<&Quota>) -> u64 {
        1
    }

    fn refund(&self, key: &K, _: Option<&Quota>, n: u64) {
        self.refund(key, n);
    }

    fn charge(&self, key: &K, _: Option<&Quota>, n: u64) {
        self.charge(key, n);
    }

    fn standings(
        &self,
        key: &K,
        _: Option<&Quota>,
        names: &Names,
        answer: Answer<'_>,
        tell: impl FnMut(&Standing<'_>),
    ) {
        self.standings(key, names, answer, tell);
    }

    fn each(&self, key: &K) -> Option<Duration> {
        self.each(key)
    }
}

impl<K> fmt::Debug for Custom<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Custom")
            .field("timeout", &self.timeout)
            .field("admits_outages", &self.admits_outages)
            .finish_non_exhaustive()
    }
}
