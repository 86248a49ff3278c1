use super::forwarded;
use super::{AddressRange, NoKey};
use http::header::{FORWARDED, HeaderMap, HeaderName, HeaderValue};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// How many bytes of the field are read.
const MAX_BYTES: usize = 8192;

/// The proxies in front of this server, and the header field that they write.
///
/// ```text
///   X-Forwarded-For: 1.2.3.4, 192.0.2.7, 10.0.0.1        peer 10.0.0.2
///                    └───┬──┘ └───┬───┘  └───┬──┘             └─┬───┘
///                  the client's   │       trusted  ◀──────── trusted
///                  own invention  │ written by 10.0.0.1
///                                 ╰ not trusted: this is the client
/// ```
///
/// - If the peer is not trusted, it is the client, and the field is not read.
/// - Otherwise the entries are read from the right. The first entry that is not a trusted proxy is the client. Everything
///   to the left of it may be forged.
/// - If all entries are trusted, the leftmost one is the client: the request came from the internal network.
/// - The key is [malformed](NoKey::Malformed) if a needed entry is not an address (`unknown`, `_hidden`, garbage), if the
///   quotes of a line do not match, or if the field has more than 8192 bytes. Trusted proxies write everything to the right
///   of the client, so a client can cause this only for its own requests.
/// - If the peer is trusted and the field is missing, the peer is the client.
///
/// Only the chosen field is read. A proxy that writes one of the two fields passes on the other one as the client sent it.
///
/// Addresses may have ports (`192.0.2.7:4711`, `[2001:db8::7]:4711`) and brackets. Empty entries are skipped, and several
/// lines form one list (RFC 9110 §5.6.1).
///
/// ```
/// use flowgate_tower::RequestHead;
/// use flowgate_tower::by::{self, AddressSource, TrustedProxies};
/// use std::net::SocketAddr;
///
/// let source = by::client_address(TrustedProxies::x_forwarded_for(["10.0.0.0/8".parse()?]));
/// let peer: SocketAddr = "10.0.0.2:4711".parse()?;
/// let request = http::Request::builder()
///     .extension(peer)
///     .header("x-forwarded-for", "1.2.3.4, 192.0.2.7, 10.0.0.1")
///     .body(())?;
/// assert_eq!(source.address(&RequestHead::of(&request))?.to_string(), "192.0.2.7");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TrustedProxies {
    ranges: Arc<[AddressRange]>,
    field: Field,
    trusts_peer: bool,
}

#[derive(Clone, Copy, Debug)]
enum Field {
    Forwarded,
    XForwardedFor,
}

impl TrustedProxies {
    /// Trusts proxies at these addresses, which write `X-Forwarded-For`, as most proxies do.
    ///
    /// ```
    /// use flowgate_tower::RequestHead;
    /// use flowgate_tower::by::{self, AddressSource, TrustedProxies};
    /// use std::net::SocketAddr;
    ///
    /// let proxies = TrustedProxies::x_forwarded_for(["10.0.0.0/8".parse()?, "fd00::/8".parse()?]);
    /// let source = by::client_address(proxies);
    /// let from = |peer: &str| {
    ///     let peer: SocketAddr = peer.parse().expect("an address with a port");
    ///     http::Request::builder().extension(peer).header("x-forwarded-for", "192.0.2.7").body(())
    /// };
    /// let request = from("10.0.0.2:4711")?;
    /// assert_eq!(source.address(&RequestHead::of(&request))?.to_string(), "192.0.2.7");
    /// let request = from("198.51.100.1:4711")?; // not a proxy: what it writes counts for nothing
    /// assert_eq!(source.address(&RequestHead::of(&request))?.to_string(), "198.51.100.1");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn x_forwarded_for(ranges: impl IntoIterator<Item = AddressRange>) -> Self {
        Self::new(ranges, Field::XForwardedFor)
    }

    /// Trusts proxies at these addresses, which write `Forwarded` (RFC 7239).
    ///
    /// ```
    /// use flowgate_tower::RequestHead;
    /// use flowgate_tower::by::{self, AddressSource, TrustedProxies};
    /// use std::net::SocketAddr;
    ///
    /// let source = by::client_address(TrustedProxies::forwarded(["10.0.0.0/8".parse()?]));
    /// let peer: SocketAddr = "10.0.0.2:4711".parse()?;
    /// let request = http::Request::builder()
    ///     .extension(peer)
    ///     .header("forwarded", r#"for="[2001:db8::7]:4711";proto=https, for=10.0.0.1"#)
    ///     .header("x-forwarded-for", "1.2.3.4") // not read: these proxies pass it on as it comes
    ///     .body(())?;
    /// assert_eq!(source.address(&RequestHead::of(&request))?.to_string(), "2001:db8::7");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn forwarded(ranges: impl IntoIterator<Item = AddressRange>) -> Self {
        Self::new(ranges, Field::Forwarded)
    }

    fn new(ranges: impl IntoIterator<Item = AddressRange>, field: Field) -> Self {
        Self {
            ranges: ranges.into_iter().collect(),
            field,
            trusts_peer: false,
        }
    }

    /// Trusts every peer, whatever its address.
    ///
    /// Use this for a server that only its proxy can reach, for example through a Unix socket.
    ///
    /// ```
    /// use flowgate_tower::RequestHead;
    /// use flowgate_tower::by::{self, AddressSource, TrustedProxies};
    ///
    /// // The only proxy is at the other end of a Unix socket.
    /// let source = by::client_address(TrustedProxies::x_forwarded_for([]).trust_peer());
    /// let request = http::Request::builder().header("x-forwarded-for", "192.0.2.7").body(())?;
    /// assert_eq!(source.address(&RequestHead::of(&request))?.to_string(), "192.0.2.7");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn trust_peer(self) -> Self {
        Self {
            trusts_peer: true,
            ..self
        }
    }

    /// The address of the client in front of the proxies.
    pub(super) fn client(
        &self,
        peer: Option<IpAddr>,
        headers: &HeaderMap,
    ) -> Result<IpAddr, NoKey> {
        if !self.trusts_peer {
            let peer = peer.ok_or(NoKey::NoPeerAddress)?;
            if !self.trusts(peer) {
                return Ok(peer.to_canonical());
            }
        }
        let name = match self.field {
            Field::Forwarded => FORWARDED,
            Field::XForwardedFor => X_FORWARDED_FOR,
        };
        let mut walk = Walk {
            trusted: self,
            farthest: peer,
        };
        let mut read = 0;
        for line in headers.get_all(name).iter().rev() {
            read += line.len();
            if read > MAX_BYTES {
                return Err(NoKey::Malformed);
            }
            if let Some(client) = walk.line(line)? {
                return Ok(client);
            }
        }
        let client = walk.farthest.ok_or(NoKey::Missing)?;
        Ok(client.to_canonical())
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.contains(address))
    }
}

struct Walk<'a> {
    trusted: &'a TrustedProxies,
    /// The last trusted one.
    farthest: Option<IpAddr>,
}

impl Walk<'_> {
    /// The client, if it is on this line.
    fn line(&mut self, line: &HeaderValue) -> Result<Option<IpAddr>, NoKey> {
        match self.trusted.field {
            Field::XForwardedFor => {
                for entry in line.as_bytes().rsplit(|byte| *byte == b',') {
                    let entry = entry.trim_ascii();
                    if !entry.is_empty()
                        && let Some(client) = self.entry(address(entry))?
                    {
                        return Ok(Some(client));
                    }
                }
            }
            Field::Forwarded => {
                let entries = forwarded::entries(line.as_bytes()).ok_or(NoKey::Malformed)?;
                for node in entries.into_iter().rev() {
                    let named = node.and_then(|node| address(&node));
                    if let Some(client) = self.entry(named)? {
                        return Ok(Some(client));
                    }
                }
            }
        }
        Ok(None)
    }

    /// The next one to the left: itself if it is the client.
    fn entry(&mut self, address: Option<IpAddr>) -> Result<Option<IpAddr>, NoKey> {
        let address = address.ok_or(NoKey::Malformed)?.to_canonical();
        if self.trusted.trusts(address) {
            self.farthest = Some(address);
            return Ok(None);
        }
        Ok(Some(address))
    }
}

/// An address, in brackets or not, with a port or not. The port of a `Forwarded` node may be hidden, as `_port`.
fn address(text: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(text).ok()?;
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address);
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(address.ip());
    }
    if let Some(rest) = text.strip_prefix('[') {
        let (inner, port) = rest.split_once(']')?;
        let address = IpAddr::V6(inner.parse().ok()?);
        let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(is_hidden_port);
        return is_port.then_some(address);
    }
    let (address, port) = text.split_once(':')?;
    let address = IpAddr::V4(address.parse().ok()?);
    is_hidden_port(port).then_some(address)
}

/// `obfport` of RFC 7239 §6.
fn is_hidden_port(port: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    port.len() > 1 && port.starts_with('_') && port.bytes().all(is_name)
}
