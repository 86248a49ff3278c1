use std::error::Error;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The addresses that agree with one in their first bits: `10.0.0.0/8`, `2001:db8::/32`, or a single one.
///
/// An IPv4-mapped IPv6 address counts as its IPv4 address.
///
/// ```
/// use flowgate_tower::by::AddressRange;
///
/// let range: AddressRange = "10.0.0.0/8".parse()?;
/// assert!(range.contains("10.1.2.3".parse()?));
/// assert!(range.contains("::ffff:10.1.2.3".parse()?));
/// assert!(!range.contains("11.0.0.0".parse()?));
///
/// let error = "10.0.0.0/33".parse::<AddressRange>().unwrap_err();
/// assert_eq!(error.to_string(), "`10.0.0.0/33`: a prefix length of 33 is out of range: 0 to 32");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressRange {
    /// As it was given, so that `10.0.0.1/8` is the same as `10.0.0.0/8`.
    first: IpAddr,
    length: u8,
}

impl AddressRange {
    /// Whether `address` is one of them.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.first, address.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                let differs = ours.to_bits() ^ theirs.to_bits();
                differs.leading_zeros() >= self.length.into()
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                let differs = ours.to_bits() ^ theirs.to_bits();
                differs.leading_zeros() >= self.length.into()
            }
            _ => false,
        }
    }
}

/// The one address.
impl From<IpAddr> for AddressRange {
    fn from(address: IpAddr) -> Self {
        let first = address.to_canonical();
        let length = if first.is_ipv4() { 32 } else { 128 };
        Self { first, length }
    }
}

impl FromStr for AddressRange {
    type Err = AddressRangeError;

    fn from_str(text: &str) -> Result<Self, AddressRangeError> {
        let error = |reason| AddressRangeError {
            text: text.to_owned(),
            reason,
        };
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| error(Reason::Address))?;
        let whole = Self::from(address);
        let Some(length) = length else {
            return Ok(whole);
        };
        // `::ffff:10.0.0.0/104` is `10.0.0.0/8`.
        let unmapped = if whole.first == address { 0 } else { 96 };
        let (least, most) = (unmapped, whole.length + unmapped);
        let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
        let length = length.parse::<u32>().ok().filter(|_| digits);
        let length = length.ok_or_else(|| error(Reason::NoLength))?;
        match u8::try_from(length) {
            Ok(length) if (least..=most).contains(&length) => Ok(Self {
                length: length - unmapped,
                ..whole
            }),
            _ => Err(error(Reason::Length {
                length,
                least,
                most,
            })),
        }
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.length)
    }
}

/// A text that is not an [`AddressRange`], and why.
///
/// ```
/// use flowgate_tower::by::{AddressRange, AddressRangeError};
///
/// let error: AddressRangeError = "localhost".parse::<AddressRange>().unwrap_err();
/// assert_eq!(error.to_string(), "`localhost`: not an address, such as 10.0.0.0/8 or 2001:db8::/32");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressRangeError {
    text: String,
    reason: Reason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Address,
    NoLength,
    Length { length: u32, least: u8, most: u8 },
}

impl fmt::Display for AddressRangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: ", self.text)?;
        match self.reason {
            Reason::Address => f.write_str("not an address, such as 10.0.0.0/8 or 2001:db8::/32"),
            Reason::NoLength => f.write_str("what follows the `/` is not a number of bits"),
            Reason::Length {
                length,
                least,
                most,
            } => write!(
                f,
                "a prefix length of {length} is out of range: {least} to {most}"
            ),
        }
    }
}

impl Error for AddressRangeError {}
