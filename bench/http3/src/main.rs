//! Does HTTP/3 hold the pace? Sends at a fixed rate over quinn and h3, and over flowgate's own HTTP/1.1, to servers in this process.
//!
//! ```text
//! cargo run --release --locked [SECONDS, default 5]
//! ```
//!
//! Both clients use one thread and 10 connections. *lag* is from the scheduled time until the request was handed over: to the kernel with
//! HTTP/1.1, and only to quinn with HTTP/3, which writes later. *CPU* is that of the process, with its server, for each request.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use flowgate::Quota;
use flowgate_load::{Origin, Pacer, Plan, Schedule, Stop, Target};
use http::{Request, Response, Uri};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use quinn::rustls::{self, RootCertStore};
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local};

type Fallible<T> = Result<T, Box<dyn Error>>;

const CONNECTIONS: usize = 10;
const RATES: [u64; 4] = [1_000, 5_000, 10_000, 20_000];

/// What came of one rate.
struct Row {
    name: &'static str,
    rate: u64,
    sent: u64,
    answered: u64,
    achieved: f64,
    lag: [Duration; 2],
    service: [Duration; 2],
    cpu: Duration,
}

/// Processor time of this process.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|n| n.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * 10)
}

fn quantiles(mut all: Vec<Duration>) -> [Duration; 2] {
    all.sort();
    let at = |share: f64| {
        all.get(((all.len() as f64 * share) as usize).min(all.len().saturating_sub(1)))
            .copied()
    };
    [0.5, 0.99].map(|share| at(share).unwrap_or_default())
}

fn certificate() -> Fallible<(CertificateDer<'static>, PrivateKeyDer<'static>)> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    Ok((made.cert.der().clone(), key.into()))
}

/// A server on a thread of its own, that answers all requests with two bytes.
fn serve(
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
) -> Fallible<SocketAddr> {
    let mut config = rustls::ServerConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ))
    .with_protocol_versions(&[&rustls::version::TLS13])?
    .with_no_client_auth()
    .with_single_cert(vec![certificate], key)?;
    config.alpn_protocols = vec![b"h3".to_vec()];
    let config = quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(config)?));
    let (sender, address) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async move {
            let endpoint =
                quinn::Endpoint::server(config, (Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
            sender
                .send(endpoint.local_addr().expect("bound"))
                .expect("awaited");
            while let Some(incoming) = endpoint.accept().await {
                tokio::spawn(async move {
                    let Ok(connection) = incoming.await else {
                        return;
                    };
                    let Ok(mut connection) = h3::server::Connection::<_, Bytes>::new(
                        h3_quinn::Connection::new(connection),
                    )
                    .await
                    else {
                        return;
                    };
                    while let Ok(Some(resolver)) = connection.accept().await {
                        tokio::spawn(async move {
                            let Ok((_, mut stream)) = resolver.resolve_request().await else {
                                return;
                            };
                            let _ = stream.send_response(Response::new(())).await;
                            let _ = stream.send_data(Bytes::from_static(b"ok")).await;
                            let _ = stream.finish().await;
                        });
                    }
                });
            }
        });
    });
    Ok(address.recv()?)
}

type Sender = h3::client::SendRequest<h3_quinn::OpenStreams, Bytes>;

/// Sends one request, and reads its response. Returns when it was handed over, and when it was complete.
async fn exchange(mut sender: Sender, uri: Uri) -> Fallible<(Instant, Instant)> {
    let request = Request::builder().uri(uri).body(())?;
    let mut stream = sender.send_request(request).await?;
    stream.finish().await?;
    let handed_over = Instant::now();
    stream.recv_response().await?;
    while let Some(mut data) = stream.recv_data().await? {
        data.advance(data.remaining());
    }
    Ok((handed_over, Instant::now()))
}

fn http3(address: SocketAddr, roots: &RootCertStore, rate: u64, seconds: u64) -> Fallible<Row> {
    let mut config = rustls::ClientConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ))
    .with_protocol_versions(&[&rustls::version::TLS13])?
    .with_root_certificates(roots.clone())
    .with_no_client_auth();
    config.alpn_protocols = vec![b"h3".to_vec()];
    let config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(config)?));
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        let mut endpoint = quinn::Endpoint::client((Ipv4Addr::LOCALHOST, 0).into())?;
        endpoint.set_default_client_config(config);
        let mut senders = Vec::new();
        for _ in 0..CONNECTIONS {
            let connection = endpoint.connect(address, "localhost")?.await?;
            let (mut driver, sender) =
                h3::client::new(h3_quinn::Connection::new(connection)).await?;
            spawn_local(
                async move { std::future::poll_fn(|context| driver.poll_close(context)).await },
            );
            senders.push(sender);
        }
        let uri: Uri = format!("https://localhost:{}/", address.port()).parse()?;
        let done = Rc::new(std::cell::RefCell::new((
            Vec::new(),
            Vec::new(),
            None::<Instant>,
        )));
        let requests = rate * seconds;
        let (before, mut pacer) = (cpu(), Pacer::new()?);
        let begin = Instant::now() + Duration::from_millis(20);
        let mut tasks = Vec::new();
        for index in 0..requests {
            let scheduled = begin + Duration::from_nanos(index * 1_000_000_000 / rate);
            pacer.sleep_until(scheduled).await;
            let (sender, uri, done) = (
                senders[index as usize % CONNECTIONS].clone(),
                uri.clone(),
                done.clone(),
            );
            tasks.push(spawn_local(async move {
                if let Ok((handed_over, complete)) = exchange(sender, uri).await {
                    let mut done = done.borrow_mut();
                    done.0
                        .push(handed_over.saturating_duration_since(scheduled));
                    done.1.push(complete.saturating_duration_since(handed_over));
                    done.2 = done.2.max(Some(handed_over));
                }
            }));
        }
        for task in tasks {
            let _ = tokio::time::timeout(Duration::from_secs(10), task).await;
        }
        let (lag, service, last) = done.take();
        let span = last.map_or(Duration::ZERO, |last| last.saturating_duration_since(begin));
        Ok(Row {
            name: "HTTP/3 (quinn, h3)",
            rate,
            sent: requests,
            answered: service.len() as u64,
            achieved: service.len().saturating_sub(1) as f64 / span.as_secs_f64(),
            lag: quantiles(lag),
            service: quantiles(service),
            cpu: cpu().saturating_sub(before),
        })
    })
}

fn http1(url: &str, rate: u64, seconds: u64) -> Fallible<Row> {
    let schedule = Schedule::lasting(Quota::per_second(rate), Duration::from_secs(seconds))?;
    let mut plan = Plan::new(Target::parse(url)?, schedule);
    plan.connections = const { std::num::NonZeroUsize::new(CONNECTIONS).unwrap() };
    plan.threads = Some(std::num::NonZeroUsize::MIN);
    let before = cpu();
    let report = flowgate_load::run(plan, &Stop::new())?;
    Ok(Row {
        name: "HTTP/1.1 (flowgate)",
        rate,
        sent: report.counts.sent,
        answered: report.counts.statuses.success,
        achieved: report.achieved().unwrap_or_default(),
        lag: [report.lag.p50, report.lag.p99],
        service: [report.service.p50, report.service.p99],
        cpu: cpu().saturating_sub(before),
    })
}

fn main() -> Fallible<()> {
    let seconds = std::env::args().nth(1).map_or(Ok(5), |text| text.parse())?;
    let (certificate, key) = certificate()?;
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone())?;
    let address = serve(certificate, key)?;
    let origin = Origin::start()?;
    println!(
        "{:<20} {:>8} {:>10} {:>9} {:>10} {:>10} {:>10} {:>10} {:>8}",
        "client",
        "rate",
        "achieved",
        "answered",
        "lag p50",
        "lag p99",
        "serv. p50",
        "serv. p99",
        "CPU"
    );
    for rate in RATES {
        for row in [
            http1(&origin.url(), rate, seconds)?,
            http3(address, &roots, rate, seconds)?,
        ] {
            let us = |time: Duration| format!("{:.0} µs", time.as_secs_f64() * 1e6);
            let share = row.answered as f64 / row.sent.max(1) as f64 * 100.0;
            let each = row
                .cpu
                .checked_div(row.answered.max(1) as u32)
                .unwrap_or_default();
            println!(
                "{:<20} {:>8} {:>10.1} {share:>7.1} % {:>10} {:>10} {:>10} {:>10} {:>8}",
                row.name,
                row.rate,
                row.achieved,
                us(row.lag[0]),
                us(row.lag[1]),
                us(row.service[0]),
                us(row.service[1]),
                us(each)
            );
        }
    }
    Ok(())
}
