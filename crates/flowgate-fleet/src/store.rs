use crate::FleetError;
use crate::call::Request;
use crate::local::LocalStore;
use crate::redis::{self, Address, Answer, Tls};
#[cfg(feature = "server")]
use crate::remote::{self, Server};
use crate::sentinel::Sentinels;
use ::redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisResult};
use flowgate::Clock;
use std::fmt;
use std::future;
use std::sync::Arc;
use std::time::Duration;
use tokio::time;

/// How often a connection is looked at that no caller uses.
const CHECK: Duration = Duration::from_secs(1);

/// Where the records are said to be kept.
#[derive(Debug)]
pub(crate) enum Target {
    /// `None`: in a store of its own.
    Local(Option<LocalStore>),
    Redis(ConnectionInfo),
    Sentinel {
        sentinels: Vec<ConnectionInfo>,
        name: String,
        /// How the primary lets in.
        primary: ConnectionInfo,
    },
    Cluster(Vec<ConnectionInfo>),
    #[cfg(feature = "server")]
    Server(Box<Server>),
}

impl Target {
    pub(crate) fn redis(url: &str) -> Result<Self, FleetError> {
        parse(url).map(Self::Redis)
    }

    pub(crate) fn sentinel<A: AsRef<str>>(
        sentinels: impl IntoIterator<Item = A>,
        primary: &str,
    ) -> Result<Self, FleetError> {
        let primary = match primary.contains("://") {
            true => parse(primary)?,
            false => parse(&format!("redis://{primary}"))?,
        };
        let (ConnectionAddr::Tcp(name, _) | ConnectionAddr::TcpTls { host: name, .. }) =
            primary.addr()
        else {
            let why = redis::error("a socket has no name of a primary");
            return Err(FleetError::Address(why));
        };
        Ok(Self::Sentinel {
            sentinels: all(sentinels)?,
            name: name.clone(),
            primary,
        })
    }

    pub(crate) fn cluster<A: AsRef<str>>(
        servers: impl IntoIterator<Item = A>,
    ) -> Result<Self, FleetError> {
        all(servers).map(Self::Cluster)
    }

    #[cfg(feature = "server")]
    pub(crate) fn server(url: &str) -> Result<Self, FleetError> {
        Server::parse(url).map(Box::new).map(Self::Server)
    }

    #[cfg(feature = "tls")]
    fn addresses(&self) -> Option<Vec<&ConnectionInfo>> {
        Some(match self {
            Self::Local(_) => Vec::new(),
            // It checks its own.
            #[cfg(feature = "server")]
            Self::Server(_) => return None,
            Self::Redis(info) => vec![info],
            Self::Sentinel {
                sentinels, primary, ..
            } => sentinels.iter().chain([primary]).collect(),
            Self::Cluster(servers) => servers.iter().collect(),
        })
    }

    /// Returns an error if the certificates cannot be used. Nothing else is left to fail.
    pub(crate) fn open(self, tls: &Tls, clock: &Clock) -> RedisResult<Place> {
        #[cfg(feature = "tls")]
        if let Some(addresses) = self.addresses() {
            tls.check(&addresses)?;
        }
        let store = match self {
            Self::Local(store) => {
                Store::Local(store.unwrap_or_else(|| LocalStore::new(clock.clone())))
            }
            Self::Redis(info) => Store::Redis(Address::new(info, tls)?),
            Self::Sentinel {
                sentinels,
                name,
                primary,
            } => {
                let primary = Address::new(primary, tls)?;
                Store::Sentinel(Sentinels::new(sentinels, &name, primary, tls)?)
            }
            Self::Cluster(servers) => {
                let seeds = servers.into_iter().map(|info| Address::new(info, tls));
                return seeds.collect::<RedisResult<_>>().map(Place::Cluster);
            }
            #[cfg(feature = "server")]
            Self::Server(server) => Store::Server(Box::new(server.with_tls(tls)?)),
        };
        Ok(Place::One(Box::new(store)))
    }
}

fn parse(url: &str) -> Result<ConnectionInfo, FleetError> {
    if url.starts_with("rediss:") && !cfg!(feature = "tls") {
        return Err(FleetError::NoTls);
    }
    url.into_connection_info().map_err(FleetError::Address)
}

fn all<A: AsRef<str>>(
    urls: impl IntoIterator<Item = A>,
) -> Result<Vec<ConnectionInfo>, FleetError> {
    let all = urls.into_iter().map(|url| parse(url.as_ref()));
    let all: Vec<_> = all.collect::<Result<_, _>>()?;
    match all.is_empty() {
        true => Err(FleetError::NoAddress),
        false => Ok(all),
    }
}

/// Where the records are kept: on one server at a time, or on the servers of a cluster.
#[derive(Debug)]
pub(crate) enum Place {
    One(Box<Store>),
    /// Servers of the cluster by which the others are found.
    Cluster(Vec<Address>),
}

/// A server that keeps records.
#[derive(Debug)]
pub(crate) enum Store {
    Redis(Address),
    Sentinel(Sentinels),
    Local(LocalStore),
    #[cfg(feature = "server")]
    Server(Box<Server>),
    #[cfg(test)]
    Double(double::Double),
}

/// A way to the records.
#[derive(Clone, Debug)]
pub(crate) enum Connection {
    Redis(redis::Connection),
    Local(LocalStore),
    #[cfg(feature = "server")]
    Server(remote::Connection),
    #[cfg(test)]
    Double(double::Double),
}

impl Store {
    /// Connects. The server is a primary, and new enough.
    pub(crate) async fn connect(&self, timeout: Duration) -> RedisResult<Connection> {
        Ok(match self {
            Self::Redis(address) => Connection::Redis(address.connect(Arc::default()).await?),
            Self::Sentinel(sentinels) => Connection::Redis(sentinels.connect(timeout).await?),
            Self::Local(local) => {
                local.reach()?;
                Connection::Local(local.clone())
            }
            #[cfg(feature = "server")]
            Self::Server(server) => Connection::Server(server.connect().await?),
            #[cfg(test)]
            Self::Double(double) => Connection::Double(double.clone()),
        })
    }

    /// Waits a while, and then returns whether the connection is of use.
    ///
    /// # Errors
    ///
    /// The reason if it is not.
    pub(crate) async fn check(
        &self,
        connection: &Connection,
        timeout: Duration,
    ) -> Result<(), String> {
        let is_there = |pong: Result<RedisResult<()>, _>| match pong {
            Ok(pong) => pong.map_err(|error| error.to_string()),
            Err(_) => Err("it took too long".to_owned()),
        };
        match connection {
            Connection::Redis(connection) => {
                let _ = time::timeout(CHECK, connection.changed()).await;
                is_there(time::timeout(timeout, connection.ping()).await)?;
                match self {
                    Self::Sentinel(sentinels) => sentinels.confirm(connection, timeout).await,
                    _ => Ok(()),
                }
            }
            #[cfg(feature = "server")]
            Connection::Server(connection) => {
                let _ = time::timeout(CHECK, connection.ended()).await;
                is_there(time::timeout(timeout, connection.ping()).await)
            }
            _ => future::pending().await,
        }
    }
}

impl Connection {
    /// Carries out all requests.
    ///
    /// # Errors
    ///
    /// The connection has failed.
    pub(crate) async fn call(
        &self,
        requests: &[Request],
        asking: bool,
    ) -> RedisResult<Vec<Answer>> {
        match self {
            Self::Redis(connection) => connection.call(requests, asking).await,
            #[cfg(feature = "server")]
            Self::Server(connection) => connection.call(requests).await,
            Self::Local(local) => {
                local.reach()?;
                local.resumed().await;
                Ok(requests
                    .iter()
                    .map(|request| local.answer(request))
                    .collect())
            }
            #[cfg(test)]
            Self::Double(double) => Ok(double.call(requests).await),
        }
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redis(address) => write!(f, "the store {address}"),
            Self::Sentinel(sentinels) => write!(f, "the store {sentinels}"),
            #[cfg(feature = "server")]
            Self::Server(server) => write!(f, "the decision server {server}"),
            _ => f.write_str("the store"),
        }
    }
}

#[cfg(test)]
pub(crate) mod double {
    use super::{Answer, Request};
    use crate::call::Reply;
    use std::time::Duration;
    use tokio::time;

    /// A store that takes as many milliseconds for a call as it has units, and admits it.
    #[derive(Clone, Debug)]
    pub(crate) struct Double;

    impl Double {
        pub(super) async fn call(&self, requests: &[Request]) -> Vec<Answer> {
            let [Request::Take(call)] = requests else {
                panic!("{requests:?}");
            };
            time::sleep(Duration::from_millis(call.runs[0].units)).await;
            let reply = Reply {
                taken: call.runs.iter().map(|run| run.times).collect(),
                ..Reply::default()
            };
            vec![Ok(vec![reply])]
        }
    }
}
