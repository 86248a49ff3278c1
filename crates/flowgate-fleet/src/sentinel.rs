//! Sentinels, and the primary that they name.
//!
//! The newest configuration counts, as it does among the sentinels themselves: its epoch is the highest. More than half of the sentinels
//! must answer, so that a process that is cut off together with an old primary does not go on with it. What was superseded once is never
//! believed again.

use crate::redis::{self as server, Address, Connection, Host, Tls};
use ::redis::aio::MultiplexedConnection;
use ::redis::{ConnectionInfo, PushKind, RedisError, RedisResult};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinSet;
use tokio::time;

/// A sentinel tells of these before and after it has moved a primary.
const EVENTS: [&str; 2] = ["+promoted-slave", "+switch-master"];

/// A sentinel may take as long as this many calls: it may have to be connected to first.
const ASKING: u32 = 2;

/// All sentinels of a primary.
pub(crate) struct Sentinels {
    sentinels: Vec<Arc<Sentinel>>,
    name: Arc<str>,
    /// How the primary lets in. Its host is not used.
    primary: Address,
    /// The highest epoch that was seen.
    epoch: AtomicU64,
    /// A sentinel has told of a change, or the connection to the primary has ended.
    changed: Arc<Notify>,
}

struct Sentinel {
    address: Address,
    connection: Mutex<Option<MultiplexedConnection>>,
    changed: Arc<Notify>,
}

/// The primary that a sentinel names.
#[derive(Debug)]
struct Vote {
    epoch: u64,
    host: Host,
}

impl Sentinels {
    pub(crate) fn new(
        sentinels: impl IntoIterator<Item = ConnectionInfo>,
        name: &str,
        primary: Address,
        tls: &Tls,
    ) -> RedisResult<Self> {
        let changed = Arc::new(Notify::new());
        let sentinels: RedisResult<Vec<_>> = sentinels
            .into_iter()
            .map(|info| {
                let redis = info.redis_settings().clone().set_db(0);
                Ok(Arc::new(Sentinel {
                    address: Address::new(info.set_redis_settings(redis), tls)?,
                    connection: Mutex::default(),
                    changed: Arc::clone(&changed),
                }))
            })
            .collect();
        Ok(Self {
            sentinels: sentinels?,
            name: name.into(),
            primary,
            epoch: AtomicU64::new(0),
            changed,
        })
    }

    /// Connects to the primary.
    pub(crate) async fn connect(&self, timeout: Duration) -> RedisResult<Connection> {
        let host = self.primary(timeout).await?;
        let address = self.primary.with_host(&host)?;
        address.connect(Arc::clone(&self.changed)).await
    }

    /// Returns an error if the sentinels name another primary. If they do not answer, the connection stays.
    pub(crate) async fn confirm(
        &self,
        connection: &Connection,
        timeout: Duration,
    ) -> Result<(), String> {
        match self.primary(timeout).await {
            Ok(host) if connection.address().host().as_ref() != Some(&host) => {
                Err(format!("the primary is {host} now"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the primary of the newest configuration that more than half of the sentinels can name.
    async fn primary(&self, timeout: Duration) -> RedisResult<Host> {
        let mut asks = JoinSet::new();
        for sentinel in &self.sentinels {
            let (sentinel, name) = (Arc::clone(sentinel), Arc::clone(&self.name));
            asks.spawn(async move { time::timeout(ASKING * timeout, sentinel.ask(&name)).await });
        }
        let (mut votes, mut failure) = (Vec::new(), None);
        while let Some(asked) = asks.join_next().await {
            match asked {
                Ok(Ok(Ok(vote))) => votes.push(vote),
                Ok(Ok(Err(error))) => failure = Some(error),
                _ => {}
            }
        }
        self.elect(votes).map_err(|why| match failure {
            Some(failure) => server::error(format!("{why}: {}", server::explain(&failure))),
            None => server::error(why),
        })
    }

    fn elect(&self, votes: Vec<Vote>) -> Result<Host, String> {
        let (answered, all) = (votes.len(), self.sentinels.len());
        let newest = votes.into_iter().max_by_key(|vote| vote.epoch);
        let Some(newest) = newest.filter(|_| 2 * answered > all) else {
            return Err(format!("{answered} of {all} sentinels name one"));
        };
        if newest.epoch < self.epoch.fetch_max(newest.epoch, Ordering::Relaxed) {
            return Err("the sentinels that answer have not heard of the last change".to_owned());
        }
        Ok(newest.host)
    }
}

impl Sentinel {
    async fn ask(&self, name: &str) -> RedisResult<Vote> {
        let mut held = self.connection.lock().await;
        // Put back if it has answered.
        let mut connection = match held.take() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let mut pipeline = ::redis::pipe();
        pipeline
            .cmd("SENTINEL")
            .arg("GET-MASTER-ADDR-BY-NAME")
            .arg(name);
        pipeline.cmd("SENTINEL").arg("MASTER").arg(name);
        type Replies = (Option<(String, u16)>, HashMap<String, String>);
        let answer: RedisResult<Replies> = pipeline.query_async(&mut connection).await;
        if !answer
            .as_ref()
            .is_err_and(RedisError::is_unrecoverable_error)
        {
            *held = Some(connection);
        }
        let (host, fields) = answer?;
        let (name, port) =
            host.ok_or_else(|| server::error(format!("it knows no primary `{name}`")))?;
        let epoch = fields
            .get("config-epoch")
            .and_then(|epoch| epoch.parse().ok());
        let epoch = epoch.ok_or_else(|| server::error("it names no epoch"))?;
        let host = Host { name, port };
        Ok(Vote { epoch, host })
    }

    async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        let config = server::config(Arc::clone(&self.changed), PushKind::Message);
        let client = self.address.client();
        let connection = client.get_multiplexed_async_connection_with_config(&config);
        let mut connection = connection.await?;
        connection.subscribe(&EVENTS).await?;
        Ok(connection)
    }
}

impl fmt::Display for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of the sentinels", self.name)
    }
}

impl fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sentinels")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::redis::IntoConnectionInfo;

    fn sentinels(count: usize) -> Sentinels {
        let info = || "redis://127.0.0.1:1".into_connection_info().unwrap();
        let primary = Address::new(info(), &Tls::default()).unwrap();
        Sentinels::new((0..count).map(|_| info()), "m", primary, &Tls::default()).unwrap()
    }

    fn vote(epoch: u64, port: u16) -> Vote {
        let name = "10.0.0.1".to_owned();
        Vote {
            epoch,
            host: Host { name, port },
        }
    }

    #[test]
    fn the_newest_configuration_counts_if_a_majority_answers_and_an_old_one_never_again() {
        let sentinels = sentinels(3);
        let elect = |votes| sentinels.elect(votes).map(|host| host.port);
        assert!(elect(vec![vote(1, 7)]).unwrap_err().starts_with("1 of 3"));
        assert_eq!(elect(vec![vote(1, 7), vote(1, 7)]), Ok(7));
        assert_eq!(elect(vec![vote(1, 7), vote(2, 8), vote(1, 7)]), Ok(8));
        assert!(elect(vec![vote(1, 7), vote(1, 7)]).is_err());
        assert_eq!(elect(vec![vote(1, 7), vote(2, 8)]), Ok(8));
    }
}
