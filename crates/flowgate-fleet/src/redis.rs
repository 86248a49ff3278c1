//! The store: Redis, or Valkey.

use crate::call::{Call, Failure, Reply, Seen};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, IntoConnectionInfo, Pipeline, RedisError, RedisResult, Script,
};
use std::fmt;
use std::sync::LazyLock;

const SOURCE: &str = include_str!("script.lua");
static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(SOURCE));

/// Errors after which the connection is of no use: the server is not, or not any longer, the one that keeps the records.
const NOT_THE_PRIMARY: [&str; 5] = ["READONLY", "MASTERDOWN", "CLUSTERDOWN", "LOADING", "BUSY"];

/// Where the store is.
#[derive(Debug)]
pub(crate) struct Address(Client);

/// One connection. It does not reconnect.
#[derive(Clone)]
pub(crate) struct Connection(MultiplexedConnection);

impl Address {
    pub(crate) fn new(url: &str) -> RedisResult<Self> {
        // Calls are small, and wait for nothing.
        let tcp = TcpSettings::default().set_nodelay(true);
        let address = url.into_connection_info()?.set_tcp_settings(tcp);
        Client::open(address).map(Self)
    }

    pub(crate) async fn connect(&self) -> RedisResult<Connection> {
        // Time-outs are the link's, around everything.
        let settings = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None);
        let connection = self
            .0
            .get_multiplexed_async_connection_with_config(&settings);
        let connection = Connection(connection.await?);
        connection.ping().await?;
        Ok(connection)
    }
}

impl Connection {
    async fn ping(&self) -> RedisResult<()> {
        redis::cmd("PING").query_async(&mut self.0.clone()).await
    }

    /// Sends all calls in one write.
    ///
    /// # Errors
    ///
    /// The connection has failed, or the server is not the primary.
    pub(crate) async fn call(&self, calls: &[Call]) -> RedisResult<Vec<Result<Reply, Failure>>> {
        let mut replies = self.send(&mut redis::pipe(), calls).await?;
        let is_unknown = |reply: &RedisResult<_>| code_of(reply) == Some("NOSCRIPT");
        let unknown: Vec<usize> = (0..replies.len())
            .filter(|&at| is_unknown(&replies[at]))
            .collect();
        if !unknown.is_empty() {
            // They were not carried out.
            let mut pipeline = redis::pipe();
            pipeline.cmd("SCRIPT").arg("LOAD").arg(SOURCE).ignore();
            let again: Vec<Call> = unknown.iter().map(|&at| calls[at].clone()).collect();
            let answers = self.send(&mut pipeline, &again).await?;
            for (at, answer) in unknown.into_iter().zip(answers) {
                replies[at] = answer;
            }
        }
        if let Some(at) = replies
            .iter()
            .position(|reply| code_of(reply).is_some_and(|code| NOT_THE_PRIMARY.contains(&code)))
        {
            replies.swap_remove(at)?;
        }
        Ok(replies.into_iter().map(reply_of).collect())
    }

    async fn send(
        &self,
        pipeline: &mut Pipeline,
        calls: &[Call],
    ) -> RedisResult<Vec<RedisResult<Vec<u64>>>> {
        for call in calls {
            pipeline
                .cmd("EVALSHA")
                .arg(SCRIPT.get_hash())
                .arg(1)
                .arg(call.record.to_string())
                .arg(call.terms.count)
                .arg(call.terms.period)
                .arg(call.terms.burst)
                .arg(call.seen.debt)
                .arg(call.seen.at_us);
            for run in &call.runs {
                pipeline.arg(run.times).arg(run.units);
            }
        }
        pipeline.ignore_errors();
        pipeline.query_async(&mut self.0.clone()).await
    }
}

fn code_of<T>(reply: &RedisResult<T>) -> Option<&str> {
    reply.as_ref().err()?.code()
}

fn reply_of(reply: RedisResult<Vec<u64>>) -> Result<Reply, Failure> {
    let refused = |error: RedisError| Failure::Refused(error.to_string());
    match *reply.map_err(refused)? {
        [at_us, debt, healed, ref taken @ ..] => Ok(Reply {
            seen: Seen { debt, at_us },
            healed,
            taken: taken.to_vec(),
        }),
        _ => Err(Failure::Refused("its reply is too short".to_owned())),
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}
