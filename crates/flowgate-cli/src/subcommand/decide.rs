//! `flowgate decide`: a server that decides for other programs.

mod log;
mod reloads;
mod state;
mod store;
mod traces;
mod view;
mod watched;

use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use flowgate_server::{
    Comparison, Config, DecideLimits, DecideServer, DecisionTime, Door, OtherServer, Problem,
    ServerBounds,
};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::argument::{count, duration};
use crate::exit::{Exit, Refusal, exit_codes, print};
use crate::watch::Canvas;
use crate::{descriptors, interrupt};
use log::{Format, Level, Log};
use reloads::{Certificate, Reloads};
use store::Store;
use traces::Traces;
use watched::Watched;

const EXPLANATION: &str = concat!(
    "\
Examples:
  flowgate decide limits.yaml
      In another terminal: redis-cli -p 6380 FG.ASK api.user alice
  flowgate decide limits.yaml --store redis://cache:6379 --nodes 4
      Share the limits with three other servers.
  flowgate decide limits.yaml --store local
      Lend the limits to programs that use Fleet::server of flowgate-fleet.
  flowgate decide limits.yaml --rls 8081 --http none --resp none
      For Envoy alone, whose cluster is 127.0.0.1:8081.
  flowgate decide limits.yaml --watch
      Show limits, rates and refusals once per second.
  flowgate decide limits.yaml --otlp http://127.0.0.1:4318
      Send spans of sampled requests to an OpenTelemetry collector.
  flowgate decide limits.yaml --check
      Print what is wrong with the file, with line and column.

Configuration (FILE): that of envoyproxy/ratelimit, or a quota of flowgate:
  domain: api
  descriptors:
    - key: user                       # each user
      quota: 100/min burst 20
    - key: path
      value: /search
      rate_limit: { unit: second, requests_per_unit: 50 }

gRPC (--rls), for Envoy:
  envoy.service.ratelimit.v3.RateLimitService, grpc.health.v1.Health, and
  server reflection

HTTP:
  POST /json        Envoy's RateLimitRequest as JSON: 200 or 429
  POST /v1/ask      {\"limit\": \"api.user\", \"key\": \"alice\", \"n\": 1}: 200 or 429
  GET /auth?limit=api.user&key=alice&deny=403
                    for nginx's auth_request: 200 or 403
  GET /auth?limit=api.user&header=x-user
                    for Caddy and Traefik: 200 or 429; the key is that field
  GET /healthz, /readyz

RESP, for clients of Redis:
  CL.THROTTLE key max_burst count period [n]
                    as redis-cell answers it
  FG.ASK limit key [n]
                    refused 0 or 1, limit, remaining, milliseconds until a
                    retry (or -1), milliseconds until full

For operators (--admin): GET /metrics of Prometheus, /config, /limits, /healthz,
and /readyz. flowgate fleet shows and resets the limits.

The files are read again when they change, and at SIGHUP: what was taken stays
taken, and a file with a mistake changes nothing. So is a certificate. Ctrl-C or SIGTERM answers what has arrived, and ends.

",
    exit_codes!()
);

/// Decide about requests for other programs: Envoy, nginx and clients of Redis
#[derive(Args, Debug)]
#[command(after_long_help = EXPLANATION)]
pub(crate) struct Decide {
    /// Files with limits
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Check the files, and end
    #[arg(long)]
    check: bool,

    /// Listen for gRPC on this address: an address, a port of 127.0.0.1, or none
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8081", value_parser = place)]
    rls: Place,

    /// Listen for HTTP on this address: an address, a port of 127.0.0.1, or none
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080", value_parser = place)]
    http: Place,

    /// Listen for RESP on this address: an address, a port of 127.0.0.1, or none
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6380", value_parser = place)]
    resp: Place,

    /// Listen for operators on this address: an address, a port of 127.0.0.1, or none
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6070", value_parser = place)]
    admin: Place,

    /// Listen on addresses of a network, without encryption
    #[arg(long, conflicts_with = "cert")]
    plain: bool,

    /// Encrypt all doors with TLS, by this certificate and its chain (PEM)
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,

    /// The private key of --cert (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,

    /// Answer only clients whose certificates these authorities signed (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    client_ca: Option<PathBuf>,

    #[command(flatten)]
    store: Store,

    /// Write what was taken to this file at the end, and begin with it
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,

    /// Answer only clients that send the first line of this file: AUTH, or a bearer token
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,

    /// Decide on this many threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = threads)]
    threads: Option<NonZeroUsize>,

    /// Ask this server of envoyproxy/ratelimit, too, and print where the answers differ
    #[arg(long, value_name = "URL")]
    shadow: Option<String>,

    /// Show limits, rates and refusals once per second
    #[arg(long, conflicts_with_all = ["check", "log"])]
    watch: bool,

    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "text",
        value_enum,
        hide_possible_values = true,
        help = "Write lines for people (text) or JSON for programs (json) to standard error"
    )]
    log: Format,

    /// With --log json, write what is as important as this: warn, info, or debug for each request
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "info",
        value_enum,
        hide_possible_values = true
    )]
    log_level: Level,

    #[command(flatten)]
    traces: Traces,

    /// Wait this long for requests in flight at the end
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    drain: Duration,
}

/// Where a door is; `None`: nowhere.
#[derive(Clone, Copy, Debug)]
struct Place(Option<SocketAddr>);

/// Runs the subcommand.
pub(crate) fn run(decide: Decide) -> Exit {
    match answer(&decide) {
        Ok(()) => Exit::Success,
        Err(refusal) => refusal.say(),
    }
}

fn answer(arguments: &Decide) -> Result<(), Refusal> {
    let files = Watched::new(arguments.files.clone());
    let certificate_files = Watched::new(arguments.certificate_files());
    let config = Config::read(files.files()).map_err(refusal)?;
    let log = arguments.log();
    for note in config.notes() {
        log.complain(note);
    }
    let time = DecisionTime::system();
    let state = match &arguments.state {
        Some(_) if !arguments.store.is_in_this_process() => {
            return Err(Refusal::usage(
                "--state is for limits of this process, and the store keeps what was taken: remove --state, or write --store local",
            ));
        }
        Some(file) => {
            state::check(file)?;
            state::read(file)?
        }
        None => None,
    };
    let store = arguments.store.open(state.as_ref())?;
    let limits = match (&store, &state) {
        (Some(store), _) => DecideLimits::in_store(&config, &time, &store.fleet),
        (None, Some(state)) => DecideLimits::restored(&config, &time, &state.file, &state.bytes),
        (None, None) => DecideLimits::new(&config, &time),
    };
    let limits = limits.map_err(mistake)?;
    let mut what = describe(&limits);
    if state.is_some() {
        what.push_str(", with what was taken before");
    }
    let certificate = arguments.certificate();
    let tls = certificate.as_ref().map(Certificate::tls).transpose();
    let tls = tls.map_err(mistake)?;
    let secret = arguments.secret_file.as_deref().map(secret).transpose()?;
    if arguments.check {
        return print(&format!("ok: {what}\n"));
    }
    let mut bounds = ServerBounds {
        drain_time: arguments.drain,
        ..ServerBounds::default()
    };
    let wanted = (bounds.connections + bounds.operators) as u64;
    let most = descriptors::provide_up_to(wanted).map_err(Refusal::could_not_run)? as usize;
    bounds.operators = bounds.operators.min(most.div_ceil(4));
    bounds.connections = bounds.connections.min((most - bounds.operators).max(1));
    let mut server = DecideServer::new(limits).bounds(bounds);
    if let Some(tls) = tls {
        server = server.tls(tls);
    }
    if let Some(secret) = secret {
        server = server.secret(&secret);
    }
    if let Some(traces) = arguments.traces.to(&log)? {
        server = server.trace(traces);
    }
    if let Some(url) = &arguments.shadow {
        server = server.compare_with(other(url, log.clone())?);
    }
    let doors = [
        (Door::Grpc, "--rls", arguments.rls),
        (Door::Http, "--http", arguments.http),
        (Door::Resp, "--resp", arguments.resp),
        (Door::Admin, "--admin", arguments.admin),
    ];
    let mut of_clients = doors.iter().filter(|(door, ..)| *door != Door::Admin);
    if of_clients.all(|(.., Place(address))| address.is_none()) {
        return Err(Refusal::usage(
            "no door: write --rls 8081, --http 8080, or --resp 6380",
        ));
    }
    let scheme = if certificate.is_some() {
        "https"
    } else {
        "http"
    };
    let mut opened = Vec::new();
    for (door, flag, Place(address)) in doors {
        let Some(address) = address else {
            continue;
        };
        check(address, flag, arguments.plain || certificate.is_some())?;
        let open = server.listen(door, address);
        let open = open.map_err(|error| could_not_listen(flag, address, &error))?;
        opened.push(match door {
            Door::Grpc if certificate.is_some() => format!("gRPC with TLS on {open}"),
            Door::Grpc => format!("gRPC on {open}"),
            Door::Http => format!("HTTP on {scheme}://{open}/"),
            Door::Admin => format!("admin on {scheme}://{open}/"),
            _ if certificate.is_some() => format!("RESP with TLS on {open}"),
            _ => format!("RESP on {open}"),
        });
    }
    if let Some(file) = &arguments.state {
        state::remove(file)?;
    }
    let reloader = server.reloader();
    let could_not = |error| Refusal::could_not_run(format!("cannot start: {error}"));
    let mut builder = Builder::new_multi_thread();
    if let Some(threads) = arguments.threads {
        builder.worker_threads(threads.get());
    }
    let runtime = builder.enable_all().build().map_err(could_not)?;
    let (tell, told) = oneshot::channel();
    // The server may have ended.
    interrupt::listen(move || _ = tell.send(()))?;
    let reloads = Reloads {
        files,
        certificate: certificate.map(|certificate| (certificate_files, certificate)),
        reloader: reloader.clone(),
        log: log.clone(),
    };
    let viewer = server.viewer();
    runtime
        .block_on(async {
            reloads.begin()?;
            if let Some(store) = &store {
                tokio::spawn(store::complain_if_away(store.fleet.clone(), log.clone()));
            }
            let doors = opened.join(", ");
            log.say(&format!(
                "listening: {doors}; {what}; Ctrl-C ends the server"
            ));
            if arguments.watch {
                tokio::spawn(view::show(viewer, doors, log));
            }
            server.run(async { drop(told.await) }).await
        })
        .map_err(could_not)?;
    if let Some(file) = &arguments.state {
        // Nothing is decided any more.
        runtime.shutdown_timeout(Duration::from_secs(1));
        let local = store.as_ref().and_then(|store| store.local.as_ref());
        let state = local.map_or_else(|| reloader.state(), |local| local.export().into());
        state::write(file, &state)?;
    }
    Ok(())
}

impl Decide {
    /// Returns where lines go, and installs what writes JSON.
    fn log(&self) -> Log {
        match self.log {
            // Elsewhere, there is room for all lines.
            _ if self.watch && Canvas::new().is_some() => Log::View(Arc::default()),
            Format::Text => Log::Text,
            Format::Json => Log::json(self.log_level),
        }
    }

    fn certificate(&self) -> Option<Certificate> {
        Some(Certificate {
            cert: self.cert.clone()?,
            key: self.key.clone()?,
            client_ca: self.client_ca.clone(),
        })
    }

    fn certificate_files(&self) -> Vec<PathBuf> {
        let files = [&self.cert, &self.key, &self.client_ca];
        files.into_iter().flatten().cloned().collect()
    }
}

fn describe(limits: &DecideLimits) -> String {
    let limit = if limits.len() == 1 { "limit" } else { "limits" };
    if limits.has_store() {
        return format!("{} {limit} in the store", limits.len());
    }
    let megabytes = limits.bytes().div_ceil(1_000_000);
    format!("{} {limit}, {megabytes} MB for keys", limits.len())
}

/// Returns the server of `--shadow`, whose differences are written to the log.
fn other(url: &str, log: Log) -> Result<OtherServer, Refusal> {
    let report = move |comparison: &Comparison| match comparison.different + comparison.unanswered {
        0 => log.say(&format!("--shadow: {comparison}")),
        _ => log.complain(&format!("--shadow: {comparison}")),
    };
    OtherServer::new(url, report).map_err(|what| Refusal::usage(format!("--shadow: {what}")))
}

/// A mistake in a file, or a file that cannot be read.
fn refusal(problem: Problem) -> Refusal {
    match problem.line() {
        Some(_) => mistake(problem),
        None => Refusal::could_not_run(problem.to_string()),
    }
}

/// Something that the next attempt finds unchanged.
fn mistake(problem: Problem) -> Refusal {
    Refusal::usage(problem.to_string())
}

fn could_not_listen(flag: &str, address: SocketAddr, error: &std::io::Error) -> Refusal {
    match error.kind() {
        ErrorKind::AddrInUse => Refusal::usage(format!(
            "{flag} {address} is in use: end that server, or write another port"
        )),
        _ => Refusal::could_not_run(format!("cannot listen on {address}: {error}")),
    }
}

/// Checks that no other machine can read what is sent, or that this is wanted.
fn check(address: SocketAddr, flag: &str, is_allowed: bool) -> Result<(), Refusal> {
    if is_allowed || address.ip().is_loopback() {
        return Ok(());
    }
    Err(Refusal::usage(format!(
        "{flag} {address} is open to other machines, without encryption: add --cert and --key, or --plain, or listen on 127.0.0.1"
    )))
}

fn secret(file: &Path) -> Result<String, Refusal> {
    let name = file.display();
    let text = fs::read_to_string(file)
        .map_err(|error| Refusal::could_not_run(format!("cannot read {name}: {error}")))?;
    match text.lines().next().map(str::trim) {
        Some(secret) if !secret.is_empty() => Ok(secret.to_owned()),
        _ => Err(Refusal::usage(format!("{name}: the first line is empty"))),
    }
}

fn threads(text: &str) -> Result<NonZeroUsize, String> {
    count::parse(text, 256, 2)
}

/// Parses `127.0.0.1:8080`, a port of 127.0.0.1, or `none`.
fn place(text: &str) -> Result<Place, String> {
    let text = text.trim();
    if text == "none" {
        return Ok(Place(None));
    }
    super::serve::address(text).map(|address| Place(Some(address)))
}
