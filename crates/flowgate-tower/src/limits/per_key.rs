use super::sealed::Sealed;
use super::{Answer, AnyLimit, Cause, KeyWait, Names, Patience, Permit, Standing, Table};
use crate::RequestHead;
use crate::by::{KeySource, NoKey};
use crate::counts::{CountsHandle, count};
use flowgate::{Clock, Denied, KeyedError, Quota};
use std::fmt;
use std::sync::Arc;

/// A limit for each key: a [`Table`], and the source of the requests' keys.
///
/// ```
/// use flowgate::KeyedConcurrencyLimit;
/// use flowgate_tower::by::{self, Header};
/// use flowgate_tower::{LimitLayer, PerKey};
///
/// /// The layers of a program, in a struct: there they need a type.
/// struct Layers {
///     downloads: LimitLayer<PerKey<KeyedConcurrencyLimit, Header>>,
/// }
///
/// let limits = KeyedConcurrencyLimit::new(3, 10_000)?;
/// let layers = Layers { downloads: LimitLayer::keyed(limits, by::header("x-api-key")) };
/// assert_eq!(layers.downloads.counts().get().admitted, 0);
/// # Ok::<(), flowgate::KeyedError>(())
/// ```
pub struct PerKey<T, S: KeySource> {
    table: Arc<T>,
    source: S,
    missing: Missing,
    own_quota: Option<OwnQuota<S::Key>>,
    /// The layer's, for requests that the server itself is to blame for.
    counts: CountsHandle,
}

type OwnQuota<K> = Arc<dyn Fn(&RequestHead<'_>, &K) -> Option<Quota> + Send + Sync>;

/// The treatment of a request without a key, or with an unreadable one.
///
/// ```
/// use flowgate::{Keyed, TokenBucket};
/// use flowgate_tower::{LimitLayer, Missing, by};
/// use http::{Request, Response};
/// # use std::convert::Infallible;
/// # use tower::{Layer, ServiceExt, service_fn};
/// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let nobody = TokenBucket::new("1/h".parse()?);
/// for (missing, statuses) in [
///     (Missing::Reject, [400, 400]),
///     (Missing::Share(nobody.into()), [200, 429]),
///     (Missing::Exempt, [200, 200]),
/// ] {
///     let limits = Keyed::token_bucket("100/min".parse()?).capacity(1000)?;
///     let layer = LimitLayer::keyed(limits, by::header("x-api-key")).missing(missing);
///     let service = layer.layer(service_fn(answer));
///     for status in statuses {
///         let response = service.clone().oneshot(Request::new(String::new())).await?;
///         assert_eq!(response.status(), status);
///     }
/// }
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Missing {
    /// The request is rejected with `400 Bad Request`.
    ///
    /// If the server's configuration is the reason, the status is `500 Internal Server Error`
    /// ([`NoKey`](crate::by::NoKey)).
    #[default]
    Reject,
    /// All such requests share this limit.
    Share(AnyLimit),
    /// The request is admitted. A client that leaves out the key then has no limit.
    Exempt,
}

/// Whose limit it is.
#[derive(Debug)]
pub enum Who<K> {
    /// A key, and its own quota; apart, as few have one, and it is large.
    Known(K, Option<Box<Quota>>),
    /// One of those without a key, with the limit that they share.
    Nobody(AnyLimit),
}

impl<T, S: KeySource> PerKey<T, S> {
    pub(crate) fn new(table: Arc<T>, source: S, counts: CountsHandle) -> Self {
        Self {
            table,
            source,
            missing: Missing::Reject,
            own_quota: None,
            counts,
        }
    }

    pub(crate) fn set_missing(&mut self, missing: Missing) {
        self.missing = missing;
    }

    pub(crate) fn set_own_quota(&mut self, own: OwnQuota<S::Key>) {
        self.own_quota = Some(own);
    }
}

impl<T: Table<S::Key>, S: KeySource> PerKey<T, S> {
    /// Whether the table can keep `quota`.
    pub(crate) fn check(&self, quota: Quota) -> Result<(), KeyedError> {
        self.table.check(quota)
    }

    #[cold]
    fn without_key(&self, no_key: NoKey) -> Result<Option<Who<S::Key>>, Cause> {
        if no_key.is_the_servers_fault() {
            count(&self.counts.counters.misconfigured);
        }
        match &self.missing {
            Missing::Reject => Err(Cause::NoKey(no_key)),
            Missing::Share(limit) => Ok(Some(Who::Nobody(limit.clone()))),
            Missing::Exempt => Ok(None),
        }
    }
}

impl<T, S: KeySource> Clone for PerKey<T, S> {
    fn clone(&self) -> Self {
        Self {
            table: Arc::clone(&self.table),
            source: self.source.clone(),
            missing: self.missing.clone(),
            own_quota: self.own_quota.clone(),
            counts: self.counts.clone(),
        }
    }
}

impl<T: fmt::Debug, S: KeySource> fmt::Debug for PerKey<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerKey")
            .field("table", &self.table)
            .field("missing", &self.missing)
            .finish_non_exhaustive()
    }
}

impl<T: Table<S::Key>, S: KeySource> Sealed for PerKey<T, S> {
    type Key = Who<S::Key>;
    type Wait = KeyWait<T::Wait>;

    fn clock(&self) -> &Clock {
        self.table.clock()
    }

    fn key(&self, request: &RequestHead<'_>) -> Result<Option<Self::Key>, Cause> {
        let key = match self.source.key(request) {
            Ok(key) => key,
            Err(no_key) => return self.without_key(no_key),
        };
        let own = self.own_quota.as_ref().and_then(|own| own(request, &key));
        if let Some(own) = own {
            self.table.check(own).map_err(|error| {
                count(&self.counts.counters.misconfigured);
                Cause::Quota(error)
            })?;
        }
        Ok(Some(Who::Known(key, own.map(Box::new))))
    }

    fn try_take(&self, key: &Self::Key, cost: Option<u64>) -> Result<Option<Permit>, Denied> {
        match key {
            Who::Known(key, own) => self.table.try_take(key, own.as_deref(), cost),
            Who::Nobody(limit) => limit.try_take(&(), cost),
        }
    }

    fn takes_time(&self, key: &Self::Key) -> bool {
        match key {
            Who::Known(..) => self.table.takes_time(),
            Who::Nobody(limit) => limit.takes_time(&()),
        }
    }

    fn wait(&self, key: &Self::Key, cost: Option<u64>, patience: Patience) -> Self::Wait {
        match key {
            Who::Known(key, own) => {
                KeyWait::Known(self.table.wait(key, own.as_deref(), cost, patience))
            }
            Who::Nobody(limit) => KeyWait::Nobody(limit.wait(&(), cost, patience)),
        }
    }

    fn token(&self, key: &Self::Key) -> u64 {
        match key {
            Who::Known(_, own) => self.table.token(own.as_deref()),
            Who::Nobody(limit) => limit.token(&()),
        }
    }

    fn refund(&self, key: &Self::Key, n: u64) {
        match key {
            Who::Known(key, own) => self.table.refund(key, own.as_deref(), n),
            Who::Nobody(limit) => limit.refund(&(), n),
        }
    }

    fn charge(&self, key: &Self::Key, n: u64) {
        match key {
            Who::Known(key, own) => self.table.charge(key, own.as_deref(), n),
            Who::Nobody(limit) => limit.charge(&(), n),
        }
    }

    fn standings(
        &self,
        key: &Self::Key,
        names: &Names,
        answer: Answer<'_>,
        tell: impl FnMut(&Standing<'_>),
    ) {
        match key {
            Who::Known(key, own) => {
                self.table
                    .standings(key, own.as_deref(), names, answer, tell);
            }
            Who::Nobody(limit) => limit.standings(&(), names, answer, tell),
        }
    }

    fn name_of<'a>(&'a self, key: &Self::Key, denied: &Denied, names: &'a Names) -> &'a str {
        match (key, &self.missing) {
            (Who::Nobody(_), Missing::Share(limit)) => limit.name_of(&(), denied, names),
            _ => self.table.name_of(denied, names),
        }
    }

    fn is_the_clients(&self, key: &Self::Key, denied: &Denied) -> bool {
        match key {
            Who::Known(..) => self.table.is_the_clients(denied),
            Who::Nobody(_) => false,
        }
    }
}
