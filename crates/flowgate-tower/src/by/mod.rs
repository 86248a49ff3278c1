//! By what requests are told apart: the keys of a [`LimitLayer::keyed`](crate::LimitLayer::keyed).
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
//! What happens to a request whose key is missing: [`Missing`](crate::Missing).

mod address;
mod forwarded;
mod proxies;
mod range;

pub use address::{AddressSource, ClientAddress, PeerAddress, client_address, peer_address};
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

/// Finds a request's key.
pub trait KeySource: Clone + Send + Sync + 'static {
    /// What requests that share a limit have in common.
    type Key: Hash + Send + Sync + 'static;

    /// The request's key.
    ///
    /// # Errors
    ///
    /// [`NoKey`] if it has none, or one that cannot be read.
    fn key(&self, request: &RequestHead<'_>) -> Result<Self::Key, NoKey>;
}

/// A request without a key, and whose doing that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoKey {
    /// The request does not have it: `400 Bad Request`.
    Missing,
    /// The request has one that cannot be read: `400 Bad Request`.
    Malformed,
    /// The server does not provide it, whatever the client sends: `500 Internal Server Error`. For an address: axum's
    /// `into_make_service_with_connect_info::<SocketAddr>()` is missing, or this crate's feature `axum` or `tonic`.
    NotProvided,
}

impl fmt::Display for NoKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "the request does not say whose it is",
            Self::Malformed => "what the request says of whose it is cannot be read",
            Self::NotProvided => "the server does not know whose the request is",
        })
    }
}

impl Error for NoKey {}

/// By the value of the header field `name`: an API key, a tenant's name. Clients choose it freely, so use it where
/// something in front has checked it, or give each request a limit by address as well.
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
/// If `name` is not one of a header field; [`header_name`] takes what is not known beforehand.
#[track_caller]
pub fn header(name: &'static str) -> Header {
    match HeaderName::from_bytes(name.as_bytes()) {
        Ok(name) => Header { name },
        Err(_) => panic!("`{name}` is not the name of a header field"),
    }
}

/// [`header`] for a name that is not known beforehand.
pub fn header_name(name: HeaderName) -> Header {
    Header { name }
}

/// Made by [`header`].
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

/// By the path of the request's URI, as the client wrote it, without the query. Where `/users/17` and `/users/18` are
/// to share a limit, take the route instead: in axum, `by::extension::<MatchedPath>()` has it.
pub fn path() -> Path {
    Path(())
}

/// Made by [`path`].
#[derive(Clone, Debug)]
pub struct Path(());

impl KeySource for Path {
    type Key = String;

    fn key(&self, request: &RequestHead<'_>) -> Result<String, NoKey> {
        Ok(request.uri.path().to_owned())
    }
}

/// By what a layer before this one has put into the request's extensions: a user, a tenant, a route.
pub fn extension<T>() -> Extension<T>
where
    T: Hash + Clone + Send + Sync + 'static,
{
    Extension(PhantomData)
}

/// Made by [`extension`].
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

/// By what `function` finds; a request of which it finds nothing has no key.
///
/// ```
/// use flowgate_tower::by;
///
/// // The host and the first part of the path.
/// let source = by::function(|request| {
///     let host = request.uri.host()?.to_owned();
///     let section = request.uri.path().split('/').nth(1)?.to_owned();
///     Some((host, section))
/// });
/// ```
pub fn function<F, K>(function: F) -> Function<F>
where
    F: Fn(&RequestHead<'_>) -> Option<K> + Clone + Send + Sync + 'static,
    K: Hash + Send + Sync + 'static,
{
    Function(function)
}

/// Made by [`function`].
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

/// By both: each pair of keys has a limit of its own.
impl<A: KeySource, B: KeySource> KeySource for (A, B) {
    type Key = (A::Key, B::Key);

    fn key(&self, request: &RequestHead<'_>) -> Result<Self::Key, NoKey> {
        Ok((self.0.key(request)?, self.1.key(request)?))
    }
}
