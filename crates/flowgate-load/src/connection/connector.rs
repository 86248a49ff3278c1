//! How connections are opened: decided once per run, the same for every connection.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hyper::http::uri::{Authority, Scheme};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use super::http1::Http1;
use super::http2::Http2;
use super::peer::{HostAddress, Peer, Via};
use super::proxy::{self, HttpProxy, Tunnel};
use super::stamp::Departures;
use super::tls::{self, ClientIdentity, TlsError, Trust};
use super::wire::{Transport, Wire};
use super::{Connection, Kind};
use crate::failure::{Failure, TlsFault};
use crate::target::Target;

const H1: &[u8] = b"http/1.1";
const H2: &[u8] = b"h2";

/// HTTP version that a connection uses.
///
/// # Examples
///
/// ```
/// use std::num::NonZeroUsize;
///
/// use flowgate::Quota;
/// use flowgate_load::{HttpVersion, Plan, Schedule, Target};
///
/// let schedule = Schedule::of(Quota::per_second(100), 1000)?;
/// let mut plan = Plan::new(Target::parse("https://localhost:8443/")?, schedule);
/// assert_eq!(plan.connect.version, HttpVersion::Http1);
///
/// // Ten concurrent requests on each connection.
/// plan.connect.version = HttpVersion::Http2;
/// plan.streams = const { NonZeroUsize::new(10).unwrap() };
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HttpVersion {
    /// HTTP/1.1: one request at a time on a connection.
    #[default]
    Http1,
    /// HTTP/2: concurrent requests on a connection. Without TLS the server must expect it.
    Http2,
    /// HTTP/2 if the server offers it in the TLS handshake, otherwise HTTP/1.1.
    Negotiated,
}

impl HttpVersion {
    /// Returns the protocols offered in a TLS handshake, the preferred one first.
    pub(super) fn protocols(self) -> &'static [&'static [u8]] {
        match self {
            HttpVersion::Http1 => &[H1],
            HttpVersion::Http2 => &[H2],
            HttpVersion::Negotiated => &[H2, H1],
        }
    }
}

/// Options for opening connections.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use flowgate::Quota;
/// use flowgate_load::{ConnectOptions, Plan, Schedule, Target, Trust};
///
/// let schedule = Schedule::of(Quota::per_second(100), 1000)?;
/// let plan = Plan {
///     connect: ConnectOptions {
///         server_name: Some("shop.example.org".to_owned()),
///         timeout: Duration::from_secs(2),
///         ..ConnectOptions::default()
///     },
///     ..Plan::new(Target::parse("https://192.0.2.7/")?, schedule)
/// };
/// assert_eq!(plan.connect.trust, Trust::System);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// HTTP version (default: HTTP/1.1).
    pub version: HttpVersion,
    /// Trusted certificates (default: [`System`](Trust::System)). Ignored without TLS.
    pub trust: Trust,
    /// Server name for the TLS handshake (default: the target's host). The certificate must contain it.
    pub server_name: Option<String>,
    /// Where to connect (default: host and port of the target).
    pub via: Option<Via>,
    /// Addresses of hosts, in place of those that the system knows.
    pub addresses: Vec<HostAddress>,
    /// HTTP proxy (default: none). Ignores `via` and `addresses`, because the proxy looks the host up.
    pub proxy: Option<HttpProxy>,
    /// Client certificate for servers that ask for one (default: none).
    pub identity: Option<ClientIdentity>,
    /// Maximum time for opening a connection, including all handshakes (default: 10 s).
    pub timeout: Duration,
}

impl Default for ConnectOptions {
    fn default() -> ConnectOptions {
        ConnectOptions {
            version: HttpVersion::default(),
            trust: Trust::default(),
            server_name: None,
            via: None,
            addresses: Vec::new(),
            proxy: None,
            identity: None,
            timeout: Duration::from_secs(10),
        }
    }
}

/// Opens connections to one target. Each thread has a clone.
#[derive(Clone)]
pub(crate) struct Connector {
    version: HttpVersion,
    tls: Option<Tls>,
    authority: Authority,
    /// A tunnel through a proxy.
    tunnel: Option<Tunnel>,
    timeout: Duration,
    /// Whether connections keep compressed bodies.
    collects: bool,
}

#[derive(Clone)]
struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Connector {
    /// Reads the trusted certificates, if the target needs TLS.
    ///
    /// # Errors
    ///
    /// Returns an error if certificates cannot be read, or if no certificate could contain the name.
    pub(crate) fn new(target: &Target, options: &ConnectOptions) -> Result<Connector, TlsError> {
        let config = Connector::config([target], options)?;
        Connector::with(target, options, config)
    }

    /// Creates a connector for each target. They share the certificates, which are read once.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`new`](Connector::new).
    pub(crate) fn each(
        targets: &[&Target],
        options: &ConnectOptions,
    ) -> Result<Vec<Connector>, TlsError> {
        let config = Connector::config(targets.iter().copied(), options)?;
        let with = |target: &&Target| Connector::with(target, options, config.clone());
        targets.iter().map(with).collect()
    }

    /// Reads the certificates, if any target needs them.
    fn config<'a>(
        targets: impl IntoIterator<Item = &'a Target>,
        options: &ConnectOptions,
    ) -> Result<Option<Arc<ClientConfig>>, TlsError> {
        let (trust, identity) = (&options.trust, options.identity.as_ref());
        let mut targets = targets.into_iter();
        let configured = || tls::configure(trust, identity, options.version).map(Arc::new);
        (targets.any(Target::is_tls)).then(configured).transpose()
    }

    fn with(
        target: &Target,
        options: &ConnectOptions,
        config: Option<Arc<ClientConfig>>,
    ) -> Result<Connector, TlsError> {
        let tls = match config.filter(|_| target.is_tls()) {
            Some(config) => {
                let host = options.server_name.as_deref().unwrap_or(target.host());
                let name = tls::server_name(host)?;
                Some(Tls { config, name })
            }
            None => None,
        };
        Ok(Connector {
            version: options.version,
            tls,
            authority: target.as_authority().clone(),
            tunnel: (options.proxy.as_ref().filter(|_| target.is_tls())).map(|proxy| Tunnel {
                server: format!("{}:{}", target.as_authority().host(), target.port()),
                authorization: proxy.authorization.clone(),
            }),
            timeout: options.timeout,
            collects: false,
        })
    }

    /// Sets whether connections keep the compressed body of a response until the next.
    pub(crate) fn collecting(self, collects: bool) -> Connector {
        Connector { collects, ..self }
    }

    /// Returns whether several users may share a connection.
    pub(super) fn may_share(&self) -> bool {
        match self.version {
            HttpVersion::Http1 => false,
            HttpVersion::Http2 => true,
            HttpVersion::Negotiated => self.tls.is_some(),
        }
    }

    /// Connects to `peer`, with all handshakes.
    ///
    /// Requires a local runtime or set: a separate task drives an HTTP/2 connection.
    pub(crate) async fn open(&self, peer: impl Into<Peer>) -> Result<Connection, Failure> {
        timeout(self.timeout, self.connect(&peer.into()))
            .await
            .unwrap_or(Err(Failure::Timeout))
    }

    async fn connect(&self, peer: &Peer) -> Result<Connection, Failure> {
        let refuse = |error: io::Error| Failure::of_connecting(&error);
        let mut socket = peer.connect().await.map_err(refuse)?;
        if let Some(tunnel) = &self.tunnel {
            proxy::tunnel(&mut socket, tunnel).await?;
        }
        let departures = Rc::new(Departures::default());
        let wire = Wire {
            socket,
            departures: departures.clone(),
        };
        let (transport, scheme, is_http2) = match &self.tls {
            None => {
                let is_http2 = self.version == HttpVersion::Http2;
                (Transport::Plain(wire), Scheme::HTTP, is_http2)
            }
            Some(tls) => {
                let (transport, is_http2) = self.encrypt(tls, wire).await?;
                (transport, Scheme::HTTPS, is_http2)
            }
        };
        let kind = if is_http2 {
            let authority = self.authority.clone();
            Kind::Http2(Http2::open(transport, departures, scheme, authority, self.collects).await?)
        } else {
            Kind::Http1(Box::new(Http1::new(transport, departures, self.collects)))
        };
        Ok(Connection(kind))
    }

    /// Performs the TLS handshake. Returns whether HTTP/2 was negotiated.
    async fn encrypt(&self, tls: &Tls, wire: Wire) -> Result<(Transport, bool), Failure> {
        let stream = TlsConnector::from(tls.config.clone())
            .connect(tls.name.clone(), wire)
            .await
            .map_err(|error| Failure::of_handshake(&error))?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(H2);
        if self.version == HttpVersion::Http2 && !is_http2 {
            return Err(Failure::Tls(TlsFault::NoCommonProtocol));
        }
        Ok((Transport::Tls(Box::new(stream)), is_http2))
    }
}
