//! [`AddressKey`]: the addresses that share a limit.

use crate::quota::QuotaError;
use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

/// The network of IPv4-mapped IPv6 addresses, `::ffff:0:0/96` (RFC 4291 §2.5.5.2), without the 32 bits of the IPv4 address.
const MAPPED: u128 = 0xffff << 32;
const MAPPED_LENGTH: u8 = 96;

/// Network address as a key: all **32 bits** of IPv4, or **64 bits** of IPv6.
///
/// ```text
///   192.0.2.7                     ──▶ 192.0.2.7             one address
///   ::ffff:192.0.2.7              ──▶ 192.0.2.7             the same one, seen through an IPv6 socket
///   2001:db8:1:2:a:b:c:d          ──▶ 2001:db8:1:2::/64     2⁶⁴ addresses, one customer
///   └── network ──┘└ interface ┘
/// ```
///
/// ```
/// use flowgate::{AddressKey, Keyed, ManualClock};
///
/// let time = ManualClock::new(); // a real program leaves the clock out
/// let limits = Keyed::token_bucket("1/s".parse()?).clock(&time).capacity(1000)?;
///
/// let peer: std::net::SocketAddr = "[2001:db8:1:2::7]:4711".parse()?;
/// let key = AddressKey::new(peer.ip());
/// assert_eq!(key.to_string(), "2001:db8:1:2::/64");
/// limits.try_acquire(&key)?;
///
/// let neighbour = AddressKey::new("2001:db8:1:2:ffff::1".parse()?);
/// assert!(limits.try_acquire(&neighbour).is_err());
///
/// // Together with something else: a tuple is a key too, and needs no `String`.
/// limits.try_acquire(&(key, "/login"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Why 64 bits
///
/// A host chooses the lower 64 bits of its IPv6 addresses (RFC 4291 §2.5.1). It can have any number of them, and uses new ones
/// every day for privacy (RFC 8981). A limit for each full address is therefore no limit: a client that is refused continues
/// from the next of 2⁶⁴ addresses, and fills the table with keys. The upper 64 bits are assigned by the network's provider, so
/// they are the smallest unit that can be limited.
///
/// Many customers get more than one such network: 256 of them (a /56) or 65,536 (a /48, RFC 6177). [`AddressPrefixes`] chooses
/// other lengths. With a shorter prefix, more neighboring networks share a limit.
///
/// # What a key does not contain
///
/// - **Ports, flow labels and scope ids.** They belong to the address of a socket, and its [`ip`](core::net::SocketAddr::ip)
///   does not contain them. So link-local addresses (`fe80::/10`) on different links are the same key.
/// - **Addresses within addresses**, except for IPv4-mapped ones. A server behind a translator or a tunnel must extract
///   the inner address before it makes a key. The prefix `64:ff9b::/96` of a translator (RFC 6052) is within one /64, so all
///   its clients share one key. A 6to4 address `2002::/16` (RFC 3056) gives 65,536 networks to the owner of its IPv4 address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressKey {
    /// An IPv4 network is stored as its IPv4-mapped network, with a length of 96 or more. No IPv6 network can have both that
    /// length and that prefix, because its address would count as an IPv4 address. So the two never collide.
    network: u128,
    length: u8,
}

impl AddressKey {
    /// Creates the key of `ip` with the default prefixes ([`AddressPrefixes`]).
    ///
    /// ```
    /// # use flowgate::AddressKey;
    /// let [a, b] = ["192.0.2.7", "::ffff:192.0.2.7"];
    /// assert_eq!(AddressKey::new(a.parse()?), AddressKey::new(b.parse()?));
    /// # Ok::<(), core::net::AddrParseError>(())
    /// ```
    #[must_use]
    pub const fn new(ip: IpAddr) -> Self {
        AddressPrefixes::DEFAULT.key(ip)
    }

    /// Returns the first address of the network: all bits that do not count are 0.
    ///
    /// ```
    /// # use flowgate::AddressKey;
    /// let key = AddressKey::new("2001:db8::1".parse()?);
    /// assert_eq!((key.network().to_string(), key.prefix_length()), ("2001:db8::".into(), 64));
    /// # Ok::<(), core::net::AddrParseError>(())
    /// ```
    pub const fn network(self) -> IpAddr {
        Ipv6Addr::from_bits(self.network).to_canonical()
    }

    /// Returns the number of bits that count: up to 32 for IPv4, 128 for IPv6.
    pub const fn prefix_length(self) -> u8 {
        match self.network() {
            IpAddr::V4(_) => self.length - MAPPED_LENGTH,
            IpAddr::V6(_) => self.length,
        }
    }
}

/// Prints the address (RFC 5952), followed by the prefix length unless that is the full length.
impl fmt::Display for AddressKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.network(), self.length) {
            (network, 128) => write!(f, "{network}"),
            (network, _) => write!(f, "{network}/{}", self.prefix_length()),
        }
    }
}

impl fmt::Debug for AddressKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AddressKey({self})")
    }
}

/// Number of bits of an address that make a [key](AddressKey).
///
/// ```
/// use flowgate::AddressPrefixes;
///
/// const SITES: AddressPrefixes = match AddressPrefixes::new(24, 56) {
///     Ok(prefixes) => prefixes,
///     Err(_) => panic!("out of range"),
/// };
/// assert_eq!(SITES.key("192.0.2.7".parse()?).to_string(), "192.0.2.0/24");
/// assert_eq!(SITES.key("2001:db8:1:2ff::7".parse()?).to_string(), "2001:db8:1:200::/56");
///
/// let error = AddressPrefixes::new(33, 64).unwrap_err();
/// assert_eq!(error.to_string(), "an IPv4 prefix length of 33 is out of range: 0 to 32");
/// # Ok::<(), core::net::AddrParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressPrefixes {
    v4: u8,
    v6: u8,
}

impl AddressPrefixes {
    const DEFAULT: Self = Self { v4: 32, v6: 64 };

    /// Uses the first `v4` bits of IPv4 addresses, and `v6` of IPv6 ones.
    ///
    /// With 0, all addresses of that kind share one key.
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if `v4` is above 32, or `v6` is above 128.
    pub const fn new(v4: u8, v6: u8) -> Result<Self, QuotaError> {
        let of_v4 = QuotaError::in_range("an IPv4 prefix length", v4 as u64, 0, 32);
        let of_v6 = QuotaError::in_range("an IPv6 prefix length", v6 as u64, 0, 128);
        match (of_v4, of_v6) {
            (Ok(_), Ok(_)) => Ok(Self { v4, v6 }),
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }

    /// Returns the key of `ip`. An IPv4-mapped IPv6 address counts as its IPv4 address.
    #[must_use]
    pub const fn key(self, ip: IpAddr) -> AddressKey {
        let (bits, length) = match ip.to_canonical() {
            IpAddr::V4(v4) => (MAPPED | v4.to_bits() as u128, MAPPED_LENGTH + self.v4),
            IpAddr::V6(v6) => (v6.to_bits(), self.v6),
        };
        // A shift by all 128 bits is none at all.
        let network = match length {
            0 => 0,
            length => bits & u128::MAX << (128 - length),
        };
        AddressKey { network, length }
    }
}

/// The default: 32 bits of IPv4, 64 bits of IPv6; [`AddressKey`] gives the reason.
impl Default for AddressPrefixes {
    fn default() -> Self {
        Self::DEFAULT
    }
}
