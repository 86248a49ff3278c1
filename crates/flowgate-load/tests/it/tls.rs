//! Whole runs over TLS, on counts and texts alone.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use flowgate::Quota;
use flowgate_load::{
    Failure, HttpVersion, Plan, RunError, Schedule, Stop, Target, TlsFault, Trust,
};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// An encrypted server whose certificate nobody issued but itself, on a thread that ends with the
/// process.
fn server() -> SocketAddr {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            tell.send(listener.local_addr().unwrap()).unwrap();
            let acceptor = TlsAcceptor::from(Arc::new(config));
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let mut stream = acceptor.accept(stream).await.ok()?;
                    let mut request = [0; 4096];
                    // Each request is small enough to come in one piece.
                    while stream.read(&mut request).await.ok()? > 0 {
                        stream.write_all(ANSWER).await.ok()?;
                    }
                    Some(())
                });
            }
        });
    });
    told.recv().unwrap()
}

fn plan(address: SocketAddr, trust: Trust) -> Plan {
    let target = Target::parse(&format!("https://localhost:{}/", address.port())).unwrap();
    let schedule = Schedule::of(Quota::per_second(500), 40).unwrap();
    let mut plan = Plan::new(target, schedule);
    plan.connect.trust = trust;
    plan
}

#[test]
fn every_request_is_sent_encrypted_and_answered() {
    let report = flowgate_load::run(plan(server(), Trust::Anyone), &Stop::new()).unwrap();
    let statuses = &report.counts.statuses;
    assert_eq!((report.counts.sent, statuses.success), (40, 40));
    assert_eq!(report.lag.samples, 40);
    assert!(report.counts.failures.is_empty());
}

#[test]
fn streams_have_no_meaning_where_http_1_1_is_agreed_on() {
    let mut plan = plan(server(), Trust::Anyone);
    plan.connect.version = HttpVersion::Negotiated;
    plan.connections = NonZeroUsize::new(2).unwrap();
    plan.streams = NonZeroUsize::new(10).unwrap();
    let report = flowgate_load::run(plan, &Stop::new()).unwrap();
    let used = report.connections;
    assert_eq!((used.connections, used.allowed), (2, 2), "{report}");
    assert!(used.most_busy <= 2, "{report}");
    assert_eq!(report.counts.statuses.success, 40, "{report}");
}

#[test]
fn a_certificate_that_nobody_issued_ends_the_run_before_it_begins() {
    let error = flowgate_load::run(plan(server(), Trust::System), &Stop::new()).unwrap_err();
    let text = error.to_string();
    // A system that trusts nobody at all says so.
    let RunError::Connect { failure, .. } = error else {
        assert!(text.contains("--cacert FILE"), "{text}");
        return;
    };
    assert_eq!(failure, Failure::Tls(TlsFault::UnknownIssuer));
    assert!(
        text.contains("certificate not trusted (unknown issuer)"),
        "{text}"
    );
}

#[test]
fn authorities_that_cannot_be_read_end_the_run_before_it_begins() {
    let trust = Trust::File("/no/such/file.pem".into());
    let error = flowgate_load::run(plan(server(), trust), &Stop::new()).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("cannot read \"/no/such/file.pem\": ")
    );
}
