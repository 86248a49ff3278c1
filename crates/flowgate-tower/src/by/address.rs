use super::{KeySource, NoKey, TrustedProxies};
use crate::RequestHead;
use flowgate::{AddressKey, AddressPrefixes};
use std::net::{IpAddr, SocketAddr};

/// Finds the address that a request comes from.
///
/// ```
/// use flowgate_tower::RequestHead;
/// use flowgate_tower::by::{AddressSource, NoKey};
/// use std::net::IpAddr;
///
/// /// What the one proxy in front of this server puts into a field of its own, whatever clients write there.
/// struct RealIp;
///
/// impl AddressSource for RealIp {
///     fn address(&self, request: &RequestHead<'_>) -> Result<IpAddr, NoKey> {
///         let value = request.headers.get("x-real-ip").ok_or(NoKey::NotProvided)?;
///         let text = value.to_str().map_err(|_| NoKey::Malformed)?;
///         text.parse().map_err(|_| NoKey::Malformed)
///     }
/// }
///
/// let request = http::Request::builder().header("x-real-ip", "192.0.2.7").body(())?;
/// assert_eq!(RealIp.address(&RequestHead::of(&request))?.to_string(), "192.0.2.7");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait AddressSource: Send + Sync + 'static {
    /// Returns the address.
    ///
    /// # Errors
    ///
    /// Returns [`NoKey`] if the address is not known.
    fn address(&self, request: &RequestHead<'_>) -> Result<IpAddr, NoKey>;
}

/// Uses the address of the connection as the key.
///
/// A client cannot forge this address. Behind a proxy, it is the address of the proxy; use [`client_address`] there. An
/// IPv6 address counts by its first 64 bits, and [`PeerAddress::prefixes`] chooses another length.
///
/// The server keeps the address in the request's extensions. The place depends on the server, so this function needs one of
/// this crate's features:
///
/// | feature | server | what is read |
/// |---|---|---|
/// | `axum` | axum, with `into_make_service_with_connect_info::<SocketAddr>()` | `ConnectInfo<SocketAddr>` |
/// | `tonic` | tonic, over TCP | `TcpConnectInfo` |
/// | `hyper` | a service of your own, which puts it there | a bare [`SocketAddr`] |
///
/// A bare [`SocketAddr`] is read with any of the features. Without a feature, the function does not exist. If the address
/// is missing, the key is [`NoKey::NoPeerAddress`], whose text describes the fix. The layer
/// [counts](crate::Counts::misconfigured) such requests, whatever the value of [`Missing`](crate::Missing).
///
/// ```
/// use flowgate_tower::RequestHead;
/// use flowgate_tower::by::{self, KeySource};
/// use std::net::SocketAddr;
///
/// let peer: SocketAddr = "[2001:db8:1:2::7]:4711".parse()?;
/// let request = http::Request::builder().extension(peer).body(())?;
/// assert_eq!(by::peer_address().key(&RequestHead::of(&request))?.to_string(), "2001:db8:1:2::/64");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(any(feature = "axum", feature = "tonic", feature = "hyper", doc))]
pub fn peer_address() -> PeerAddress {
    PeerAddress {
        prefixes: AddressPrefixes::default(),
    }
}

/// A key source that takes the address of the connection; made by [`peer_address`].
///
/// ```
/// use flowgate_tower::RequestHead;
/// use flowgate_tower::by::{self, AddressSource, NoKey, PeerAddress};
/// use std::net::SocketAddr;
///
/// let source: PeerAddress = by::peer_address();
/// let peer: SocketAddr = "192.0.2.7:4711".parse()?;
/// let request = http::Request::builder().extension(peer).body(())?;
/// assert_eq!(source.address(&RequestHead::of(&request)), Ok(peer.ip()));
///
/// let request = http::Request::new(()); // of a server that does not say who is connected
/// assert_eq!(source.address(&RequestHead::of(&request)), Err(NoKey::NoPeerAddress));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct PeerAddress {
    prefixes: AddressPrefixes,
}

impl PeerAddress {
    /// Sets how many bits of an address make the key.
    ///
    /// ```
    /// use flowgate::AddressPrefixes;
    /// use flowgate_tower::RequestHead;
    /// use flowgate_tower::by::{self, KeySource};
    /// use std::net::SocketAddr;
    ///
    /// let source = by::peer_address().prefixes(AddressPrefixes::new(24, 48)?);
    /// let peer: SocketAddr = "192.0.2.7:4711".parse()?;
    /// let request = http::Request::builder().extension(peer).body(())?;
    /// assert_eq!(source.key(&RequestHead::of(&request))?.to_string(), "192.0.2.0/24");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn prefixes(self, prefixes: AddressPrefixes) -> Self {
        Self { prefixes }
    }
}

impl AddressSource for PeerAddress {
    fn address(&self, request: &RequestHead<'_>) -> Result<IpAddr, NoKey> {
        peer(request).ok_or(NoKey::NoPeerAddress)
    }
}

impl KeySource for PeerAddress {
    type Key = AddressKey;

    fn key(&self, request: &RequestHead<'_>) -> Result<AddressKey, NoKey> {
        self.address(request)
            .map(|address| self.prefixes.key(address))
    }
}

/// Uses the address of the client in front of `proxies` as the key.
///
/// Each proxy writes into a header field from which address it got a request. The field is read **from the right**, where
/// the nearest proxy wrote, and only as far as trusted proxies wrote. A client therefore cannot change its key by sending
/// the field itself. [`TrustedProxies`] has the rules.
///
/// Whether a proxy is trusted depends on its address, so this function needs one of the features of [`peer_address`].
///
/// ```
/// use flowgate_tower::RequestHead;
/// use flowgate_tower::by::{self, KeySource, TrustedProxies};
/// use std::net::SocketAddr;
///
/// let source = by::client_address(TrustedProxies::x_forwarded_for(["10.0.0.0/8".parse()?]));
/// let peer: SocketAddr = "10.0.0.2:4711".parse()?;
/// let request = http::Request::builder()
///     .extension(peer)
///     .header("x-forwarded-for", "1.2.3.4, 192.0.2.7, 10.0.0.1") // the first is the client's own invention
///     .body(())?;
/// assert_eq!(source.key(&RequestHead::of(&request))?.to_string(), "192.0.2.7");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(any(feature = "axum", feature = "tonic", feature = "hyper", doc))]
pub fn client_address(proxies: TrustedProxies) -> ClientAddress {
    ClientAddress {
        proxies,
        prefixes: AddressPrefixes::default(),
    }
}

/// A key source that takes the address in front of proxies; made by [`client_address`].
///
/// ```
/// use flowgate_tower::RequestHead;
/// use flowgate_tower::by::{self, AddressSource, ClientAddress, NoKey, TrustedProxies};
/// use std::net::SocketAddr;
///
/// let source: ClientAddress = by::client_address(TrustedProxies::forwarded(["10.0.0.0/8".parse()?]));
/// let peer: SocketAddr = "10.0.0.2:4711".parse()?;
/// let from = |field| http::Request::builder().extension(peer).header("forwarded", field).body(());
///
/// let request = from("for=192.0.2.7;proto=https")?;
/// assert_eq!(source.address(&RequestHead::of(&request)), Ok("192.0.2.7".parse()?));
/// let request = from("for=unknown")?;
/// assert_eq!(source.address(&RequestHead::of(&request)), Err(NoKey::Malformed));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClientAddress {
    proxies: TrustedProxies,
    prefixes: AddressPrefixes,
}

impl ClientAddress {
    /// Sets how many bits of an address make the key.
    ///
    /// ```
    /// use flowgate::AddressPrefixes;
    /// use flowgate_tower::RequestHead;
    /// use flowgate_tower::by::{self, KeySource, TrustedProxies};
    ///
    /// let proxies = TrustedProxies::x_forwarded_for([]).trust_peer();
    /// let source = by::client_address(proxies).prefixes(AddressPrefixes::new(32, 48)?);
    /// let request = http::Request::builder().header("x-forwarded-for", "2001:db8:1:2::7").body(())?;
    /// assert_eq!(source.key(&RequestHead::of(&request))?.to_string(), "2001:db8:1::/48");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn prefixes(self, prefixes: AddressPrefixes) -> Self {
        Self { prefixes, ..self }
    }
}

impl AddressSource for ClientAddress {
    fn address(&self, request: &RequestHead<'_>) -> Result<IpAddr, NoKey> {
        self.proxies.client(peer(request), request.headers)
    }
}

impl KeySource for ClientAddress {
    type Key = AddressKey;

    fn key(&self, request: &RequestHead<'_>) -> Result<AddressKey, NoKey> {
        self.address(request)
            .map(|address| self.prefixes.key(address))
    }
}

/// The address of the connection, if the server provides it.
fn peer(request: &RequestHead<'_>) -> Option<IpAddr> {
    #[cfg(feature = "axum")]
    if let Some(info) = request
        .extensions
        .get::<axum::extract::ConnectInfo<SocketAddr>>()
    {
        return Some(info.0.ip());
    }
    #[cfg(feature = "tonic")]
    if let Some(info) = request
        .extensions
        .get::<tonic::transport::server::TcpConnectInfo>()
        && let Some(address) = info.remote_addr()
    {
        return Some(address.ip());
    }
    request.extensions.get::<SocketAddr>().map(SocketAddr::ip)
}
