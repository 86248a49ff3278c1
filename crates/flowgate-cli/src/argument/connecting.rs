//! The arguments about connections.

use std::net::Ipv6Addr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use flowgate_load::{HttpVersion, MAX_CONNECTIONS, Plan, Trust, Via};

use super::duration;
use crate::exit::Refusal;

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

    /// Connect to the Unix socket FILE; the URL still names the host
    #[cfg(unix)]
    #[arg(long, value_name = "FILE", conflicts_with = "connect_to")]
    unix_socket: Option<PathBuf>,

    /// Connect to this host and port; the URL still names the host
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    connect_to: Option<Via>,

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

/// Trusted certificates.
#[derive(Args, Debug)]
#[command(next_help_heading = "Connections")]
pub(crate) struct Certificates {
    /// Accept any certificate, as curl does (keep-alive is the default)
    #[arg(short = 'k', long)]
    pub(crate) insecure: bool,

    /// Trust only the certificates in FILE (PEM), as curl does
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    cacert: Option<PathBuf>,
}

impl Certificates {
    /// Returns the trusted certificates.
    pub(crate) fn trust(self) -> Trust {
        match (self.insecure, self.cacert) {
            (true, _) => Trust::Anyone,
            (false, Some(file)) => Trust::File(file),
            (false, None) => Trust::System,
        }
    }
}

impl Connecting {
    /// Returns the input file, if there is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.certificates.cacert.as_deref()
    }

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
        plan.connect.via = self.via();
        plan.connect.trust = self.certificates.trust();
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

fn connections(text: &str) -> Result<NonZeroUsize, String> {
    number(text, MAX_CONNECTIONS, 50)
}

fn streams(text: &str) -> Result<NonZeroUsize, String> {
    number(text, MAX_STREAMS, 10)
}

fn threads(text: &str) -> Result<NonZeroUsize, String> {
    number(text, MAX_THREADS, 2)
}

fn number(text: &str, most: usize, example: usize) -> Result<NonZeroUsize, String> {
    match text.trim().parse::<usize>() {
        Ok(count) if count <= most => NonZeroUsize::new(count),
        _ => None,
    }
    .ok_or_else(|| format!("not a whole number from 1 to {most}: write {example}"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
