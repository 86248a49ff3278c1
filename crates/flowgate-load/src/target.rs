//! Target of the requests.

use std::error::Error;
use std::fmt;

use hyper::Uri;
use hyper::http::uri::{Authority, Parts, PathAndQuery, Scheme};

/// An `http://` or `https://` URL, parsed for connecting and sending.
///
/// # Examples
///
/// ```
/// use flowgate_load::Target;
///
/// let target = Target::parse("http://localhost:8080/health?deep=1")?;
/// assert_eq!(target.to_string(), "http://localhost:8080/health?deep=1");
///
/// let error = Target::parse("localhost:8080").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "\"localhost:8080\" is not a full URL: write http://localhost:8080",
/// );
/// # Ok::<(), flowgate_load::TargetError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    is_tls: bool,
    authority: Authority,
    path: PathAndQuery,
}

/// Error of parsing a URL.
///
/// # Examples
///
/// ```
/// use flowgate_load::{Target, TargetError};
///
/// let error: TargetError = Target::parse("ftp://localhost/").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "\"ftp://localhost/\" is not an HTTP URL: write one that begins with http:// or https://",
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetError {
    text: String,
    reason: Reason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Malformed,
    NoScheme,
    OtherScheme,
    Credentials,
    NoHost,
    Port,
}

impl Target {
    /// Parses a URL such as `http://127.0.0.1:8080/path?query`.
    ///
    /// A fragment (`#…`) is dropped, because it is never sent.
    ///
    /// # Errors
    ///
    /// Returns an error in these cases:
    ///
    /// - the text is not a URL, or its scheme is neither `http` nor `https`
    /// - the URL has no host, or its port is not a number from 1 to 65535
    /// - the URL contains a user name
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate_load::Target;
    ///
    /// assert_eq!(Target::parse("http://127.0.0.1:8080")?.to_string(), "http://127.0.0.1:8080/");
    /// assert_eq!(Target::parse("http://[::1]/a?b#c")?.to_string(), "http://[::1]/a?b");
    /// # Ok::<(), flowgate_load::TargetError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Target, TargetError> {
        let refuse = |reason| TargetError {
            text: text.to_owned(),
            reason,
        };
        let uri: Uri = text.parse().map_err(|_| {
            let has_scheme = text.contains("://");
            refuse(if has_scheme {
                Reason::Malformed
            } else {
                Reason::NoScheme
            })
        })?;
        let parts = uri.into_parts();
        let is_tls = match parts.scheme {
            Some(scheme) if scheme == Scheme::HTTP => false,
            Some(scheme) if scheme == Scheme::HTTPS => true,
            Some(_) => return Err(refuse(Reason::OtherScheme)),
            None => return Err(refuse(Reason::NoScheme)),
        };
        let authority = parts.authority.ok_or_else(|| refuse(Reason::NoHost))?;
        if authority.as_str().contains('@') {
            return Err(refuse(Reason::Credentials));
        }
        if authority.host().is_empty() {
            return Err(refuse(Reason::NoHost));
        }
        let port_is_written = authority.as_str().len() > authority.host().len();
        if port_is_written && authority.port_u16().is_none_or(|port| port == 0) {
            return Err(refuse(Reason::Port));
        }
        let path = parts
            .path_and_query
            .unwrap_or_else(|| PathAndQuery::from_static("/"));
        Ok(Target {
            is_tls,
            authority,
            path,
        })
    }

    /// Returns whether connections to the target are encrypted.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate_load::Target;
    ///
    /// assert!(Target::parse("https://localhost/")?.is_tls());
    /// assert!(!Target::parse("http://localhost:443/")?.is_tls());
    /// # Ok::<(), flowgate_load::TargetError>(())
    /// ```
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Returns host and port, as in the `Host` header.
    pub(crate) fn authority(&self) -> &str {
        self.authority.as_str()
    }

    /// Returns the full URL.
    pub(crate) fn uri(&self) -> Uri {
        let scheme = if self.is_tls {
            Scheme::HTTPS
        } else {
            Scheme::HTTP
        };
        let mut parts = Parts::default();
        parts.scheme = Some(scheme);
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = Some(self.path.clone());
        Uri::from_parts(parts).expect("it has all three parts")
    }

    /// Returns host and port as a part of a URI.
    pub(crate) fn as_authority(&self) -> &Authority {
        &self.authority
    }

    /// Returns the host without the brackets of an IPv6 address.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate_load::Target;
    ///
    /// assert_eq!(Target::parse("http://[::1]:8080/")?.host(), "::1");
    /// # Ok::<(), flowgate_load::TargetError>(())
    /// ```
    pub fn host(&self) -> &str {
        self.authority
            .host()
            .trim_start_matches('[')
            .trim_end_matches(']')
    }

    /// Returns whether scheme, host and port are equal.
    pub(crate) fn is_at(&self, other: &Target) -> bool {
        (self.is_tls, self.host(), self.port()) == (other.is_tls, other.host(), other.port())
    }

    /// Returns the port (default: 443 with TLS, 80 without).
    pub(crate) fn port(&self) -> u16 {
        let usual = if self.is_tls { 443 } else { 80 };
        self.authority.port_u16().unwrap_or(usual)
    }

    /// Returns the path and query of the request line.
    pub(crate) fn path(&self) -> &PathAndQuery {
        &self.path
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.text;
        match self.reason {
            Reason::Malformed => {
                write!(
                    f,
                    "{text:?} is not a URL: write one such as http://127.0.0.1:8080/path"
                )
            }
            Reason::NoScheme if looks_like_a_host(text) => {
                write!(f, "{text:?} is not a full URL: write http://{text}")
            }
            Reason::NoScheme => {
                write!(
                    f,
                    "{text:?} is not a full URL: write one such as http://127.0.0.1:8080/path"
                )
            }
            Reason::OtherScheme => write!(
                f,
                "{text:?} is not an HTTP URL: write one that begins with http:// or https://"
            ),
            Reason::Credentials => write!(
                f,
                "{text:?} contains a user name: remove it and write -H 'Authorization: Basic …'"
            ),
            Reason::NoHost => write!(
                f,
                "{text:?} has no host: write one such as http://127.0.0.1:8080/"
            ),
            Reason::Port => write!(f, "{text:?} has a bad port: write one from 1 to 65535"),
        }
    }
}

impl Error for TargetError {}

/// Returns whether `http://` is probably missing.
fn looks_like_a_host(text: &str) -> bool {
    !text.contains("://") && Target::parse(&format!("http://{text}")).is_ok()
}
