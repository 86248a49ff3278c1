//! The arguments about connections.

use std::net::Ipv6Addr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use flowgate_load::{
    ClientIdentity, ConnectOptions, HostAddress, HttpProxy, HttpVersion, MAX_CONNECTIONS, Pace,
    Plan, Target, Template, Trust, Via,
};
use hyper::header::{ACCEPT_ENCODING, HeaderValue};
use percent_encoding::percent_decode_str;

use super::{count, duration, request};
use crate::exit::{Refusal, complain};

/// Maximum number of sending threads.
const MAX_THREADS: usize = 1024;
/// Maximum number of requests in flight on one connection. No server allows more.
const MAX_STREAMS: usize = 10_000;

/// Options of the connections.
#[derive(Args, Debug)]
#[command(next_help_heading = "Connections")]
pub(crate) struct Connecting {
    /// Open at most COUNT connections, 1 to 20000
    #[arg(
        short = 'c',
        long,
        value_name = "COUNT",
        default_value = "50",
        value_parser = connections,
        allow_hyphen_values = true,
    )]
    pub(crate) connections: NonZeroUsize,

    /// Allow COUNT requests in flight per connection, 1 to 10000; needs --http2 [default: 1]
    #[arg(
        short = 'p',
        long,
        value_name = "COUNT",
        value_parser = streams,
        allow_hyphen_values = true,
    )]
    streams: Option<NonZeroUsize>,

    /// Use HTTP/2: negotiated on https://, assumed on http://
    #[arg(long)]
    http2: bool,

    /// Fail a request after TIME; a bare number is seconds
    #[arg(
        short = 't',
        long,
        value_name = "TIME",
        default_value = "10s",
        value_parser = duration::or_seconds,
        allow_hyphen_values = true,
    )]
    pub(crate) timeout: Duration,

    /// Open a new connection for each request
    #[arg(long, conflicts_with = "http2")]
    disable_keepalive: bool,

    #[command(flatten)]
    route: Route,

    /// Follow at most COUNT redirects of a request, on the same server
    #[arg(
        long,
        value_name = "COUNT",
        default_value = "0",
        value_parser = clap::value_parser!(u32).range(0..=100),
    )]
    follow: u32,

    /// Keep the cookies that the server sets, separately for each connection
    #[arg(long)]
    cookies: bool,

    /// Ask for gzip, br or zstd, and decode the bodies beside the run, as curl does
    #[arg(long)]
    compressed: bool,

    #[command(flatten)]
    pub(crate) certificates: Certificates,

    /// Send on COUNT threads, 1 to 1024 [default: as many as the rate needs]
    #[arg(
        long,
        value_name = "COUNT",
        value_parser = threads,
        allow_hyphen_values = true,
    )]
    pub(crate) threads: Option<NonZeroUsize>,
}

/// Where connections go, if not to the server of the URL.
#[derive(Args, Debug)]
#[command(next_help_heading = "Connections")]
pub(crate) struct Route {
    /// Connect to the Unix socket FILE; the URL still names the host
    #[cfg(unix)]
    #[arg(long, value_name = "FILE", conflicts_with = "connect_to")]
    unix_socket: Option<PathBuf>,

    /// Connect to this host and port; the URL still names the host
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    connect_to: Option<Via>,

    /// Use this address for a host and port, as curl does; repeatable
    #[arg(long, value_name = "HOST:PORT:ADDRESS", value_parser = resolved)]
    resolve: Vec<HostAddress>,

    /// Send through this HTTP proxy, http://HOST:PORT, or http://USER:PASSWORD@HOST:PORT
    #[arg(
        long,
        value_name = "URL",
        value_parser = proxy,
        conflicts_with_all = via_flags(),
    )]
    proxy: Option<HttpProxy>,
}

/// Returns the flags that a proxy replaces.
fn via_flags() -> &'static [&'static str] {
    match cfg!(unix) {
        true => &["unix_socket", "connect_to", "resolve"],
        false => &["connect_to", "resolve"],
    }
}

impl Route {
    /// Returns whether a server is given that a URL cannot name.
    pub(crate) fn has_via(&self) -> bool {
        self.via().is_some()
    }

    fn via(&self) -> Option<Via> {
        #[cfg(unix)]
        if let Some(path) = &self.unix_socket {
            return Some(Via::Socket(path.clone()));
        }
        self.connect_to.clone()
    }

    /// Applies the options. `targets` are all servers, and `connect` has the HTTP version.
    pub(crate) fn apply(
        self,
        connect: &mut ConnectOptions,
        targets: &[Target],
    ) -> Result<(), Refusal> {
        let is_plain = targets.iter().any(|target| !target.is_tls());
        if self.proxy.is_some() && is_plain && connect.version != HttpVersion::Http1 {
            return Err(Refusal::usage(
                "--proxy forwards http:// only over HTTP/1.1: remove --http2, or write an https:// URL",
            ));
        }
        connect.via = self.via();
        connect.addresses = self.resolve;
        connect.proxy = self.proxy;
        Ok(())
    }
}

/// Trusted certificates, and our own.
#[derive(Args, Debug)]
#[command(next_help_heading = "Connections")]
pub(crate) struct Certificates {
    /// Accept any certificate, as curl does (keep-alive is the default)
    #[arg(short = 'k', long)]
    insecure: bool,

    /// Trust only the certificates in FILE (PEM), as curl does
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    cacert: Option<PathBuf>,

    /// Show the server this client certificate (PEM)
    #[arg(long, value_name = "FILE")]
    cert: Option<PathBuf>,

    /// Use this private key for --cert (PEM) [default: in the file of --cert]
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

impl Certificates {
    /// Returns the files that are read.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        [&self.cacert, &self.cert, &self.key]
            .into_iter()
            .flatten()
            .map(PathBuf::as_path)
    }

    /// Applies the options. `targets` are all servers.
    pub(crate) fn apply(
        self,
        connect: &mut ConnectOptions,
        targets: &[Target],
    ) -> Result<(), Refusal> {
        if !targets.iter().any(Target::is_tls) {
            let given = [("--cacert", &self.cacert), ("--cert", &self.cert)];
            if let Some((flag, _)) = given.iter().find(|(_, file)| file.is_some()) {
                return Err(Refusal::usage(format!(
                    "{flag} has no effect without https://: remove it, or write an https:// URL"
                )));
            }
            if self.insecure {
                complain(
                    &"-k has no effect without https://: remove it (connections are kept open anyway)",
                );
            }
        }
        connect.trust = match (self.insecure, self.cacert) {
            (true, _) => Trust::Anyone,
            (false, Some(file)) => Trust::File(file),
            (false, None) => Trust::System,
        };
        connect.identity = self.cert.map(|certificates| ClientIdentity {
            key: self.key.unwrap_or_else(|| certificates.clone()),
            certificates,
        });
        Ok(())
    }
}

impl Connecting {
    /// Returns whether a server is given that a URL cannot name.
    pub(crate) fn has_via(&self) -> bool {
        self.route.has_via()
    }

    /// Adds the header of `--compressed`, unless there is another.
    pub(crate) fn ask(&self, template: &mut Template) {
        let has_own = (template.headers.iter()).any(|(name, _)| name == ACCEPT_ENCODING);
        if self.compressed && !has_own {
            let codings = HeaderValue::from_static("gzip, br, zstd");
            template.headers.push((ACCEPT_ENCODING, codings));
        }
    }

    /// Applies the options to the plan.
    pub(crate) fn apply(self, plan: &mut Plan) -> Result<(), Refusal> {
        if self.streams.is_some() && !self.http2 {
            return Err(Refusal::usage(
                "--streams needs HTTP/2: add --http2, or write a larger -c",
            ));
        }
        plan.connections = self.connections;
        plan.streams = self.streams.unwrap_or(NonZeroUsize::MIN);
        plan.connect.version = match self.http2 {
            true => HttpVersion::Http2,
            false => HttpVersion::Http1,
        };
        plan.connect.timeout = self.timeout;
        if self.http2 && (self.follow > 0 || self.cookies) {
            return Err(Refusal::usage(
                "--follow and --cookies need HTTP/1.1: remove --http2",
            ));
        }
        if self.follow > 0 && matches!(plan.pace, Pace::Under(..)) {
            return Err(Refusal::usage(
                "--follow would exceed the limit: remove it, or hold a rate with -q",
            ));
        }
        self.route.apply(&mut plan.connect, &plan.targets)?;
        (self.certificates).apply(&mut plan.connect, &plan.targets)?;
        plan.follow = self.follow;
        plan.cookies = self.cookies;
        plan.decode = self.compressed;
        plan.timeout = self.timeout;
        plan.keep_alive = !self.disable_keepalive;
        plan.threads = self.threads;
        Ok(())
    }
}

/// Parses `HOST:PORT`, or `[ADDRESS]:PORT` with an IPv6 address. Also accepts curl's form with an empty first pair.
fn host_and_port(text: &str) -> Result<Via, String> {
    const EXAMPLE: &str = "write 127.0.0.1:8080";
    let text = text.trim();
    let text = text.strip_prefix("::").unwrap_or(text);
    let wrong = || format!("not a host and port: {EXAMPLE}");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port = match port.parse() {
        Ok(port) if port > 0 => port,
        _ => return Err(format!("{port:?} is not a port from 1 to 65535: {EXAMPLE}")),
    };
    let bare = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    match bare {
        Some(address) if address.parse::<Ipv6Addr>().is_ok() => Ok(Via::Host {
            host: address.to_owned(),
            port,
        }),
        None if !host.is_empty() && !host.contains([':', '/', '[', ']', '@', ' ']) => {
            Ok(Via::Host {
                host: host.to_owned(),
                port,
            })
        }
        _ => Err(wrong()),
    }
}

/// Parses `HOST:PORT:ADDRESS`. The address may have brackets.
fn resolved(text: &str) -> Result<HostAddress, String> {
    let wrong = || "not a host, a port and an address: write example.org:443:127.0.0.1".to_owned();
    let mut parts = text.trim().splitn(3, ':');
    let (Some(host), Some(port), Some(address)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(wrong());
    };
    let address = address.trim_start_matches('[').trim_end_matches(']');
    match (port.parse::<u16>(), address.parse()) {
        (Ok(port @ 1..), Ok(address)) if !host.is_empty() => Ok(HostAddress {
            host: host.to_owned(),
            port,
            address,
        }),
        _ => Err(wrong()),
    }
}

/// Parses the URL of a proxy, of which the scheme can be left out.
fn proxy(text: &str) -> Result<HttpProxy, String> {
    const SHAPE: &str = "not an HTTP proxy: write http://127.0.0.1:3128";
    let rest = match text.trim().split_once("://") {
        Some(("http", rest)) => rest,
        Some(_) => return Err(SHAPE.to_owned()),
        None => text.trim(),
    };
    let (authorization, rest) = match rest.rsplit_once('@') {
        None => (None, rest),
        Some((user, rest)) => (Some(credentials(user)?), rest),
    };
    match host_and_port(rest.trim_end_matches('/')) {
        Ok(Via::Host { host, port }) => Ok(HttpProxy {
            host,
            port,
            authorization,
        }),
        _ => Err(SHAPE.to_owned()),
    }
}

/// Encodes the user and the password of a URL, in which some characters are written as `%40`.
fn credentials(text: &str) -> Result<HeaderValue, String> {
    let decoded = percent_decode_str(text).decode_utf8();
    let decoded = decoded.map_err(|_| "the password is not UTF-8".to_owned())?;
    request::basic(&decoded).map_err(|_| {
        "not a user and a password: write http://USER:PASSWORD@127.0.0.1:3128".to_owned()
    })
}

fn connections(text: &str) -> Result<NonZeroUsize, String> {
    count::parse(text, MAX_CONNECTIONS, 50)
}

fn streams(text: &str) -> Result<NonZeroUsize, String> {
    count::parse(text, MAX_STREAMS, 10)
}

fn threads(text: &str) -> Result<NonZeroUsize, String> {
    count::parse(text, MAX_THREADS, 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_and_a_proxy_have_a_port() {
        let known = resolved("example.org:443:[::1]").unwrap();
        assert_eq!((known.host.as_str(), known.port), ("example.org", 443));
        assert!(known.address.is_ipv6());
        assert!(resolved("h:80:127.0.0.1").is_ok());
        for text in [
            "",
            "h",
            "h:80",
            "h:80:",
            ":80:127.0.0.1",
            "h:0:127.0.0.1",
            "h:80:name",
        ] {
            assert!(
                resolved(text)
                    .unwrap_err()
                    .contains("write example.org:443"),
                "{text}"
            );
        }
        for text in [
            "http://127.0.0.1:3128",
            "127.0.0.1:3128",
            "http://127.0.0.1:3128/",
        ] {
            let proxy = proxy(text).unwrap();
            assert_eq!((proxy.port, proxy.authorization), (3128, None));
        }
        // `user:pass@word`, as RFC 7617 has it.
        let known = proxy("http://user:pass%40word@127.0.0.1:3128").unwrap();
        let value = known.authorization.unwrap();
        assert_eq!(value.as_bytes(), b"Basic dXNlcjpwYXNzQHdvcmQ=");
        assert_eq!(proxy("user:p@ss@h:1").unwrap().host, "h");
        let error = proxy("http://user@h:1").unwrap_err();
        assert!(error.contains("write http://USER:PASSWORD@"), "{error}");
        for text in [
            "",
            "socks5://h:1",
            "https://h:1",
            "http://h",
            "http://h:1/x",
        ] {
            let error = proxy(text).unwrap_err();
            assert!(
                error.contains("write http://127.0.0.1:3128"),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn a_host_and_a_port_replace_those_of_the_url() {
        for (text, expected) in [
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            (" example.org:443 ", "example.org:443"),
            ("[::1]:80", "[::1]:80"),
            // As in curl, for any host and port of the URL.
            ("::localhost:80", "localhost:80"),
            ("::[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(host_and_port(text).unwrap().to_string(), expected);
        }
        for text in [
            "",
            "h",
            ":80",
            "h:",
            "h:0",
            "h:65536",
            "h:x",
            "a:1:b:2",
            "http://h:80",
            "[x]:1",
            "::1:80:",
        ] {
            let error = host_and_port(text).unwrap_err();
            assert!(error.ends_with(": write 127.0.0.1:8080"), "{text}: {error}");
        }
    }
}
