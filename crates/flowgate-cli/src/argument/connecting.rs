//! How requests get to the server: the arguments about connections.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use flowgate_load::{HttpVersion, MAX_CONNECTIONS, Plan, Trust};

use super::duration;
use crate::exit::Refusal;

/// The most threads that requests may be sent on.
const MAX_THREADS: usize = 1024;
/// The most requests in flight on one connection: no server allows more.
const MAX_STREAMS: usize = 10_000;

/// How requests get to the server.
#[derive(Args, Debug)]
#[command(next_help_heading = "Connections")]
pub(crate) struct Connecting {
    /// The most connections open concurrently
    #[arg(
        short = 'c',
        long,
        value_name = "COUNT",
        default_value = "50",
        value_parser = connections,
        allow_hyphen_values = true,
    )]
    pub(crate) connections: NonZeroUsize,

    /// The most requests in flight on each connection; needs --http2
    #[arg(
        short = 'p',
        long,
        value_name = "COUNT",
        value_parser = streams,
        allow_hyphen_values = true,
    )]
    streams: Option<NonZeroUsize>,

    /// Use HTTP/2: negotiated on https://, without negotiation on http://
    #[arg(long)]
    http2: bool,

    /// How long one request may take; a bare number is seconds
    #[arg(
        short = 't',
        long,
        value_name = "TIME",
        default_value = "10s",
        value_parser = duration::or_seconds,
        allow_hyphen_values = true,
    )]
    pub(crate) timeout: Duration,

    /// Send each request on a connection of its own
    #[arg(long, conflicts_with = "http2")]
    disable_keepalive: bool,

    #[command(flatten)]
    pub(crate) certificates: Certificates,

    /// On how many threads to send [default: as many as the rate needs]
    #[arg(
        long,
        value_name = "COUNT",
        value_parser = threads,
        allow_hyphen_values = true,
    )]
    pub(crate) threads: Option<NonZeroUsize>,
}

/// Whose certificates are accepted.
#[derive(Args, Debug)]
#[command(next_help_heading = "Connections")]
pub(crate) struct Certificates {
    /// Accept any certificate, as with curl; connections are kept open anyway
    #[arg(short = 'k', long)]
    pub(crate) insecure: bool,

    /// Trust the authorities in this file (PEM), and no others
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    cacert: Option<PathBuf>,
}

impl Certificates {
    /// What they come to.
    pub(crate) fn trust(self) -> Trust {
        match (self.insecure, self.cacert) {
            (true, _) => Trust::Anyone,
            (false, Some(file)) => Trust::File(file),
            (false, None) => Trust::System,
        }
    }
}

impl Connecting {
    /// The file that is read, if there is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.certificates.cacert.as_deref()
    }

    /// Puts it into the plan.
    pub(crate) fn apply(self, plan: &mut Plan) -> Result<(), Refusal> {
        if self.streams.is_some() && !self.http2 {
            return Err(Refusal::usage(
                "--streams: HTTP/1.1 has one request at a time on a connection: add --http2, or type a larger -c",
            ));
        }
        plan.connections = self.connections;
        plan.streams = self.streams.unwrap_or(NonZeroUsize::MIN);
        plan.connect.version = match self.http2 {
            true => HttpVersion::Http2,
            false => HttpVersion::Http1,
        };
        plan.connect.timeout = self.timeout;
        plan.connect.trust = self.certificates.trust();
        plan.timeout = self.timeout;
        plan.keep_alive = !self.disable_keepalive;
        plan.threads = self.threads;
        Ok(())
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
    .ok_or_else(|| format!("not a whole number from 1 to {most}: type {example}"))
}
