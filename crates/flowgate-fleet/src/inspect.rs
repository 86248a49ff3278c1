//! What operators see of a fleet, and what they can change.

use crate::kept::Kept;
use crate::record::Record;
use crate::redis::{FOREIGN, NAME, code_of_error, explain};
use crate::terms::Kind;
use crate::window::Window;
use flowgate::Quota;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ErrorKind, RedisError, RedisResult, Script};
use std::fmt;
use std::sync::LazyLock;
use std::time::Duration;

static RESET: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("reset.lua")));
/// How long processes may remember a debt that the store has lost. What it has not lost, it keeps for long enough.
const REMEMBERED: Duration = Duration::from_secs(86_400);

/// A store of fleets, for operators.
///
/// ```no_run
/// # async fn show() -> Result<(), Box<dyn std::error::Error>> {
/// use flowgate_fleet::FleetStore;
/// use std::time::Duration;
///
/// let store = FleetStore::connect("redis://127.0.0.1", Duration::from_secs(5)).await?;
/// match store.record("api", b"").await? {
///     Some(record) => println!("full in {:?}", record.full_in()),
///     None => println!("full, or not the name of a limit"),
/// }
/// store.reset("api", b"").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct FleetStore {
    connection: MultiplexedConnection,
}

/// The record of a limit in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetRecord {
    kept: Kept,
    now_us: u64,
}

/// Windows that are kept under the name of a limit.
///
/// [`FleetRecord::window`] returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FleetWindow {
    /// Units that the last process admits in a window.
    pub limit: u64,
    /// Units that were admitted in the window; 0 if it is over.
    pub used: u64,
    /// How long a window lasts.
    pub period: Duration,
    /// Whether windows begin when the store's Unix time is a multiple of the period.
    pub is_aligned: bool,
    /// How long it takes until the window ends; 0 if it is over.
    pub ends_in: Duration,
}

/// A process that is connected to a store.
///
/// A process has one connection for all limits of a [`Fleet`](crate::Fleet). So the store does not know which limits it uses.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FleetNode {
    /// The address and port of the process, as the store sees it.
    pub address: String,
    /// The number of the process on its machine.
    pub process: u32,
    /// How long it has been connected, in whole seconds.
    pub connected: Duration,
    /// How long it has sent nothing, in whole seconds.
    pub idle: Duration,
}

/// Why a store cannot be inspected.
#[derive(Debug)]
#[non_exhaustive]
pub enum FleetStoreError {
    /// The address of the store cannot be read.
    Address(RedisError),
    /// The store cannot be reached, or does not answer in time.
    Unreachable(RedisError),
    /// The store asks for a password, or refuses this one.
    Password(RedisError),
    /// The server is a replica, and cannot be written to.
    Replica(RedisError),
    /// The store refuses the command.
    Refused(RedisError),
    /// The store has a value under the limit's name that is not a limit.
    Foreign,
}

impl FleetStore {
    /// Connects to a store, as [`Fleet::redis`](crate::Fleet::redis) does.
    ///
    /// The connection and each command may take as long as `timeout`. The connection is not replaced when it fails.
    ///
    /// # Errors
    ///
    /// Returns [`FleetStoreError`], but not [`Foreign`](FleetStoreError::Foreign).
    pub async fn connect(url: &str, timeout: Duration) -> Result<Self, FleetStoreError> {
        let client = Client::open(url).map_err(FleetStoreError::Address)?;
        let settings = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(timeout))
            .set_response_timeout(Some(timeout));
        let connection = client.get_multiplexed_async_connection_with_config(&settings);
        let store = Self {
            connection: connection.await?,
        };
        let ping: String = store.ask(redis::cmd("PING")).await?;
        debug_assert_eq!(ping, "PONG");
        Ok(store)
    }

    async fn ask<T: redis::FromRedisValue>(&self, command: redis::Cmd) -> RedisResult<T> {
        command.query_async(&mut self.connection.clone()).await
    }

    /// Returns the name of the record of the limit `limit` and `key` in the store. A limit without keys has the empty key.
    pub fn record_name(limit: &str, key: &[u8]) -> String {
        Record::of(limit, key).to_string()
    }

    /// Returns the record of a limit and a key. A limit without keys has the empty key.
    ///
    /// Returns `None` if there is no record. Then the limit is full, or no process has used it.
    ///
    /// # Errors
    ///
    /// Returns [`FleetStoreError`] if the store does not answer, or if its value is not a limit.
    pub async fn record(
        &self,
        limit: &str,
        key: &[u8],
    ) -> Result<Option<FleetRecord>, FleetStoreError> {
        let mut get = redis::cmd("GET");
        get.arg(Self::record_name(limit, key));
        let Some(text) = self.ask::<Option<String>>(get).await? else {
            return Ok(None);
        };
        let [seconds, micros]: [u64; 2] = self.ask(redis::cmd("TIME")).await?;
        let now_us = seconds * 1_000_000 + micros;
        let kept = Kept::parse(&text).ok_or(FleetStoreError::Foreign)?;
        Ok(Some(FleetRecord { kept, now_us }))
    }

    /// Sets the limit of a key back to full. Returns whether it had a record. A limit without keys has the empty key.
    ///
    /// Processes that remember its debt do not bring it back. A process that refuses without a call learns of it within a second. What
    /// processes hold in advance, and what they admitted alone, is not changed. So the limit may be exceeded by one burst.
    ///
    /// # Errors
    ///
    /// Returns [`FleetStoreError`] if the store does not answer, or if its value is not a limit. A store that has not answered may have
    /// set the limit back.
    pub async fn reset(&self, limit: &str, key: &[u8]) -> Result<bool, FleetStoreError> {
        let mut call = RESET.key(Self::record_name(limit, key));
        call.arg(REMEMBERED.as_millis() as u64);
        Ok(call.invoke_async(&mut self.connection.clone()).await?)
    }

    /// Returns the processes that are connected, in the order of their connection.
    ///
    /// # Errors
    ///
    /// Returns [`FleetStoreError`] if the store does not answer, or if its user may not list the clients.
    pub async fn nodes(&self) -> Result<Vec<FleetNode>, FleetStoreError> {
        let mut command = redis::cmd("CLIENT");
        command.arg("LIST");
        let list: String = self.ask(command).await?;
        Ok(list.lines().filter_map(node).collect())
    }
}

/// Reads a line of the list of clients. Returns `None` if it is no process of a fleet.
fn node(line: &str) -> Option<FleetNode> {
    let field = |name: &str| {
        let mut fields = line.split(' ').filter_map(|field| field.split_once('='));
        fields.find_map(|(field, value)| (field == name).then_some(value))
    };
    let seconds = |name| Some(Duration::from_secs(field(name)?.parse().ok()?));
    Some(FleetNode {
        process: field("name")?.strip_prefix(NAME)?.parse().ok()?,
        address: field("addr")?.to_owned(),
        connected: seconds("age")?,
        idle: seconds("idle")?,
    })
}

impl FleetRecord {
    /// Returns how many units are missing until the limit is full.
    ///
    /// Of a window, these are the units that it has admitted.
    pub fn debt(&self) -> f64 {
        match self.kept {
            Kept::Bucket(bucket) => bucket.debt_at(self.now_us) as f64 / bucket.period as f64,
            Kept::Window(window) => window.used_at(self.now_us) as f64,
        }
    }

    /// Returns how many units the limit has, if `quota` is its quota.
    ///
    /// It is negative while processes with leases have reserved units, and after a larger burst was taken.
    ///
    /// The record of a bucket has no burst.
    pub fn available(&self, quota: Quota) -> f64 {
        quota.max_burst() as f64 * quota.scale() as f64 - self.debt()
    }

    /// Returns the rate at which units flow back, without a burst. Of a window, it is the quota, in units. Returns `None` if there was no
    /// call since a reset.
    pub fn rate(&self) -> Option<Quota> {
        let bucket = match self.kept {
            Kept::Window(Window { limit, period, .. }) => {
                return Quota::new(limit, Duration::from_micros(period)).ok();
            }
            Kept::Bucket(bucket) if bucket.is_mark() => return None,
            Kept::Bucket(bucket) => bucket,
        };
        let (count, period) = (bucket.count, bucket.period);
        let periods = [1, 60, 3_600, 86_400];
        let per = |seconds: &u64| {
            let parts = u128::from(count) * u128::from(*seconds) * 1_000_000;
            let is_exact = parts % u128::from(period) == 0;
            let units = u64::try_from(parts / u128::from(period)).ok()?;
            let quota = is_exact.then(|| Quota::new(units, Duration::from_secs(*seconds)));
            quota?.ok()
        };
        let exact = periods.iter().find_map(per);
        exact.or_else(|| Quota::new(count, Duration::from_micros(period)).ok())
    }

    /// Returns the windows, if the limit has some. A limit without a call since a reset has none.
    pub fn window(&self) -> Option<FleetWindow> {
        let Kept::Window(window) = self.kept else {
            return None;
        };
        Some(FleetWindow {
            limit: window.limit,
            used: window.used_at(self.now_us),
            period: Duration::from_micros(window.period),
            is_aligned: window.kind == Kind::AlignedWindow,
            ends_in: Duration::from_micros(window.left_us(self.now_us)),
        })
    }

    /// Returns how long it takes until the limit is full, or its window ends.
    pub fn full_in(&self) -> Duration {
        let wait_us = match self.kept {
            Kept::Bucket(bucket) => bucket.debt_at(self.now_us).div_ceil(bucket.count),
            Kept::Window(window) => window.left_us(self.now_us),
        };
        Duration::from_micros(wait_us)
    }

    /// Returns how long ago the record was written, by the store's clock.
    ///
    /// Of a window, it is how long ago the window began.
    pub fn age(&self) -> Duration {
        let at_us = match self.kept {
            Kept::Bucket(bucket) => bucket.at_us,
            Kept::Window(window) => window.began_us,
        };
        Duration::from_micros(self.now_us.saturating_sub(at_us))
    }

    /// Returns how long ago the limit was reset, by the store's clock. Returns `None` if that is not known.
    pub fn reset_age(&self) -> Option<Duration> {
        let reset_us = match self.kept {
            Kept::Bucket(bucket) => bucket.reset_us,
            Kept::Window(window) => window.reset_us,
        };
        (reset_us > 0).then(|| Duration::from_micros(self.now_us.saturating_sub(reset_us)))
    }
}

impl From<RedisError> for FleetStoreError {
    fn from(error: RedisError) -> Self {
        let code = code_of_error(&error);
        let is_password = matches!(code, Some("NOAUTH" | "WRONGPASS"));
        match code {
            Some(FOREIGN | "WRONGTYPE") => Self::Foreign,
            Some("READONLY") => Self::Replica(error),
            _ if is_password || error.kind() == ErrorKind::AuthenticationFailed => {
                Self::Password(error)
            }
            Some(_) => Self::Refused(error),
            None => Self::Unreachable(error),
        }
    }
}

impl fmt::Display for FleetStoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(error) => write!(
                f,
                "the address of the store cannot be read: {error}; write redis://HOST:PORT"
            ),
            Self::Unreachable(error) => write!(f, "the store cannot be reached: {error}"),
            Self::Password(error) => write!(
                f,
                "the store refuses the password: {error}; write redis://USER:PASSWORD@HOST:PORT"
            ),
            Self::Replica(error) => write!(
                f,
                "the store is a replica: {error}; give the address of the primary"
            ),
            Self::Refused(error) => write!(f, "the store refuses the command: {}", explain(error)),
            Self::Foreign => f.write_str(
                "the store has a value of this name that is not a limit of a fleet: check the database's number in the address",
            ),
        }
    }
}

impl std::error::Error for FleetStoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Address(error)
            | Self::Unreachable(error)
            | Self::Password(error)
            | Self::Replica(error)
            | Self::Refused(error) => Some(error),
            Self::Foreign => None,
        }
    }
}

impl fmt::Debug for FleetStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FleetStore").finish_non_exhaustive()
    }
}
