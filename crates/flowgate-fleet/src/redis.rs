//! One server: Redis, or Valkey.

use crate::call::{Call, Failure, Reply, Request, Seen};
use crate::record::Record;
use crate::terms::{Kind, Terms};
#[cfg(feature = "tls")]
use redis::TlsCertificates;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, FromRedisValue,
    Pipeline, ProtocolVersion, PushInfo, PushKind, RedisError, RedisResult, Script,
    ServerErrorKind, Value,
};
#[cfg(feature = "tls")]
use rustls::{
    crypto::CryptoProvider,
    pki_types::{CertificateDer, pem::PemObject},
};
use std::fmt;
use std::io;
use std::sync::{Arc, LazyLock};
use tokio::sync::Notify;

/// The scripts of [`Request::Take`] for buckets and for windows, of [`Request::TakeAll`] and of [`Request::GiveBack`].
pub(crate) const TAKE: &str = include_str!("script.lua");
const TAKE_WINDOW: &str = include_str!("window.lua");
const TAKE_ALL: &str = concat!(include_str!("all/bucket.lua"), include_str!("all/take.lua"));
const GIVE_BACK: &str = concat!(
    include_str!("all/bucket.lua"),
    include_str!("all/give_back.lua")
);
pub(crate) const SOURCES: [&str; 4] = [TAKE, TAKE_WINDOW, TAKE_ALL, GIVE_BACK];
static SCRIPTS: LazyLock<[Script; 4]> = LazyLock::new(|| SOURCES.map(Script::new));

/// The code of an error of the scripts.
pub(crate) const FOREIGN: &str = "FOREIGN";

/// What the names of connections begin with. The process's number follows.
pub(crate) const NAME: &str = "flowgate-fleet:";

/// Errors after which the connection is of no use: the server is not, or not any longer, the one that keeps the records.
const NOT_THE_PRIMARY: [&str; 5] = [
    "READONLY",
    "MASTERDOWN",
    "LOADING",
    "BUSY",
    // A primary without enough replicas, which may have been cut off from the others.
    "NOREPLICAS",
];
/// Errors of a server of a cluster, for this record and for now.
const NOT_SERVED: [&str; 2] = ["CLUSTERDOWN", "TRYAGAIN"];
/// The oldest version whose scripts take the time and write.
const OLDEST: (u32, u32) = (6, 2);

/// A server's name or address, and its port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) port: u16,
}

/// A server, and how to be let in.
#[derive(Clone, Debug)]
pub(crate) struct Address(Client);

/// One connection. It does not reconnect.
#[derive(Clone)]
pub(crate) struct Connection {
    connection: MultiplexedConnection,
    address: Arc<Address>,
    /// It may not be of use any longer.
    changed: Arc<Notify>,
}

/// A reply for each record.
pub(crate) type Answer = Result<Vec<Reply>, Unanswered>;

/// Why a call has no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    Failed(Failure),
    /// It was not carried out: another server of the cluster keeps the record. With `asking`, only for now.
    Elsewhere {
        host: Host,
        asking: bool,
    },
    /// It was not carried out: the server is not the one that keeps the records.
    NotPrimary(String),
}

impl Unanswered {
    /// Returns what the limit is told.
    pub(crate) fn failure(self) -> Failure {
        match self {
            Self::Failed(failure) => failure,
            Self::Elsewhere { .. } => {
                Failure::Refused("it is a server of a cluster: use Fleet::cluster".to_owned())
            }
            Self::NotPrimary(_) => Failure::Unreachable,
        }
    }
}

impl Address {
    pub(crate) fn new(info: ConnectionInfo, tls: &Tls) -> RedisResult<Self> {
        // Calls are small, and wait for nothing.
        let tcp = TcpSettings::default().set_nodelay(true);
        // Of the third version of the protocol: only there, the end of a connection is told, and a sentinel tells of changes.
        let redis = info.redis_settings().clone();
        let info = info.set_redis_settings(redis.set_protocol(ProtocolVersion::RESP3));
        // What a connection that was replaced has sent is not worth more.
        #[cfg(target_os = "linux")]
        let tcp = tcp.set_user_timeout(std::time::Duration::from_secs(10));
        tls.client(info.set_tcp_settings(tcp)).map(Self)
    }

    /// Returns the address of another server that lets in as this one does.
    pub(crate) fn with_host(&self, host: &Host) -> RedisResult<Self> {
        let info = self.0.get_connection_info().clone();
        let Host { name, port } = host.clone();
        let addr = match info.addr() {
            ConnectionAddr::TcpTls {
                insecure,
                tls_params,
                ..
            } => ConnectionAddr::TcpTls {
                host: name,
                port,
                insecure: *insecure,
                tls_params: tls_params.clone(),
            },
            _ => ConnectionAddr::Tcp(name, port),
        };
        Client::open(info.set_addr(addr)).map(Self)
    }

    /// Returns the server; `None` is one behind a socket of this machine.
    pub(crate) fn host(&self) -> Option<Host> {
        match self.0.get_connection_info().addr() {
            ConnectionAddr::Tcp(name, port)
            | ConnectionAddr::TcpTls {
                host: name, port, ..
            } => Some(Host {
                name: name.clone(),
                port: *port,
            }),
            _ => None,
        }
    }

    pub(crate) fn is_tls(&self) -> bool {
        is_tls(self.0.get_connection_info())
    }

    pub(crate) fn client(&self) -> &Client {
        &self.0
    }

    /// Connects to a primary that is new enough.
    pub(crate) async fn connect(&self, changed: Arc<Notify>) -> RedisResult<Connection> {
        let connection = self.open(changed).await?;
        connection.confirm().await?;
        Ok(connection)
    }

    /// Connects to any server. `changed` is notified when the connection ends.
    pub(crate) async fn open(&self, changed: Arc<Notify>) -> RedisResult<Connection> {
        let config = config(Arc::clone(&changed), PushKind::Disconnection);
        let connection = self.0.get_multiplexed_async_connection_with_config(&config);
        let connection = Connection {
            connection: connection.await?,
            address: Arc::new(self.clone()),
            changed,
        };
        connection.set_name().await;
        Ok(connection)
    }
}

/// What a store with TLS must show, and is shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tls {
    #[cfg(feature = "tls")]
    pub(crate) authorities: Option<Vec<u8>>,
    #[cfg(feature = "tls")]
    pub(crate) client: Option<redis::ClientTlsConfig>,
}

impl Tls {
    #[cfg(feature = "tls")]
    pub(crate) fn is_given(&self) -> bool {
        self.authorities.is_some() || self.client.is_some()
    }

    /// Returns an error if there are authorities, and they are no certificates, or if no address is one with TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn check(&self, addresses: &[&ConnectionInfo]) -> RedisResult<()> {
        if self.is_given() && !addresses.iter().any(|info| is_tls(info)) {
            return Err(error(
                "the address is one without TLS; write rediss://HOST:PORT",
            ));
        }
        let is_certificate = |pem: &Vec<u8>| CertificateDer::from_pem_slice(pem).is_ok();
        if !self.authorities.iter().all(is_certificate) {
            return Err(error("the authorities have no certificate in PEM format"));
        }
        Ok(())
    }

    fn client(&self, info: ConnectionInfo) -> RedisResult<Client> {
        #[cfg(feature = "tls")]
        if is_tls(&info) {
            // An application that has several of them chooses one itself.
            if CryptoProvider::get_default().is_none() {
                let _ = rustls::crypto::ring::default_provider().install_default();
            }
            let certificates = TlsCertificates {
                client_tls: self.client.clone(),
                root_cert: self.authorities.clone(),
            };
            return Client::build_with_tls(info, certificates);
        }
        Client::open(info)
    }
}

fn is_tls(info: &ConnectionInfo) -> bool {
    matches!(info.addr(), ConnectionAddr::TcpTls { .. })
}

/// Time-outs are the link's, around everything. `changed` is notified when something of this kind comes that is not an answer.
pub(crate) fn config(changed: Arc<Notify>, kind: PushKind) -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_push_sender(move |push: PushInfo| {
            if push.kind == kind {
                changed.notify_one();
            }
            Ok::<_, ()>(())
        })
}

/// Returns an error of ours.
pub(crate) fn error(why: impl Into<String>) -> RedisError {
    RedisError::from(io::Error::other(why.into()))
}

impl Connection {
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Waits until the connection may not be of use any longer.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Sends a command of words.
    pub(crate) async fn ask<T: FromRedisValue>(&self, words: &[&str]) -> RedisResult<T> {
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(word);
        }
        command.query_async(&mut self.connection.clone()).await
    }

    /// Names the connection, so that operators see which processes are connected. A user of the store may not be allowed to.
    async fn set_name(&self) {
        let name = format!("{NAME}{}", std::process::id());
        let _: RedisResult<()> = self.ask(&["CLIENT", "SETNAME", &name]).await;
    }

    pub(crate) async fn ping(&self) -> RedisResult<()> {
        self.ask(&["PING"]).await
    }

    /// Returns an error if the server is not a primary, or is too old.
    async fn confirm(&self) -> RedisResult<()> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("PING").cmd("ROLE").cmd("INFO").arg("server");
        pipeline.ignore_errors();
        let replies: Vec<RedisResult<Value>> =
            pipeline.query_async(&mut self.connection.clone()).await?;
        let mut replies = replies.into_iter();
        let mut reply = || replies.next().unwrap_or(Ok(Value::Nil));
        // A server that is loading, or busy, refuses this one.
        reply()?;
        // A server that hides these is taken at its word.
        if let Ok(Value::Array(role)) = reply() {
            check_role(role.first())?;
        }
        match reply().and_then(|info| Ok(String::from_redis_value(info)?)) {
            Ok(info) => check_version(&info),
            Err(_) => Ok(()),
        }
    }

    /// Sends all requests in one write. With `asking`, a cluster moves their slots to this server.
    ///
    /// # Errors
    ///
    /// The connection has failed.
    pub(crate) async fn call(
        &self,
        requests: &[Request],
        asking: bool,
    ) -> RedisResult<Vec<Answer>> {
        let mut replies = self.send(redis::pipe(), requests, asking).await?;
        let is_unknown = |reply: &RedisResult<_>| code_of(reply) == Some("NOSCRIPT");
        let unknown: Vec<usize> = (0..replies.len())
            .filter(|&at| is_unknown(&replies[at]))
            .collect();
        if !unknown.is_empty() {
            // They were not carried out.
            let mut pipeline = redis::pipe();
            for source in SOURCES {
                pipeline.cmd("SCRIPT").arg("LOAD").arg(source).ignore();
            }
            let again: Vec<Request> = unknown.iter().map(|&at| requests[at].clone()).collect();
            let answers = self.send(pipeline, &again, asking).await?;
            for (at, answer) in unknown.into_iter().zip(answers) {
                replies[at] = answer;
            }
        }
        let answers = requests.iter().zip(replies);
        let answers = answers.map(|(request, reply)| self.answer(request, reply));
        Ok(answers.collect())
    }

    async fn send(
        &self,
        mut pipeline: Pipeline,
        requests: &[Request],
        asking: bool,
    ) -> RedisResult<Vec<RedisResult<Vec<u64>>>> {
        let hashes = SCRIPTS.each_ref().map(Script::get_hash);
        for request in requests {
            if asking {
                pipeline.cmd("ASKING").ignore();
            }
            pipeline.add_command(request.command(hashes));
        }
        pipeline.ignore_errors();
        pipeline.query_async(&mut self.connection.clone()).await
    }

    fn answer(&self, request: &Request, reply: RedisResult<Vec<u64>>) -> Answer {
        let refused = |why: String| Unanswered::Failed(Failure::Refused(why));
        let code = code_of(&reply).map(str::to_owned);
        let error = match reply.as_deref() {
            Ok(numbers) => {
                let short = || refused("its reply is too short".to_owned());
                return request.read(numbers).ok_or_else(short);
            }
            Err(error) => error,
        };
        Err(match code.as_deref() {
            Some(FOREIGN | "WRONGTYPE") => refused(foreign(request.record())),
            Some(code @ ("MOVED" | "ASK")) => match self.redirect(error) {
                Some(host) => Unanswered::Elsewhere {
                    host,
                    asking: code == "ASK",
                },
                None => refused(error.to_string()),
            },
            Some(code) if NOT_THE_PRIMARY.contains(&code) => Unanswered::NotPrimary(explain(error)),
            Some(code) if NOT_SERVED.contains(&code) => Unanswered::Failed(Failure::Unreachable),
            _ => refused(explain(error)),
        })
    }

    /// Returns the server that an error refers to. Without a name, it is a port of this one.
    fn redirect(&self, error: &RedisError) -> Option<Host> {
        let (address, _) = error.redirect_node()?;
        let (name, port) = address.rsplit_once(':')?;
        let name = match name {
            "" | "?" => self.address.host()?.name,
            name => name.to_owned(),
        };
        let port = port.parse().ok()?;
        Some(Host { name, port })
    }
}

impl Request {
    /// Returns the command. `hashes` are those of the scripts.
    pub(crate) fn command(&self, hashes: [&str; 4]) -> Cmd {
        let [take, take_window, take_all, give_back] = hashes;
        let evaluate = |hash: &str, keys: usize| {
            let mut command = redis::cmd("EVALSHA");
            command.arg(hash).arg(keys);
            command
        };
        let terms = |call: &Call| {
            let Terms {
                kind,
                count,
                period,
                burst,
                ..
            } = call.terms;
            let of_kind = match kind {
                Kind::Bucket => [count, period, burst],
                _ => [burst, period, u64::from(kind == Kind::AlignedWindow)],
            };
            let [first, second, third] = of_kind;
            let seen = call.seen;
            [first, second, third, seen.debt, seen.since_us(kind)]
        };
        match self {
            Self::Take(call) => {
                let script = match call.terms.kind {
                    Kind::Bucket => take,
                    _ => take_window,
                };
                let mut command = evaluate(script, 1);
                command.arg(call.record.to_string()).arg(&terms(call));
                for run in &call.runs {
                    command.arg(run.times).arg(run.units).arg(run.least);
                }
                command
            }
            Self::TakeAll(calls) => {
                let mut command = evaluate(take_all, calls.len());
                for call in calls {
                    command.arg(call.record.to_string());
                }
                for call in calls {
                    command.arg(&terms(call)).arg(call.runs[0].units);
                }
                command
            }
            Self::GiveBack(back) => {
                let Terms { count, period, .. } = back.terms;
                let mut command = evaluate(give_back, 1);
                command.arg(back.record.to_string());
                command.arg(&[count, period, back.units * period]);
                command.arg(&[back.taken.debt, back.taken.at_us]);
                command
            }
        }
    }

    /// Returns the reply for each record. Returns `None` if these are not the numbers of one.
    pub(crate) fn read(&self, numbers: &[u64]) -> Option<Vec<Reply>> {
        let (&at_us, numbers) = numbers.split_first()?;
        let reply = |debt, taken| Reply {
            seen: Seen {
                debt,
                at_us,
                began_us: 0,
            },
            taken,
            ..Reply::default()
        };
        match self {
            Self::Take(call) => {
                let (&[debt, healed, since_us], taken) = numbers.split_first_chunk()?;
                let mut reply = reply(debt, taken.to_vec());
                reply.healed = healed;
                match call.terms.kind {
                    Kind::Bucket => reply.reset_us = since_us,
                    _ => reply.seen.began_us = since_us,
                }
                Some(vec![reply])
            }
            Self::TakeAll(calls) => {
                let (taken, records) = numbers.split_first()?;
                let (records, rest) = records.as_chunks();
                let of = |&[debt, healed, reset_us]: &[u64; 3]| Reply {
                    healed,
                    reset_us,
                    ..reply(debt, vec![*taken])
                };
                let is_whole = rest.is_empty() && records.len() == calls.len();
                is_whole.then(|| records.iter().map(of).collect())
            }
            Self::GiveBack(_) => {
                let &[debt, parts] = numbers.first_chunk()?;
                Some(vec![reply(debt, vec![parts])])
            }
        }
    }
}

/// Returns what to do about a value under the name of a limit that is not its record.
pub(crate) fn foreign(record: Record) -> String {
    format!(
        "{record} has a value of another program, or a limit of this name counts in another way: use another name for one of them, or \
         delete the value with `DEL {record}`"
    )
}

/// Returns what an error of the store means, and what to do about it.
pub(crate) fn explain(error: &RedisError) -> String {
    match (hint(error), code_of_error(error)) {
        // The rest of the error is long, and about the protocol.
        (Some(hint), Some(code @ ("NOAUTH" | "WRONGPASS" | "READONLY"))) => {
            format!("{hint} ({code})")
        }
        (Some(hint), _) => format!("{hint} ({error})"),
        (None, _) => match (error.kind(), error.detail()) {
            // Of a decision server.
            (ErrorKind::InvalidClientConfig, Some(why)) => why.to_owned(),
            _ => error.to_string(),
        },
    }
}

/// Returns what to do about an error that does not end by itself.
pub(crate) fn hint(error: &RedisError) -> Option<&'static str> {
    match code_of_error(error) {
        Some("NOAUTH") => Some(
            "it asks for a password: write redis://USER:PASSWORD@HOST:PORT, or redis://:PASSWORD@HOST:PORT without a user",
        ),
        Some("WRONGPASS") => Some(WRONG_PASSWORD),
        Some("NOPERM") => Some(
            "its user lacks a right: allow EVALSHA, SCRIPT LOAD, GET, SET, PTTL, TIME and PING, and the keys fg1:*",
        ),
        Some("READONLY") => Some(REPLICA),
        _ if error.kind() == ErrorKind::AuthenticationFailed => Some(WRONG_PASSWORD),
        _ => None,
    }
}

const WRONG_PASSWORD: &str =
    "it refuses the user or the password: check redis://USER:PASSWORD@HOST:PORT";
const REPLICA: &str = "it is a replica: give the address of the primary, or use Fleet::sentinel";

/// Returns the code of an error, such as `READONLY`.
///
/// Redis 6.2 puts what a script's command returns into an error of the script: `ERR Error running script ...: -READONLY You can't ...`, or
/// `...: WRONGTYPE Operation ...`.
pub(crate) fn code_of_error(error: &RedisError) -> Option<&str> {
    let code = error.code()?;
    let detail = error.detail().unwrap_or_default();
    if code != "ERR" || !detail.starts_with("Error running script") {
        return Some(code);
    }
    let of_command = detail.rsplit(": ").find_map(|part| {
        let word = part.trim_start_matches('-').split(' ').next()?;
        let is_code = word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase());
        is_code.then_some(word)
    });
    of_command.or(Some(code))
}

fn code_of<T>(reply: &RedisResult<T>) -> Option<&str> {
    code_of_error(reply.as_ref().err()?)
}

fn check_role(role: Option<&Value>) -> RedisResult<()> {
    match role.map(String::from_redis_value_ref) {
        Some(Ok(role)) if role == "slave" => {
            let kind = ErrorKind::Server(ServerErrorKind::ReadOnly);
            Err(RedisError::from((kind, "ROLE is slave")))
        }
        Some(Ok(role)) if role == "sentinel" => Err(error("it is a sentinel: use Fleet::sentinel")),
        _ => Ok(()),
    }
}

fn check_version(info: &str) -> RedisResult<()> {
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
    let Some(text) = field("redis_version:") else {
        return Ok(());
    };
    let mut numbers = text.split('.').map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) < OLDEST => {
            let version = text.trim();
            Err(error(format!(
                "it is Redis {version}: update it to 6.2 or later"
            )))
        }
        _ => Ok(()),
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.port)
    }
}

/// Without the password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.get_connection_info().addr().fmt(f)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(text: &str) -> RedisResult<()> {
        let value = redis::parse_redis_value(text.as_bytes())?;
        value.extract_error().map(drop)
    }

    #[test]
    fn the_code_of_a_command_is_found_in_the_error_of_its_script() {
        for (text, code) in [
            (
                "-READONLY You can't write against a read only replica.\r\n",
                "READONLY",
            ),
            (
                "-ERR Error running script (call to f_7c3): @user_script:49: @user_script: 49: -READONLY You can't write against a \
                 read only replica.\r\n",
                "READONLY",
            ),
            (
                "-ERR Error running script (call to f_814): @user_script:6: WRONGTYPE Operation against a key holding the wrong kind of \
                 value\r\n",
                "WRONGTYPE",
            ),
            (
                "-ERR Error running script (call to f_814): @user_script:6: attempt to compare nil with number\r\n",
                "ERR",
            ),
            ("-ERR unknown command - 17\r\n", "ERR"),
            (
                "-NOSCRIPT No matching script. Please use EVAL.\r\n",
                "NOSCRIPT",
            ),
        ] {
            assert_eq!(code_of(&failed(text)), Some(code), "{text}");
        }
    }

    #[test]
    fn what_does_not_end_by_itself_is_told_with_what_to_do() {
        for (text, hint) in [
            (
                "-NOAUTH Authentication required.\r\n",
                "redis://:PASSWORD@HOST:PORT",
            ),
            (
                "-WRONGPASS invalid username-password pair\r\n",
                "check redis://USER:PASSWORD@",
            ),
            ("-NOPERM this user has no permissions\r\n", "EVALSHA"),
            ("-READONLY You can't write\r\n", "address of the primary"),
        ] {
            let told = explain(&failed(text).unwrap_err());
            assert!(told.contains(hint), "{told}");
        }
        let role = Value::SimpleString("slave".to_owned());
        let replica = explain(&check_role(Some(&role)).unwrap_err());
        assert!(replica.contains("address of the primary"), "{replica}");
        assert_eq!(
            hint(&failed("-OOM command not allowed\r\n").unwrap_err()),
            None
        );
    }

    #[test]
    fn an_old_server_is_refused_with_what_to_do() {
        let of = |version: &str| check_version(&format!("# Server\r\nredis_version:{version}\r\n"));
        let error = of("6.0.16").unwrap_err().to_string();
        assert!(
            error.contains("6.0.16") && error.contains("update"),
            "{error}"
        );
        for fine in ["6.2.0", "7.0.15", "10.0.0", "255.255.255", "hidden"] {
            assert!(of(fine).is_ok(), "{fine}");
        }
        assert!(check_version("").is_ok());
    }
}
