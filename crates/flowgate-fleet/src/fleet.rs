use crate::all::InFlight;
use crate::busy::{BUSY, Leasing};
#[cfg(feature = "server")]
use crate::call::{Call, Seen};
use crate::call::{Failure, Reply, Request};
use crate::cut_off::Alone;
use crate::delivery::Others;
use crate::leased::{Filling, FleetLeased};
use crate::leaser::Leaser;
use crate::limit::Question;
use crate::link::{Link, LinkState, Outcome};
use crate::local::LocalStore;
use crate::names::{Names, Stated};
use crate::overshoot::{Lender, Overshoot};
use crate::record::Record;
use crate::redis::Tls;
use crate::store::Target;
use crate::strict::{Asker, Strict};
use crate::terms::{Kind, Terms};
use crate::{CutOff, FleetError, FleetKeyed, FleetLimit, FleetWindowBuilder};
use flowgate::{Clock, Leased, Quota, Timestamp};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use tokio::runtime;
use tokio::sync::{mpsc, oneshot};
use tracing::field::Empty;
use tracing::{Instrument, debug_span};

/// The limits that several processes share, in one store.
///
/// A fleet has a thread of its own, which talks to the store. It works under any asynchronous runtime, and without one. The thread
/// ends when the fleet and its limits are dropped.
#[derive(Clone)]
pub struct Fleet(Arc<Shared>);

pub(crate) struct Shared {
    link: Arc<Link>,
    ready: mpsc::UnboundedSender<Announced>,
    nodes: Option<u32>,
    pub(crate) timeout: Duration,
    pub(crate) clock: Clock,
    /// Of the fleet's thread.
    runtime: runtime::Handle,
    pub(crate) names: Names,
    /// How many requests of several limits are waiting.
    together: AtomicUsize,
}

/// A limit that may have something to ask.
pub(crate) enum Announced {
    /// A key for which callers wait.
    Strict(Arc<Strict>, Record),
    Leased(Arc<Filling>),
    All(Arc<InFlight>),
    /// Requests that are passed on, and who is told what became of each.
    #[cfg(feature = "server")]
    Passed(Vec<Request>, Told),
}

#[cfg(feature = "server")]
type Told = Box<dyn FnOnce(Vec<Outcome>) + Send>;

/// A call that is in flight, and who is answered.
enum Asking {
    Strict(Arc<Strict>, Record, Vec<Asker>),
    Leased(Arc<Filling>, Timestamp),
    /// With the number of its calls.
    All(Arc<InFlight>, usize),
    #[cfg(feature = "server")]
    Passed(usize, Told),
}

/// Settings of a [`Fleet`].
#[derive(Debug)]
pub struct FleetBuilder {
    target: Target,
    tls: Tls,
    nodes: Option<u32>,
    timeout: Duration,
    clock: Clock,
}

/// Settings of a limit of a [`Fleet`]: of a [`FleetLimit`] or a [`FleetKeyed`].
#[derive(Debug)]
pub struct FleetLimitBuilder<'a, L> {
    fleet: &'a Fleet,
    name: String,
    pub(crate) kind: Kind,
    quota: Quota,
    is_leaky: bool,
    cut_off: Option<CutOff>,
    capacity: usize,
    overshoot: Option<Overshoot>,
    built: PhantomData<fn() -> L>,
}

impl Fleet {
    /// Returns a builder for a fleet whose limits are kept in Redis or Valkey.
    ///
    /// `url` is `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, or `rediss://` with TLS and the feature `tls`. Redis 6.2, Valkey 7.2, and
    /// all later versions work.
    ///
    /// # Errors
    ///
    /// - [`FleetError::Address`] if `url` is none of a store;
    /// - [`FleetError::NoTls`] if it begins with `rediss://`, without the feature `tls`.
    ///
    /// It does not connect.
    pub fn redis(url: &str) -> Result<FleetBuilder, FleetError> {
        Target::redis(url).map(FleetBuilder::new)
    }

    /// Returns a builder for a fleet that follows the primary that Sentinel names.
    ///
    /// `sentinels` are addresses of all sentinels: `redis://[USER:PASSWORD@]HOST:PORT`. More than half of them must answer. `primary` is the
    /// name that they know the primary by. If the primary asks for a password, it is `redis://[USER:PASSWORD@]NAME[/DATABASE]`.
    ///
    /// After a failover, the old primary goes on admitting until it hears of it, for about 10 s. Set `min-replicas-to-write 1` and
    /// `min-replicas-max-lag 2` on all servers to shorten that to about 2 s.
    ///
    /// ```
    /// use flowgate_fleet::Fleet;
    ///
    /// let sentinels = ["redis://10.0.0.1:26379", "redis://10.0.0.2:26379", "redis://10.0.0.3:26379"];
    /// let fleet = Fleet::sentinel(sentinels, "mymaster")?.nodes(8);
    /// let fleet = Fleet::sentinel(sentinels, "redis://:secret@mymaster/2")?.nodes(8);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - [`FleetError::NoAddress`] if there is none;
    /// - [`FleetError::Address`] if one cannot be read;
    /// - [`FleetError::NoTls`] if one begins with `rediss://`, without the feature `tls`.
    ///
    /// It does not connect.
    pub fn sentinel<A: AsRef<str>>(
        sentinels: impl IntoIterator<Item = A>,
        primary: &str,
    ) -> Result<FleetBuilder, FleetError> {
        Target::sentinel(sentinels, primary).map(FleetBuilder::new)
    }

    /// Returns a builder for a fleet whose limits are kept in a cluster.
    ///
    /// `servers` are addresses of some of its servers: `redis://[USER:PASSWORD@]HOST:PORT`. The others are found, and let in with the user
    /// and the password of the first. Each limit, and each key of one, is kept by one server. A server that hangs cuts off the records that
    /// it keeps, and no others.
    ///
    /// ```
    /// use flowgate_fleet::Fleet;
    ///
    /// let fleet = Fleet::cluster(["redis://10.0.0.1:6379", "redis://10.0.0.2:6379"])?.nodes(8);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - [`FleetError::NoAddress`] if there is none;
    /// - [`FleetError::Address`] if one cannot be read;
    /// - [`FleetError::NoTls`] if one begins with `rediss://`, without the feature `tls`.
    ///
    /// It does not connect.
    pub fn cluster<A: AsRef<str>>(
        servers: impl IntoIterator<Item = A>,
    ) -> Result<FleetBuilder, FleetError> {
        Target::cluster(servers).map(FleetBuilder::new)
    }

    /// Returns a builder for a fleet whose limits are those of a decision server, `flowgate decide`.
    ///
    /// `url` is `http://[:TOKEN@]HOST[:PORT]`, or `https://` with the feature `tls`. It is the address of the server's gRPC door, whose port
    /// is 8081 unless it is given. A name of a limit is an id of the server's configuration, such as `api.user`. The server has the same
    /// quota, and keeps its limits in a store: `--store local`, or a store that several servers share.
    ///
    /// ```
    /// use flowgate_fleet::Fleet;
    ///
    /// let fleet = Fleet::server("http://10.0.0.5:8081")?.nodes(8);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - [`FleetError::Server`] if `url` is none of a server;
    /// - [`FleetError::NoTls`] if it begins with `https://`, without the feature `tls`.
    ///
    /// It does not connect. Once there is a connection, `build()` of a limit returns [`FleetError::Refused`] if the server has no such
    /// limit, or has it with another quota. Without a connection, `build()` does not wait. What the server refuses later is decided as if the
    /// server were away, and the reason is logged.
    #[cfg(feature = "server")]
    #[cfg_attr(docsrs, doc(cfg(feature = "server")))]
    pub fn server(url: &str) -> Result<FleetBuilder, FleetError> {
        Target::server(url).map(FleetBuilder::new)
    }

    /// Returns a builder for a fleet whose limits are kept in this process.
    ///
    /// It is for tests, and for a program that has one process. A [`LocalStore`] has several processes, and outages.
    ///
    /// It decides exactly as a store does. Its [clock](FleetBuilder::clock) is also the store's.
    ///
    /// ```
    /// use flowgate::ManualClock;
    /// use flowgate_fleet::{CutOff, Fleet};
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// let fleet = Fleet::local().clock(&time).open()?;
    /// let api = fleet.limit("api", "10/s burst 2".parse()?).when_cut_off(CutOff::Deny).build()?;
    /// let same = fleet.limit("api", "10/s burst 2".parse()?).when_cut_off(CutOff::Deny).build()?;
    ///
    /// assert!(api.ask().block().is_ok() && same.ask().block().is_ok());
    /// let denied = api.ask().block().unwrap_err();
    /// assert_eq!(denied.retry_after(), Some(Duration::from_millis(100)));
    /// time.advance(Duration::from_millis(100));
    /// assert!(api.ask().block().is_ok());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn local() -> FleetBuilder {
        FleetBuilder::new(Target::Local(None))
    }

    /// Waits until the store can be reached.
    ///
    /// This never ends if it cannot.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn ready(&self) {
        self.0.link.up().await;
    }

    /// Returns a builder for the limit `name`, a token bucket. All processes that use this name share it, and state the same quota.
    pub fn limit(
        &self,
        name: impl Into<String>,
        quota: Quota,
    ) -> FleetLimitBuilder<'_, FleetLimit> {
        self.builder(name.into(), quota, 1)
    }

    /// Returns a builder for a limit for each key, such as each tenant.
    ///
    /// The store keeps a record for each key that is not fully refilled. This process remembers 100,000 keys, unless
    /// [`capacity`](FleetLimitBuilder::capacity) is called.
    pub fn keyed(
        &self,
        name: impl Into<String>,
        quota: Quota,
    ) -> FleetLimitBuilder<'_, FleetKeyed> {
        self.builder(name.into(), quota, 100_000)
    }

    /// Returns a builder for the limit `name`, a leaky bucket.
    ///
    /// Requests are spread evenly over time. A burst in the quota is one request and the slack. Without a burst, two requests of all processes are never admitted closer together
    /// than the quota allows. It is the same as a [`limit`](Self::limit) with a burst of 1, except that
    /// [`set_quota`](FleetLimit::set_quota) keeps the slack unless the new quota has a burst.
    ///
    /// ```
    /// use flowgate::ManualClock;
    /// use flowgate_fleet::{CutOff, Fleet};
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// let fleet = Fleet::local().clock(&time).open()?; // or Fleet::redis
    /// let crawl = fleet.leaky_bucket("crawl", "10/s".parse()?).when_cut_off(CutOff::Deny).build()?;
    ///
    /// time.advance(Duration::from_secs(60)); // a rest earns nothing
    /// assert!(crawl.ask().block().is_ok());
    /// let denied = crawl.ask().block().unwrap_err();
    /// assert_eq!(denied.retry_after(), Some(Duration::from_millis(100)));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn leaky_bucket(
        &self,
        name: impl Into<String>,
        quota: Quota,
    ) -> FleetLimitBuilder<'_, FleetLimit> {
        self.limit(name, quota).leaky()
    }

    /// Returns a builder for a leaky bucket for each key.
    ///
    /// [`leaky_bucket`](Self::leaky_bucket) explains leaky buckets, and [`keyed`](Self::keyed) explains keys.
    pub fn keyed_leaky_bucket(
        &self,
        name: impl Into<String>,
        quota: Quota,
    ) -> FleetLimitBuilder<'_, FleetKeyed> {
        self.keyed(name, quota).leaky()
    }

    /// Returns a builder for a limit of fixed windows.
    ///
    /// Each window admits at most the quota's count, and lasts for the quota's period. A window begins with its first admission, unless windows are [aligned](FleetWindowBuilder::align_to_wall). The quota has no burst.
    /// In every interval of length t, all processes together are admitted at most `2 × count + count / period × t`.
    ///
    /// ```
    /// use flowgate::ManualClock;
    /// use flowgate_fleet::{CutOff, Fleet};
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// let fleet = Fleet::local().clock(&time).open()?; // or Fleet::redis
    /// let hour = fleet.window("hour", "1000/h".parse()?).when_cut_off(CutOff::Deny).build()?;
    ///
    /// assert!(hour.ask().n(1000).block().is_ok());
    /// time.advance(Duration::from_secs(3_000));
    /// let denied = hour.ask().block().unwrap_err();
    /// assert_eq!(denied.retry_after(), Some(Duration::from_secs(600)));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn window(
        &self,
        name: impl Into<String>,
        quota: Quota,
    ) -> FleetWindowBuilder<'_, FleetLimit> {
        FleetWindowBuilder::new(self.builder(name.into(), quota, 1))
    }

    /// Returns a builder for windows of each key, such as each tenant.
    ///
    /// [`window`](Self::window) explains windows, and [`keyed`](Self::keyed) explains keys.
    pub fn keyed_window(
        &self,
        name: impl Into<String>,
        quota: Quota,
    ) -> FleetWindowBuilder<'_, FleetKeyed> {
        FleetWindowBuilder::new(self.builder(name.into(), quota, 100_000))
    }

    fn builder<L>(&self, name: String, quota: Quota, capacity: usize) -> FleetLimitBuilder<'_, L> {
        FleetLimitBuilder {
            fleet: self,
            name,
            kind: Kind::Bucket,
            quota,
            is_leaky: false,
            cut_off: None,
            capacity,
            overshoot: None,
            built: PhantomData,
        }
    }
}

#[cfg(feature = "server")]
impl Fleet {
    pub(crate) fn is_up(&self) -> bool {
        self.0.is_up()
    }

    pub(crate) fn announce(&self, announced: Announced) {
        self.0.announce(announced);
    }
}

impl Shared {
    /// Asks a decision server whether it has this limit, if there is a connection.
    ///
    /// # Errors
    ///
    /// It refuses.
    #[cfg(feature = "server")]
    pub(crate) fn confirm(&self, name: &str, terms: Terms) -> Result<(), FleetError> {
        if !self.link.has_own_limits() || !self.is_up() {
            return Ok(());
        }
        let look = Request::Take(Call {
            record: Record::of(name, b""),
            terms,
            seen: Seen::default(),
            runs: Vec::new(),
        });
        let (tell, told) = std::sync::mpsc::channel();
        let tell = Box::new(move |outcomes| drop(tell.send(outcomes)));
        self.announce(Announced::Passed(vec![look], tell));
        // A call ends within the time-out.
        let outcomes = told.recv_timeout(2 * self.timeout).unwrap_or_default();
        match outcomes.into_iter().next() {
            Some(Err(Failure::Refused(why))) => Err(FleetError::Refused {
                name: name.to_owned(),
                why,
            }),
            _ => Ok(()),
        }
    }

    #[cfg(not(feature = "server"))]
    pub(crate) fn confirm(&self, _name: &str, _terms: Terms) -> Result<(), FleetError> {
        Ok(())
    }

    pub(crate) fn is_down(&self) -> bool {
        self.link.state() == LinkState::Down
    }

    fn lender(&self, overshoot: Overshoot) -> Lender {
        Lender {
            overshoot,
            nodes: self.nodes,
            timeout: self.timeout,
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.link.state() == LinkState::Up
    }

    /// Returns the place of a record. A script takes only from records of one place.
    pub(crate) fn place(&self, record: Record) -> usize {
        self.link.place(record)
    }

    /// Counts one more request of several limits. Returns `false` if there are too many.
    pub(crate) fn enter(&self) -> bool {
        let entered = self.together.fetch_add(1, Ordering::Relaxed) < MOST_TOGETHER;
        if !entered {
            self.leave();
        }
        entered
    }

    pub(crate) fn leave(&self) {
        self.together.fetch_sub(1, Ordering::Relaxed);
    }

    /// Blocks this thread until the fleet's thread has an output. Returns `None` if that thread has ended.
    pub(crate) fn block_on<F>(&self, future: F) -> Option<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let (tell, told) = oneshot::channel();
        self.runtime.spawn(async { drop(tell.send(future.await)) });
        told.blocking_recv().ok()
    }

    pub(crate) fn announce(&self, announced: Announced) {
        // The thread outlives all callers.
        let _ = self.ready.send(announced);
    }
}

impl FleetBuilder {
    fn new(target: Target) -> Self {
        Self {
            target,
            tls: Tls::default(),
            nodes: None,
            timeout: Duration::from_millis(50),
            clock: Clock::system(),
        }
    }

    pub(crate) fn in_process(store: LocalStore) -> Self {
        let clock = store.clock().clone();
        Self::new(Target::Local(Some(store))).clock(clock)
    }

    /// Sets the clock of the fleet's limits (default: [`Clock::system`]).
    ///
    /// It measures how much of a refusal's wait has passed, and the shares of processes that decide alone. Redis and Valkey have
    /// clocks of their own.
    #[must_use]
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = clock.into();
        self
    }

    /// Sets how many processes share the limits.
    ///
    /// A process that cannot reach the store then admits its share of each limit: [`CutOff::Share`]`(1, nodes)`.
    #[must_use]
    pub fn nodes(mut self, nodes: u32) -> Self {
        self.nodes = Some(nodes);
        self
    }

    /// Trusts these certificate authorities, in place of the system's.
    ///
    /// `pem` is the content of a file. The address begins with `rediss://`.
    #[cfg(feature = "tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
    #[must_use]
    pub fn certificate_authorities(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.tls.authorities = Some(pem.into());
        self
    }

    /// Sets the certificate that this process shows to the store, and its private key.
    ///
    /// Both are the contents of PEM files. The address begins with `rediss://`.
    #[cfg(feature = "tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
    #[must_use]
    pub fn client_certificate(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.tls.client = Some(::redis::ClientTlsConfig {
            client_cert: certificate.into(),
            client_key: key.into(),
        });
        self
    }

    /// Sets how long the store may take for an answer (default: 50 ms).
    ///
    /// After that, the connection is replaced, and this process decides alone. It is at least 1 ms and at most 1 min. Set it to at least
    /// four round trips.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Starts to connect, and returns the fleet. It does not wait.
    ///
    /// # Errors
    ///
    /// - [`FleetError::NoNodes`] if the number of nodes is 0;
    /// - [`FleetError::Timeout`] if the store may take less than 1 ms or more than 1 min;
    /// - [`FleetError::Certificate`] if a certificate cannot be read, or no address is one with TLS;
    /// - [`FleetError::Thread`] if the system starts no thread.
    pub fn open(self) -> Result<Fleet, FleetError> {
        if self.nodes == Some(0) {
            return Err(FleetError::NoNodes);
        }
        if !TIMEOUTS.contains(&self.timeout) {
            return Err(FleetError::Timeout(self.timeout));
        }
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(FleetError::Thread)?;
        let place = self.target.open(&self.tls, &self.clock);
        let place = place.map_err(FleetError::Certificate)?;
        let link = Arc::new(Link::new(place, self.timeout));
        let (ready, announced) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            link: Arc::clone(&link),
            ready: ready.clone(),
            nodes: self.nodes,
            timeout: self.timeout,
            clock: self.clock,
            runtime: runtime.handle().clone(),
            names: Names::default(),
            together: AtomicUsize::new(0),
        });
        let again = ready.downgrade();
        thread::Builder::new()
            .name("flowgate-fleet".to_owned())
            .spawn(move || runtime.block_on(serve(link, announced, again)))
            .map_err(FleetError::Thread)?;
        Ok(Fleet(shared))
    }
}

/// How long a store may take for an answer.
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(60);
/// More requests of several limits than this do not wait.
const MOST_TOGETHER: usize = 100_000;
/// How long a caller may take to look at its answer, and pass on those of others.
const PATIENCE: Duration = Duration::from_millis(1);
/// How many keys are asked for in one write.
const MOST_CALLS: usize = 1_000;

/// Sends the calls of all keys that are announced, in one write. Ends when no caller can announce any.
async fn serve(
    link: Arc<Link>,
    mut announced: mpsc::UnboundedReceiver<Announced>,
    again: mpsc::WeakUnboundedSender<Announced>,
) {
    link.connect();
    let mut keys = Vec::new();
    while announced.recv_many(&mut keys, MOST_CALLS).await > 0 {
        link.tried().await;
        let mut requests = Vec::with_capacity(keys.len());
        let mut asking = Vec::with_capacity(keys.len());
        for announced in keys.drain(..) {
            let (call, who) = match announced {
                Announced::Strict(limit, record) => match limit.call(record) {
                    Some((call, askers)) => (call, Asking::Strict(limit, record, askers)),
                    None => continue,
                },
                Announced::Leased(filling) => match filling.call() {
                    Some((call, sent)) => (call, Asking::Leased(filling, sent)),
                    None => continue,
                },
                Announced::All(all) => {
                    let calls = all.ask(&mut requests);
                    asking.push(Asking::All(all, calls));
                    continue;
                }
                #[cfg(feature = "server")]
                Announced::Passed(mut passed, told) => {
                    asking.push(Asking::Passed(passed.len(), told));
                    requests.append(&mut passed);
                    continue;
                }
            };
            requests.push(Request::Take(call));
            asking.push(who);
        }
        if requests.is_empty() {
            continue;
        }
        let (link, again) = (Arc::clone(&link), again.clone());
        let span = debug_span!("write", requests = requests.len(), failed = Empty);
        tokio::spawn(async move {
            let outcomes = link.call(&requests).instrument(span.clone()).await;
            span.record(
                "failed",
                outcomes.iter().filter(|outcome| outcome.is_err()).count(),
            );
            drop(span);
            let mut outcomes = outcomes.into_iter();
            for who in asking {
                let (limit, record, askers) = match who {
                    Asking::Strict(limit, record, askers) => (limit, record, askers),
                    Asking::Leased(filling, sent) => {
                        filling.answer(sent, only(outcomes.next()));
                        continue;
                    }
                    Asking::All(all, calls) => {
                        all.answer(outcomes.by_ref().take(calls).collect());
                        continue;
                    }
                    #[cfg(feature = "server")]
                    Asking::Passed(requests, told) => {
                        told(outcomes.by_ref().take(requests).collect());
                        continue;
                    }
                };
                let answered = limit.answer(record, askers, only(outcomes.next()));
                if !answered.passed.is_empty() {
                    tokio::spawn(async move {
                        tokio::time::sleep(PATIENCE).await;
                        answered.passed.iter().for_each(Others::pass_on);
                    });
                }
                if answered.others_wait
                    && let Some(again) = again.upgrade()
                {
                    let _ = again.send(Announced::Strict(limit, record));
                }
            }
        });
    }
}

/// Returns what became of the request for one record.
fn only(outcome: Option<Outcome>) -> Result<Reply, Failure> {
    let replies = outcome.unwrap_or(Err(Failure::Lost))?;
    replies.into_iter().next().ok_or(Failure::Lost)
}

impl<L> FleetLimitBuilder<'_, L> {
    /// Sets what this process decides by while the store cannot be reached.
    ///
    /// The default is this process's share of the limit, if the fleet knows its [number of nodes](FleetBuilder::nodes).
    #[must_use]
    pub fn when_cut_off(mut self, cut_off: CutOff) -> Self {
        self.cut_off = Some(cut_off);
        self
    }

    /// Returns what decides without the store, and the store's terms.
    fn decided(&self) -> Result<(Alone, Terms), FleetError> {
        let shared = &self.fleet.0;
        let share = |nodes| CutOff::Share(1, nodes);
        let cut_off = self.cut_off.or(shared.nodes.map(share));
        let cut_off = cut_off.ok_or(FleetError::NoCutOff)?;
        let (kind, quota, clock) = (self.kind, self.quota, &shared.clock);
        let terms = Terms::of_kind(quota, kind)?;
        let alone = Alone::of_kind(kind, cut_off, quota, clock, self.capacity)?;
        Ok((alone, terms))
    }

    /// Makes the limit a leaky bucket.
    fn leaky(mut self) -> Self {
        self.is_leaky = true;
        if self.quota.explicit_burst().is_none() {
            self.quota = self.quota.burst(1);
        }
        self
    }

    fn stated(&self) -> Stated {
        Stated {
            kind: self.kind,
            quota: self.quota,
            is_leaky: self.is_leaky,
        }
    }

    /// Warns if a restart of the store would forget this limit.
    fn expect_memory(&self) {
        let period = self.quota.period();
        self.fleet.0.link.expect_memory(&self.name, period);
    }

    pub(crate) fn strict(self) -> Result<Question, FleetError> {
        let shared = &self.fleet.0;
        let (alone, terms) = self.decided()?;
        shared.confirm(&self.name, terms)?;
        let clock = shared.clock.clone();
        let mut strict = Strict::new(self.quota, terms, clock, alone, self.capacity);
        if let Some(overshoot) = self.overshoot {
            strict = strict.leasing(Leasing {
                lender: shared.lender(overshoot),
                busy: BUSY,
                seed: RandomState::new().hash_one(()),
            })?;
        }
        let strict = Arc::new(strict);
        let names = &shared.names;
        let lives = names.use_strict(&self.name, self.stated(), &strict)?;
        self.expect_memory();
        Ok(Question {
            shared: Arc::clone(shared),
            strict,
            record: Record::of(&self.name, b""),
            name: self.name.into(),
            _lives: lives,
        })
    }
}

impl<'a> FleetLimitBuilder<'a, FleetLimit> {
    /// Lets each process hold tokens in advance: most decisions then need no call.
    ///
    /// All processes together may exceed the limit by `overshoot`. Without this, a limit is strict.
    #[must_use]
    pub fn leased(self, overshoot: Overshoot) -> FleetLimitBuilder<'a, FleetLeased> {
        FleetLimitBuilder {
            fleet: self.fleet,
            name: self.name,
            kind: self.kind,
            quota: self.quota,
            is_leaky: self.is_leaky,
            cut_off: self.cut_off,
            capacity: self.capacity,
            overshoot: Some(overshoot),
            built: PhantomData,
        }
    }

    /// Builds a strict limit: the store decides on each request.
    ///
    /// # Errors
    ///
    /// - [`FleetError::NoCutOff`] if neither [`nodes`](FleetBuilder::nodes) nor [`when_cut_off`](Self::when_cut_off) was called;
    /// - [`FleetError::Share`] if the share of this process is none, or more than everything;
    /// - [`FleetError::Quota`] and [`FleetError::Keys`] if no limiter can keep that share;
    /// - [`FleetError::Burst`] if the store cannot count the burst exactly;
    /// - [`FleetError::OtherQuota`] if a limit of this name is in use in this fleet, with another quota;
    /// - [`FleetError::Refused`] if a [decision server](Fleet::server) has no such limit, or another quota.
    pub fn build(self) -> Result<FleetLimit, FleetError> {
        self.strict().map(FleetLimit)
    }
}

impl FleetLimitBuilder<'_, FleetLeased> {
    /// Builds a leased limit.
    ///
    /// # Errors
    ///
    /// The same as for a [`FleetLimit`], and:
    ///
    /// - [`FleetError::Overshoot`] if leases cannot keep an overshoot that small;
    /// - [`FleetError::NoOvershoot`] if the burst is too small for [`Overshoot::none`].
    pub fn build(self) -> Result<FleetLeased, FleetError> {
        let shared = &self.fleet.0;
        let (alone, terms) = self.decided()?;
        shared.confirm(&self.name, terms)?;
        let lender = shared.lender(self.overshoot.unwrap_or(Overshoot::none()));
        let lending = lender.lending(self.quota, terms)?;
        let leased = Leased::builder(lending.most).clock(shared.clock.clone());
        let leased = leased.build();
        let leased = Arc::new(leased.map_err(|error| FleetError::Quota(Box::new(error)))?);
        let record = Record::of(&self.name, b"");
        let seed = RandomState::new().hash_one(());
        let leaser = Leaser::new(Arc::downgrade(&leased), record, lending, alone, seed);
        let of = (self.name.clone(), self.quota, lender);
        let limit = FleetLeased::new(Arc::clone(shared), leased, of, leaser);
        shared.names.use_leased(&self.name, self.stated(), &limit)?;
        self.expect_memory();
        Ok(limit)
    }
}

impl FleetLimitBuilder<'_, FleetKeyed> {
    /// Sets how many keys this process remembers (default: 100,000).
    ///
    /// It remembers what the store has stated about a key, in about 250 bytes per key. A key that it has forgotten costs a call.
    /// While the store cannot be reached, it keeps the shares of this many keys.
    #[must_use]
    pub fn capacity(mut self, keys: usize) -> Self {
        self.capacity = keys;
        self
    }

    /// Lets busy keys hold tokens in advance: most of their decisions then need no call.
    ///
    /// A key begins strict: the store decides on each request. It leases as soon as it has been asked for 20 times within a second, and until
    /// it is asked for fewer than 5 times within one. At most 65,536 keys lease, and at most [`capacity`](Self::capacity).
    ///
    /// For each key, all processes together may exceed the limit by `overshoot`. Without this, all keys are strict.
    ///
    /// ```
    /// use flowgate_fleet::{Fleet, Overshoot};
    ///
    /// let fleet = Fleet::local().nodes(8).open()?;
    /// let tenants = fleet.keyed("tenant", "5000/s burst 5000".parse()?);
    /// let tenants = tenants.leased(Overshoot::percent(20)).build()?;
    ///
    /// for _ in 0..1_000 {
    ///     tenants.ask("t-17").block()?;
    /// }
    /// assert!(tenants.inspect().counts.calls_granted < 100);
    /// assert_eq!(tenants.bound().leased, 1_000);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn leased(mut self, overshoot: Overshoot) -> Self {
        self.overshoot = Some(overshoot);
        self
    }

    /// Builds a limit for each key.
    ///
    /// # Errors
    ///
    /// The same as for a [`FleetLimit`], and with [`leased`](Self::leased):
    ///
    /// - [`FleetError::Overshoot`] if leases cannot keep an overshoot that small;
    /// - [`FleetError::NoOvershoot`] if the burst is too small for [`Overshoot::none`].
    pub fn build(self) -> Result<FleetKeyed, FleetError> {
        let question = self.strict()?;
        Ok(FleetKeyed { question })
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet")
            .field("state", &self.link.state())
            .field("nodes", &self.nodes)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "server"))]
mod tests {
    use super::*;
    use flowgate::ManualClock;
    use std::fmt::{Debug, Write};
    use std::sync::Mutex;
    use std::sync::mpsc::channel;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id};
    use tracing::{Event, Metadata, Subscriber};

    /// The fields of all spans of this process.
    static SPANS: Mutex<Vec<String>> = Mutex::new(Vec::new());

    struct Spans;

    struct Fields(String);

    impl Visit for Fields {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            write!(self.0, " {field}={value:?}").expect("a string takes it");
        }
    }

    impl Subscriber for Spans {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.is_span()
        }

        fn new_span(&self, span: &Attributes<'_>) -> Id {
            let mut fields = Fields(span.metadata().name().to_owned());
            span.record(&mut fields);
            let mut spans = SPANS.lock().expect("unharmed");
            spans.push(fields.0);
            Id::from_u64(spans.len() as u64)
        }

        fn record(&self, id: &Id, values: &tracing::span::Record<'_>) {
            let mut fields = Fields(String::new());
            values.record(&mut fields);
            SPANS.lock().expect("unharmed")[id.into_u64() as usize - 1] += &fields.0;
        }

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, _: &Event<'_>) {}

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn each_write_to_the_store_has_a_span_without_names() {
        tracing::subscriber::set_global_default(Spans).expect("the only one");
        let store = LocalStore::new(ManualClock::new());
        let fleet = store.fleet().open().expect("a fleet");
        let terms = Terms::of("1/s".parse().expect("a quota")).expect("it is exact");
        let write = |requests: usize| {
            let look = Request::Take(Call {
                record: Record::of("api", b""),
                terms,
                seen: Seen::default(),
                runs: Vec::new(),
            });
            let (tell, told) = channel();
            let tell = Box::new(move |outcomes| drop(tell.send(outcomes)));
            fleet.announce(Announced::Passed(vec![look; requests], tell));
            told.recv().expect("an answer").len()
        };
        assert_eq!(write(57), 57);
        store.stop();
        assert_eq!(write(58), 58);
        // No other test writes as many.
        let spans = SPANS.lock().expect("unharmed");
        for expected in ["write requests=57 failed=0", "write requests=58 failed=58"] {
            assert!(spans.iter().any(|span| span == expected), "{spans:?}");
        }
    }
}
