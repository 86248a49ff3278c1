use super::{KeySource, NoKey, TrustedProxies};
use crate::RequestHead;
use flowgate::{AddressKey, AddressPrefixes};
use std::net::{IpAddr, SocketAddr};

/// Finds the address that a request comes from.
pub trait AddressSource: Send + Sync + 'static {
    /// The address.
    ///
    /// # Errors
    ///
    /// [`NoKey`] if nobody knows it.
    fn address(&self, request: &RequestHead<'_>) -> Result<IpAddr, NoKey>;
}

/// By the address of whoever is connected: all that cannot be forged, and the client's own unless there is a proxy in
/// between. IPv6 by its first 64 bits; [`PeerAddress::prefixes`] chooses others.
///
/// It is found in the request's extensions: axum's `ConnectInfo<SocketAddr>` (with this crate's feature `axum`),
/// tonic's `TcpConnectInfo` (with feature `tonic`), or a bare [`SocketAddr`], which a service on hyper itself puts
/// there.
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
pub fn peer_address() -> PeerAddress {
    PeerAddress {
        prefixes: AddressPrefixes::default(),
    }
}

/// Made by [`peer_address`].
#[derive(Clone, Debug)]
pub struct PeerAddress {
    prefixes: AddressPrefixes,
}

impl PeerAddress {
    /// How many bits of an address make the key.
    #[must_use]
    pub fn prefixes(self, prefixes: AddressPrefixes) -> Self {
        Self { prefixes }
    }
}

impl AddressSource for PeerAddress {
    fn address(&self, request: &RequestHead<'_>) -> Result<IpAddr, NoKey> {
        peer(request).ok_or(NoKey::NotProvided)
    }
}

impl KeySource for PeerAddress {
    type Key = AddressKey;

    fn key(&self, request: &RequestHead<'_>) -> Result<AddressKey, NoKey> {
        self.address(request)
            .map(|address| self.prefixes.key(address))
    }
}

/// By the address of the client in front of `proxies`, which write down whom they got a request from.
///
/// What they wrote is read **from the right**, where the nearest one wrote, and only for as long as trusted ones
/// did. So nothing that a client sends by itself changes its key; [`TrustedProxies`] has the rules.
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
pub fn client_address(proxies: TrustedProxies) -> ClientAddress {
    ClientAddress {
        proxies,
        prefixes: AddressPrefixes::default(),
    }
}

/// Made by [`client_address`].
#[derive(Clone, Debug)]
pub struct ClientAddress {
    proxies: TrustedProxies,
    prefixes: AddressPrefixes,
}

impl ClientAddress {
    /// How many bits of an address make the key.
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

/// Whoever is connected, as far as the server says.
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
