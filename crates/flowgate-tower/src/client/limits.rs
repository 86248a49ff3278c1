//! What a client's layer may limit by: one limit for all hosts, or a limit for each.

use crate::AnyLimit;
use crate::limits::Permit;
use crate::limits::sealed::Sealed as _;
use flowgate::{
    Acquire, AsKey, Clock, Denied, Grant, KeyLimiter, KeyNames, KeyPermits, Keyed, KeyedAlgorithm,
    KeyedConcurrencyLimit, Limiter, OwnedKeyPermit, Quota, Timestamp,
};
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// The limit of a [`ClientLayer`](super::ClientLayer): an [`AnyLimit`] for all hosts, or [one for each](PerHost). Sealed.
///
/// ```
/// use flowgate::{ConcurrencyLimit, Keyed};
/// use flowgate_tower::client::{ClientLayer, ClientLimit};
/// use std::time::Duration;
///
/// /// What all clients of a program have in common.
/// fn usual<L: ClientLimit>(layer: ClientLayer<L>) -> ClientLayer<L> {
///     layer.within(Duration::from_secs(30)).max_pause(Duration::from_secs(600))
/// }
///
/// let each = usual(ClientLayer::new(Keyed::leaky_bucket("2/s".parse()?).capacity(1000)?));
/// let all = usual(ClientLayer::new(ConcurrencyLimit::new(20)));
/// # let _ = (each, all);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait ClientLimit: sealed::Sealed {}

impl<L: sealed::Sealed> ClientLimit for L {}

/// What [`ClientLayer::new`](super::ClientLayer::new) takes.
///
/// - Anything that becomes an [`AnyLimit`]: any rate limiter, a [`ConcurrencyLimit`](flowgate::ConcurrencyLimit), a
///   [`Gate`](flowgate::Gate), also in an [`Arc`]. All hosts share it.
/// - A [`Keyed`] or a [`KeyedConcurrencyLimit`], also in an [`Arc`]: a limit for each host.
///
/// ```
/// use flowgate::{ConcurrencyLimit, Gate, KeyedConcurrencyLimit, LeakyBucket};
/// use flowgate_tower::client::ClientLayer;
///
/// // 10 requests per second, and 5 at a time, to all hosts together.
/// let gate = Gate::builder()
///     .limit("rate", LeakyBucket::new("10/s".parse()?))
///     .limit("in flight", ConcurrencyLimit::new(5))
///     .build()?;
/// let layer = ClientLayer::new(gate);
/// // 5 at a time to each host.
/// let layer = ClientLayer::new(KeyedConcurrencyLimit::new(5, 1000)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait IntoClientLimit {
    /// The limit that it becomes.
    type Limit: ClientLimit;

    /// Converts it.
    fn into_client_limit(self) -> Self::Limit;
}

impl<T: Into<AnyLimit>> IntoClientLimit for T {
    type Limit = AnyLimit;

    fn into_client_limit(self) -> AnyLimit {
        self.into()
    }
}

/// A limit for each host: a table, and the host's name as the key. Made by [`ClientLayer::new`](super::ClientLayer::new).
///
/// ```
/// use flowgate::{Keyed, LeakyBucket};
/// use flowgate_tower::client::{ClientLayer, PerHost};
///
/// /// The clients of a program, in a struct: there they need a type.
/// struct Clients {
///     crawler: ClientLayer<PerHost<Keyed<LeakyBucket>>>,
/// }
///
/// let hosts = Keyed::leaky_bucket("2/s".parse()?).capacity(1000)?;
/// let clients = Clients { crawler: ClientLayer::new(hosts) };
/// # let _ = clients.crawler;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PerHost<T>(Arc<T>);

impl<T> Clone for PerHost<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: fmt::Debug> fmt::Debug for PerHost<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PerHost").field(&self.0).finish()
    }
}

macro_rules! into_client_limit {
    ($($table:ty $(where $algorithm:ident, $names:ident)?),*) => {$(
        impl$(<$algorithm: KeyedAlgorithm + 'static, $names: KeyNames + 'static>)? IntoClientLimit for $table
        where
            PerHost<$table>: ClientLimit,
        {
            type Limit = PerHost<$table>;

            fn into_client_limit(self) -> Self::Limit {
                PerHost(Arc::new(self))
            }
        }

        impl$(<$algorithm: KeyedAlgorithm + 'static, $names: KeyNames + 'static>)? IntoClientLimit for Arc<$table>
        where
            PerHost<$table>: ClientLimit,
        {
            type Limit = PerHost<$table>;

            fn into_client_limit(self) -> Self::Limit {
                PerHost(self)
            }
        }
    )*};
}

into_client_limit!(Keyed<A, N> where A, N, KeyedConcurrencyLimit);

pub(crate) mod sealed {
    use super::{Clock, Denied, Duration, Future, Permit, Timestamp, fmt};

    #[expect(
        clippy::ptr_arg,
        reason = "a table that keeps its keys knows `String`, and may not know `str`"
    )]
    pub trait Sealed: Clone + fmt::Debug + Send + Sync + 'static {
        /// A wait for a grant.
        type Turn: Future<Output = Result<Self::Granted, Denied>> + Unpin + Send + 'static;

        /// What a request is granted.
        type Granted;

        fn clock(&self) -> &Clock;

        /// Waits for a grant for `host`, until `deadline` at the latest.
        fn turn(&self, host: &String, deadline: Option<Timestamp>) -> Self::Turn;

        /// Returns a grant that is not used.
        fn give_back(&self, host: &String, granted: Self::Granted);

        /// What the request holds until its response has ended.
        fn hold(granted: Self::Granted) -> Option<Permit>;

        /// The time for each request at the limit's rate. `None` for a limit without a quota.
        fn each(&self, host: &String) -> Option<Duration>;
    }
}

fn by<W: flowgate::Acquirable>(turn: Acquire<W>, deadline: Option<Timestamp>) -> Acquire<W> {
    match deadline {
        Some(deadline) => turn.by(deadline),
        None => turn,
    }
}

/// The time for each token.
pub(crate) fn each_of(quota: Quota) -> Duration {
    let each = quota.period().as_nanos() / u128::from(quota.count().max(1));
    Duration::from_nanos(u64::try_from(each).unwrap_or(u64::MAX))
}

impl sealed::Sealed for AnyLimit {
    type Turn = crate::limits::AnyWait;
    type Granted = Option<Permit>;

    fn clock(&self) -> &Clock {
        match self {
            Self::Rate(limiter) => limiter.clock(),
            Self::Concurrency(limit) => limit.clock(),
            Self::Gate(gate) => gate.clock(),
        }
    }

    fn turn(&self, _: &String, deadline: Option<Timestamp>) -> Self::Turn {
        self.wait_by(deadline)
    }

    fn give_back(&self, _: &String, granted: Option<Permit>) {
        drop(granted);
        self.refund(&(), self.token(&()));
    }

    fn hold(granted: Option<Permit>) -> Option<Permit> {
        granted
    }

    fn each(&self, _: &String) -> Option<Duration> {
        let each = |limiter: &dyn Limiter| Some(each_of(limiter.policy()?.quota));
        match self {
            Self::Rate(limiter) => each(&**limiter),
            Self::Concurrency(_) => None,
            Self::Gate(gate) => {
                let names = gate.names();
                let times = names.filter_map(|name| gate.inspect_limiter(name, each).flatten());
                // The others are budgets of longer periods. They bound how many are sent, and not how fast.
                times.min()
            }
        }
    }
}

impl<A, N> sealed::Sealed for PerHost<Keyed<A, N>>
where
    A: KeyedAlgorithm + 'static,
    N: KeyNames + 'static,
    String: AsKey<N>,
    Keyed<A, N>: Send + Sync,
{
    type Turn = Acquire<KeyLimiter<'static, A, N>>;
    type Granted = Grant;

    fn clock(&self) -> &Clock {
        self.0.clock()
    }

    fn turn(&self, host: &String, deadline: Option<Timestamp>) -> Self::Turn {
        by(Acquire::new(self.0.key_owned(host)), deadline)
    }

    fn give_back(&self, host: &String, granted: Grant) {
        self.0.refund(host, granted.units());
    }

    fn hold(_: Grant) -> Option<Permit> {
        None
    }

    fn each(&self, host: &String) -> Option<Duration> {
        Some(each_of(self.0.key(host).policy()?.quota))
    }
}

impl sealed::Sealed for PerHost<KeyedConcurrencyLimit> {
    type Turn = Acquire<KeyPermits<Arc<KeyedConcurrencyLimit>>>;
    type Granted = OwnedKeyPermit;

    fn clock(&self) -> &Clock {
        self.0.clock()
    }

    fn turn(&self, host: &String, deadline: Option<Timestamp>) -> Self::Turn {
        by(self.0.acquire_owned(host), deadline)
    }

    fn give_back(&self, _: &String, granted: OwnedKeyPermit) {
        drop(granted);
    }

    fn hold(granted: OwnedKeyPermit) -> Option<Permit> {
        Some(Permit::Key(granted))
    }

    fn each(&self, _: &String) -> Option<Duration> {
        None
    }
}
