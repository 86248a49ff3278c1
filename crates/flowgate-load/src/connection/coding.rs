//! How a body is compressed (RFC 9110, section 8.4).

use std::fmt;

use serde::{Deserialize, Serialize};

/// Compression of a response body.
///
/// # Examples
///
/// ```
/// use flowgate_load::ContentCoding;
///
/// assert_eq!(ContentCoding::Brotli.to_string(), "br");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ContentCoding {
    /// `gzip`.
    Gzip,
    /// `deflate`.
    Deflate,
    /// `br`.
    #[serde(rename = "br")]
    Brotli,
    /// `zstd`.
    Zstd,
    /// Any other one, or several.
    Other,
}

impl ContentCoding {
    /// Parses the value of `Content-Encoding`. `None` if the body is not compressed.
    pub(super) fn parse(value: &[u8]) -> Option<ContentCoding> {
        let value = value.trim_ascii();
        let is = |name: &str| value.eq_ignore_ascii_case(name.as_bytes());
        match value {
            [] => None,
            _ if is("identity") => None,
            _ if is("gzip") || is("x-gzip") => Some(ContentCoding::Gzip),
            _ if is("deflate") => Some(ContentCoding::Deflate),
            _ if is("br") => Some(ContentCoding::Brotli),
            _ if is("zstd") => Some(ContentCoding::Zstd),
            _ => Some(ContentCoding::Other),
        }
    }
}

impl fmt::Display for ContentCoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ContentCoding::Gzip => "gzip",
            ContentCoding::Deflate => "deflate",
            ContentCoding::Brotli => "br",
            ContentCoding::Zstd => "zstd",
            ContentCoding::Other => "other",
        })
    }
}
