//! What a client's layer may limit by: one limit for all hosts, or a limit for each.

use crate::limits::sealed::Sealed as _;
use crate::limits::{self, AnyLimit, AnyWait, Custom, Permit, Table};
use flowgate::{
    AnyKeyed, Clock, KeyNames, Keyed, KeyedAlgorithm, KeyedConcurrencyLimit, KeyedGate, Timestamp,
};
use std::fmt;
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
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a limit of a `ClientLayer`",
    note = "layers are made by `ClientLayer::new(limit)`",
    note = "a limiter of your own implements `CustomLimit<String>`, and is passed as `Custom::new(limiter)`"
)]
pub trait ClientLimit: sealed::Sealed {}

impl<L: sealed::Sealed> ClientLimit for L {}

/// What [`ClientLayer::new`](super::ClientLayer::new) takes.
///
/// - Anything that becomes an [`AnyLimit`]: any rate limiter, a [`ConcurrencyLimit`](flowgate::ConcurrencyLimit), a
///   [`Gate`](flowgate::Gate), also in an [`Arc`]. All hosts share it.
/// - A [`Keyed`], [`KeyedConcurrencyLimit`], [`KeyedGate`] or [`AnyKeyed`], also in an [`Arc`]: a limit for each host.
/// - A [`Custom<String>`](Custom), for each host, or a `Custom<()>`, which all hosts share.
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
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a limit of a `ClientLayer`",
    note = "a limiter of your own implements `CustomLimit<String>` (for each host) or `CustomLimit<()>` (for all), and is passed as `Custom::new(limiter)`"
)]
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
    ($([$($parameters:tt)*] $table:ty),* $(,)?) => {$(
        impl<$($parameters)*> IntoClientLimit for $table
        where
            PerHost<$table>: ClientLimit,
        {
            type Limit = PerHost<$table>;

            fn into_client_limit(self) -> Self::Limit {
                PerHost(Arc::new(self))
            }
        }

        impl<$($parameters)*> IntoClientLimit for Arc<$table>
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

into_client_limit!(
    [A: KeyedAlgorithm + 'static, N: KeyNames + 'static] Keyed<A, N>,
    [A: KeyedAlgorithm + 'static, N: KeyNames + 'static] KeyedGate<A, N>,
    [] KeyedConcurrencyLimit,
    [] AnyKeyed,
    [] Custom<String>,
);

pub(crate) mod sealed {
    use super::{Clock, Duration, Permit, Timestamp, fmt};
    use crate::limits::Wait;

    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not a limit of a `ClientLayer`",
        note = "layers are made by `ClientLayer::new(limit)`",
        note = "a limiter of your own implements `CustomLimit<String>`, and is passed as `Custom::new(limiter)`"
    )]
    #[expect(
        clippy::ptr_arg,
        reason = "a table that keeps its keys knows `String`, and may not know `str`"
    )]
    pub trait Sealed: Clone + fmt::Debug + Send + Sync + 'static {
        /// A wait for a grant.
        type Turn: Wait;

        fn clock(&self) -> &Clock;

        /// Waits for a grant for `host`, until `deadline` at the latest.
        fn turn(&self, host: &String, deadline: Option<Timestamp>) -> Self::Turn;

        /// Returns a grant that is not used.
        fn give_back(&self, host: &String, granted: Option<Permit>);

        /// The time for each request at the limit's rate. `None` for a limit without a quota.
        fn each(&self, host: &String) -> Option<Duration>;
    }
}

impl sealed::Sealed for AnyLimit {
    type Turn = AnyWait;

    fn clock(&self) -> &Clock {
        limits::sealed::Sealed::clock(self)
    }

    fn turn(&self, _: &String, deadline: Option<Timestamp>) -> AnyWait {
        self.wait(&(), None, deadline.into())
    }

    fn give_back(&self, _: &String, granted: Option<Permit>) {
        drop(granted);
        self.refund(&(), self.token(&()));
    }

    fn each(&self, _: &String) -> Option<Duration> {
        AnyLimit::each(self)
    }
}

impl<T: Table<String>> sealed::Sealed for PerHost<T> {
    type Turn = T::Wait;

    fn clock(&self) -> &Clock {
        self.0.clock()
    }

    fn turn(&self, host: &String, deadline: Option<Timestamp>) -> T::Wait {
        self.0.wait(host, None, None, deadline.into())
    }

    fn give_back(&self, host: &String, granted: Option<Permit>) {
        drop(granted);
        self.0.refund(host, None, self.0.token(None));
    }

    fn each(&self, host: &String) -> Option<Duration> {
        self.0.each(host)
    }
}
