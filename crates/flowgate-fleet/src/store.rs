use crate::call::{Call, Failure, Reply};
use crate::local::Local;
use crate::redis;
use ::redis::RedisResult;

/// Where the records are kept.
#[derive(Debug)]
pub(crate) enum Store {
    Redis(redis::Address),
    Local(Local),
}

/// A way to the records.
#[derive(Clone, Debug)]
pub(crate) enum Connection {
    Redis(redis::Connection),
    Local(Local),
}

impl Store {
    pub(crate) async fn connect(&self) -> RedisResult<Connection> {
        Ok(match self {
            Self::Redis(address) => Connection::Redis(address.connect().await?),
            Self::Local(local) => Connection::Local(local.clone()),
        })
    }
}

impl Connection {
    /// Carries out all calls.
    ///
    /// # Errors
    ///
    /// The connection has failed, or the store does not keep the records any longer.
    pub(crate) async fn call(&self, calls: &[Call]) -> RedisResult<Vec<Result<Reply, Failure>>> {
        match self {
            Self::Redis(connection) => connection.call(calls).await,
            Self::Local(local) => Ok(calls.iter().map(|call| Ok(local.call(call))).collect()),
        }
    }
}
