//! Finds the keys of requests, for [`LimitLayer::keyed`](crate::LimitLayer::keyed).
//!
//! | | key | what counts as missing |
//! |---|---|---|
//! | [`peer_address`] | [`AddressKey`](flowgate::AddressKey) | a server that does not say who is connected |
//! | [`client_address`] | [`AddressKey`](flowgate::AddressKey) | that, or what the proxies wrote cannot be read |
//! | [`header`] | `String` | no such line, several, an empty one, over 1024 bytes, or not visible ASCII |
//! | [`path`] | `String` | nothing |
//! | [`extension`] | `T` | none of that type |
//! | [`function`] | what it returns | `None` |
//! | two of them, `(a, b)` | both keys | either |
//!
//! [`Missing`](crate::Missing) chooses what happens to a request without a key.
//!
//! To store the keys in the table, build it with `exact::<str>()` if the key is a `String`, and with
//! `exact::<AddressKey>()` if it is an address. [`LimitLayer::keyed`](crate::LimitLayer::keyed) has an example.

mod address;
mod forwarded;
mod proxies;
mod range;

pub use address::{AddressSource, ClientAddress, PeerAddress};
#[cfg(any(feature = "axum", feature = "tonic", feature = "hyper", doc))]
pub use address::{client_address, peer_address};
pub use proxies::TrustedProxies;
pub use range::{AddressRange, AddressRangeError};

use crate::RequestHead;
use http::HeaderName;
use std::error::Error;
use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;

/// The longest header value that is a key, in bytes.
const MAX_HEADER_BYTES: usize = 1024;

/// A method to find the key of a request.
///
/// ```
/// use flowgate_tower::RequestHead;
/// use flowgate_tower::by::{KeySource, NoKey};
///
/// /// By the customer whose number an API key begins with: `17-3f9a…`.
/// #[derive(Clone)]
/// struct Customer;
///
/// impl KeySource for Customer {
///     type Key = u32;
///
///     fn key(&self, request: &RequestHead<'_>) -> Result<u32, NoKey> {
///         let value = request.headers.get("x-api-key").ok_or(NoKey::Missing)?;
///         let (number, _) = value.to_str().ok().and_then(|key| key.split_once('-')).ok_or(NoKey::Malformed)?;
///         number.parse().map_err(|_| NoKey::Malformed)
///     }
/// }
///
/// let request = http::Request::builder().header("x-api-key", "17-3f9a").body(())?;
/// assert_eq!(Customer.key(&RequestHead::of(&request)), Ok(17));
/// # Ok::<(), http::Error>(())
/// ```
pub trait KeySource: Clone + Send + Sync + 'static {
    /// The key that requests with the same limit have in common.
    type Key: Hash + Send + Sync + 'static;

    /// Returns the key of `request`.
    ///
    /// # Errors
    ///
    /// Returns [`NoKey`] if the request has no key, or a key that cannot be read.
    fn key(&self, request: &RequestHead<'_>) -> Result<Self::Key, NoKey>;
}

/// The reason why a request has no key.
///
/// ```
/// use flowgate_tower::RequestHead;
/// use flowgate_tower::by::{self, KeySource, NoKey};
///
/// let request = http::Request::new(());
/// let whose = |no_key| match no_key {
///     NoKey::Missing | NoKey::Malformed => "the client's",
///     _ => "the server's",
/// };
/// let no_header = by::header("x-api-key").key(&RequestHead::of(&request)).unwrap_err();
/// assert_eq!(whose(no_header), "the client's");
/// let no_peer = by::peer_address().key(&RequestHead::of(&request)).unwrap_err();
/// assert_eq!(whose(no_peer), "the server's");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoKey {
    /// The request has no key: `400 Bad Request`.
    Missing,
    /// The request has a key that cannot be read: `400 Bad Request`.
    Malformed,
    /// The server does not provide the key, whatever the client sends: `500 Internal Server Error`.
    NotProvided,
    /// The server does not provide the address of its peer: `500 Internal Server Error`.
    ///
    /// - In axum, serve with `into_make_service_with_connect_info::<SocketAddr>()`, and turn on this crate's feature
    ///   `axum`.
    /// - In tonic, serve over TCP, and turn on this crate's feature `tonic`.
    /// - On hyper itself, put the peer's [`SocketAddr`](std::net::SocketAddr) into the request's extensions.
    NoPeerAddress,
}

impl NoKey {
    /// Returns whether the server's configuration is the reason, whatever the client sends.
    ///
    /// ```
    /// use flowgate_tower::by::NoKey;
    ///
    /// assert!(NoKey::NoPeerAddress.is_the_servers_fault());
    /// assert!(!NoKey::Missing.is_the_servers_fault());
    /// ```
    pub fn is_the_servers_fault(self) -> bool {
        matches!(self, Self::NotProvided | Self::NoPeerAddress)
    }
}

/// The text of an error: the reason, and a fix for the enabled features.
const NO_PEER_ADDRESS: &str = match (cfg!(feature = "axum"), cfg!(feature = "tonic")) {
    (true, true) => {
        "the server does not know its peer's address: in axum, serve with \
         `into_make_service_with_connect_info::<SocketAddr>()`; in tonic, serve over TCP"
    }
    (true, false) => {
        "the server does not know its peer's address: serve with \
         `into_make_service_with_connect_info::<SocketAddr>()`; for tonic, turn on flowgate-tower's feature `tonic`"
    }
    (false, true) => {
        "the server does not know its peer's address: serve over TCP; \
         for axum, turn on flowgate-tower's feature `axum`"
    }
    (false, false) => {
        "the server does not know its peer's address: put a `SocketAddr` into the request's extensions, \
         or turn on flowgate-tower's feature `axum` or `tonic`"
    }
};

impl fmt::Display for NoKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "the request does not say whose it is",
            Self::Malformed => "what the request says of whose it is cannot be read",
            Self::NotProvided => "the server does not know whose the request is",
            Self::NoPeerAddress => NO_PEER_ADDRESS,
        })
    }
}

impl Error for NoKey {}

/// Finds the key in the header field `name`, such as an API key.
///
/// > **Warning:** clients choose header values freely. Use this where a proxy or a layer in front has checked the value, or
/// > limit each address as well.
///
/// ```
/// use flowgate_tower::RequestHead;
/// use flowgate_tower::by::{self, KeySource, NoKey};
///
/// let source = by::header("x-api-key");
/// let request = http::Request::builder().header("X-API-Key", "k-17").body(())?;
/// assert_eq!(source.key(&RequestHead::of(&request))?, "k-17");
///
/// let request = http::Request::new(());
/// assert_eq!(source.key(&RequestHead::of(&request)), Err(NoKey::Missing));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
///
/// Panics if `name` is not a valid name of a header field. Use [`header_name`] for names from a configuration.
#[track_caller]
pub fn header(name: &'static str) -> Header {
    match HeaderName::from_bytes(name.as_bytes()) {
        Ok(name) => Header { name },
        Err(_) => panic!("`{name}` is not the name of a header field"),
    }
}

/// Finds the key as [`header`] does, for a name known at run time.
///
/// ```
/// use flowgate_tower::RequestHead;
/// use flowgate_tower::by::{self, KeySource};
/// use http::header::HeaderName;
///
/// let configured = "X-Tenant";
/// let source = by::header_name(configured.parse::<HeaderName>()?);
/// let request = http::Request::builder().header("x-tenant", "shop").body(())?;
/// assert_eq!(source.key(&RequestHead::of(&request))?, "shop");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn header_name(name: HeaderName) -> Header {
    Header { name }
}

/// A key source that reads a header field; made by [`header`].
///
/// ```
/// use flowgate_tower::RequestHead;
/// use flowgate_tower::by::{self, Header, KeySource, NoKey};
///
/// let source: Header = by::header("x-api-key");
/// // Two of them: the service behind may believe the other one.
/// let request = http::Request::builder().header("x-api-key", "k-17").header("x-api-key", "k-18").body(())?;
/// assert_eq!(source.key(&RequestHead::of(&request)), Err(NoKey::Malformed));
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Header {
    name: HeaderName,
}

impl KeySource for Header {
    type Key = String;

    fn key(&self, request: &RequestHead<'_>) -> Result<String, NoKey> {
        let mut lines = request.headers.get_all(&self.name).iter();
        let value = lines.next().ok_or(NoKey::Missing)?;
        // Of two, the service behind may believe the other one.
        if lines.next().is_some() || value.len() > MAX_HEADER_BYTES {
            return Err(NoKey::Malformed);
        }
        match value.to_str().map_err(|_| NoKey::Malformed)? {
            "" => Err(NoKey::Missing),
            text => Ok(text.to_owned()),
        }
    }
}

/// Takes the path of the request's URI as the key, without the query.
///
/// The path is used as the client wrote it. If `/users/17` and `/users/18` should share a limit, use the route instead: in
/// axum, `by::extension::<MatchedPath>()`.
///
/// ```
/// use flowgate_tower::RequestHead;
/// use flowgate_tower::by::{self, KeySource};
///
/// let request = http::Request::get("/search?q=limits").body(())?;
/// assert_eq!(by::path().key(&RequestHead::of(&request))?, "/search");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn path() -> Path {
    Path(())
}

/// A key source that takes the path; made by [`path`].
///
/// ```
/// use flowgate_tower::RequestHead;
/// use flowgate_tower::by::{self, Header, KeySource, Path};
///
/// // Each tenant has a limit for each path.
/// let source: (Header, Path) = (by::header("x-tenant"), by::path());
/// let request = http::Request::get("/search").header("x-tenant", "shop").body(())?;
/// let (tenant, path) = source.key(&RequestHead::of(&request))?;
/// assert_eq!((tenant.as_str(), path.as_str()), ("shop", "/search"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Path(());

impl KeySource for Path {
    type Key = String;

    fn key(&self, request: &RequestHead<'_>) -> Result<String, NoKey> {
        Ok(request.uri.path().to_owned())
    }
}

/// Finds the key in the request's extensions: a user, a tenant, or a route.
///
/// An earlier layer must have put it there.
///
/// ```
/// use flowgate_tower::RequestHead;
/// use flowgate_tower::by::{self, KeySource};
///
/// /// What a layer that checks who asks has found out.
/// #[derive(Clone, Debug, PartialEq, Eq, Hash)]
/// struct User(u64);
///
/// let source = by::extension::<User>();
/// let request = http::Request::builder().extension(User(17)).body(())?;
/// assert_eq!(source.key(&RequestHead::of(&request))?, User(17));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn extension<T>() -> Extension<T>
where
    T: Hash + Clone + Send + Sync + 'static,
{
    Extension(PhantomData)
}

/// A key source that reads the request's extensions; made by [`extension`].
///
/// ```
/// use flowgate_tower::RequestHead;
/// use flowgate_tower::by::{self, Extension, KeySource, NoKey};
///
/// // A layer that is to find it must be inside of the one that puts it there.
/// let source: Extension<&'static str> = by::extension();
/// let request = http::Request::new(());
/// assert_eq!(source.key(&RequestHead::of(&request)), Err(NoKey::Missing));
/// ```
pub struct Extension<T>(PhantomData<fn() -> T>);

impl<T> Clone for Extension<T> {
    fn clone(&self) -> Self {
        Self(PhantomData)
    }
}

impl<T> fmt::Debug for Extension<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Extension<{}>", std::any::type_name::<T>())
    }
}

impl<T> KeySource for Extension<T>
where
    T: Hash + Clone + Send + Sync + 'static,
{
    type Key = T;

    fn key(&self, request: &RequestHead<'_>) -> Result<T, NoKey> {
        request.extensions.get().cloned().ok_or(NoKey::Missing)
    }
}

/// Calls `function` to find the key; a request has no key if it returns `None`.
///
/// ```
/// use flowgate_tower::RequestHead;
/// use flowgate_tower::by::{self, KeySource};
///
/// // The host and the first part of the path.
/// let source = by::function(|request| {
///     let host = request.uri.host()?.to_owned();
///     let section = request.uri.path().split('/').nth(1)?.to_owned();
///     Some((host, section))
/// });
/// let request = http::Request::get("http://example.org/users/17").body(())?;
/// let (host, section) = source.key(&RequestHead::of(&request))?;
/// assert_eq!((host.as_str(), section.as_str()), ("example.org", "users"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn function<F, K>(function: F) -> Function<F>
where
    F: Fn(&RequestHead<'_>) -> Option<K> + Clone + Send + Sync + 'static,
    K: Hash + Send + Sync + 'static,
{
    Function(function)
}

/// A key source that calls a function; made by [`function`].
///
/// ```
/// use flowgate_tower::RequestHead;
/// use flowgate_tower::by::{self, Function, KeySource};
///
/// /// By the first label of the host: `shop.example.org` is the tenant `shop`.
/// fn by_tenant() -> Function<impl Fn(&RequestHead<'_>) -> Option<String> + Clone + Send + Sync + 'static> {
///     by::function(|request| Some(request.uri.host()?.split('.').next()?.to_owned()))
/// }
///
/// let request = http::Request::get("http://shop.example.org/cart").body(())?;
/// assert_eq!(by_tenant().key(&RequestHead::of(&request))?, "shop");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Function<F>(F);

impl<F> fmt::Debug for Function<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Function")
    }
}

impl<F, K> KeySource for Function<F>
where
    F: Fn(&RequestHead<'_>) -> Option<K> + Clone + Send + Sync + 'static,
    K: Hash + Send + Sync + 'static,
{
    type Key = K;

    fn key(&self, request: &RequestHead<'_>) -> Result<K, NoKey> {
        (self.0)(request).ok_or(NoKey::Missing)
    }
}

/// Uses both keys: each pair of keys has a separate limit.
impl<A: KeySource, B: KeySource> KeySource for (A, B) {
    type Key = (A::Key, B::Key);

    fn key(&self, request: &RequestHead<'_>) -> Result<Self::Key, NoKey> {
        Ok((self.0.key(request)?, self.1.key(request)?))
    }
}
