//! Encrypted doors, certificates of clients, and a certificate that is renewed.

use crate::support::{Running, connect};
use flowgate_fleet::{Fleet, FleetBuilder};
use flowgate_server::{Config, DecideLimits, DecideServer, DecisionTime, ServerBounds, ServerTls};
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

const LIMITS: &str =
    "{domain: api, descriptors: [{key: user, quota: 3/day, name: users, capacity: 100}]}";
const GET: &str = "GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

type Certified = CertifiedKey<KeyPair>;

fn certified() -> Certified {
    generate_simple_self_signed(["localhost".to_owned()]).unwrap()
}

/// A folder with the files of a certificate, removed when dropped.
struct Files {
    folder: PathBuf,
    cert: PathBuf,
    key: PathBuf,
    clients: PathBuf,
}

impl Files {
    fn new(name: &str, server: &Certified) -> Self {
        let folder = format!("flowgate-tls-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir_all(&folder).unwrap();
        let [cert, key, clients] = ["cert", "key", "clients"].map(|name| folder.join(name));
        let files = Self {
            folder,
            cert,
            key,
            clients,
        };
        files.write(server);
        files
    }

    fn write(&self, server: &Certified) {
        fs::write(&self.cert, server.cert.pem()).unwrap();
        fs::write(&self.key, server.signing_key.serialize_pem()).unwrap();
    }

    fn read(&self) -> ServerTls {
        ServerTls::read(&self.cert, &self.key, None).unwrap()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Connects as a client that trusts one certificate, and may have one.
fn client(
    address: SocketAddr,
    server: &Certified,
    own: Option<&Certified>,
) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(server.cert.der().clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
            let chain = vec![own.cert.der().clone()];
            builder
                .with_client_auth_cert(chain, PrivateKeyDer::from(key))
                .unwrap()
        }
    };
    let name = "localhost".try_into().unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(connection, connect(address))
}

/// Sends a text, and returns the answer; an error if the server does not accept the client.
fn exchange(
    address: SocketAddr,
    server: &Certified,
    own: Option<&Certified>,
    text: &str,
) -> std::io::Result<String> {
    let mut stream = client(address, server, own);
    stream.write_all(text.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn all_doors_are_encrypted() {
    let certified = certified();
    let files = Files::new("doors", &certified);
    let server = Running::new(LIMITS, |server| server.tls(files.read()));
    for door in [server.http, server.admin] {
        let answer = exchange(door, &certified, None, GET).unwrap();
        assert!(answer.ends_with("\r\n\r\nok\n"), "{answer}");
    }
    let asked = "FG.ASK users alice\r\nQUIT\r\n";
    let answer = exchange(server.resp, &certified, None, asked).unwrap();
    assert!(answer.starts_with("*5\r\n:0\r\n:3\r\n:2\r\n"), "{answer}");
    // HTTP/2, whose first frame has the settings (4). A PING of one byte is an error, which ends the connection.
    let broken = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x01\x06\0\0\0\0\0x";
    let answer = exchange(server.grpc, &certified, None, broken).unwrap();
    assert_eq!(answer.as_bytes()[3], 4, "{answer:?}");
    // Without TLS, nothing is answered but an alert.
    assert!(!server.resp(b"PING\r\n").contains("PONG"));
    assert!(!server.http(GET).contains("HTTP/1.1"));
    let page = exchange(
        server.admin,
        &certified,
        None,
        &GET.replace("readyz", "metrics"),
    );
    let page = page.unwrap();
    for door in ["resp", "http"] {
        let line = format!("\nflowgate_connections_without_tls_total{{door=\"{door}\"}} 1\n");
        assert!(page.contains(&line), "{page}");
    }
}

#[test]
fn clients_can_need_a_certificate() {
    let (certified, known, unknown) = (certified(), certified(), certified());
    let files = Files::new("clients", &certified);
    fs::write(&files.clients, known.cert.pem()).unwrap();
    let tls = ServerTls::read(&files.cert, &files.key, Some(&files.clients)).unwrap();
    let server = Running::new(LIMITS, |server| server.tls(tls));
    for (door, text, answer) in [
        (server.http, GET, "\r\n\r\nok\n"),
        (server.resp, "QUIT\r\n", "+OK\r\n"),
    ] {
        let told = exchange(door, &certified, Some(&known), text).unwrap();
        assert!(told.ends_with(answer), "{told}");
        for own in [None, Some(&unknown)] {
            exchange(door, &certified, own, text).unwrap_err();
        }
    }
    // A probe has no certificate.
    exchange(server.admin, &certified, None, GET).unwrap();
}

#[test]
fn processes_lease_over_tls_if_both_sides_show_their_certificates() {
    let (certified, known) = (certified(), certified());
    let files = Files::new("leases", &certified);
    fs::write(&files.clients, known.cert.pem()).unwrap();
    let tls = ServerTls::read(&files.cert, &files.key, Some(&files.clients)).unwrap();
    let config = Config::parse("test.yaml", LIMITS).unwrap();
    let store = Fleet::local().nodes(1).open().unwrap();
    let limits = DecideLimits::in_store(&config, &DecisionTime::system(), &store).unwrap();
    let server = Running::of(DecideServer::new(limits).tls(tls));
    let fleet = |authority: &Certified| {
        let url = format!("https://localhost:{}", server.grpc.port());
        let fleet = Fleet::server(&url).unwrap().nodes(1);
        fleet.certificate_authorities(authority.cert.pem())
    };
    let shown = |fleet: FleetBuilder| {
        let key = known.signing_key.serialize_pem();
        fleet.client_certificate(known.cert.pem(), key).open()
    };
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.build().unwrap();
    let process = shown(fleet(&certified)).unwrap();
    runtime.block_on(process.ready());
    let users = process
        .keyed("api.user", "3/day".parse().unwrap())
        .build()
        .unwrap();
    assert!(users.ask("alice").n(3).block().is_ok());
    assert!(users.ask("alice").block().is_err());
    for wrong in [
        shown(fleet(&known)).unwrap(),
        fleet(&certified).open().unwrap(),
    ] {
        while !format!("{wrong:?}").contains("Down") {
            thread::yield_now();
        }
    }
    let plain = Fleet::server("http://localhost").unwrap();
    let error = plain.certificate_authorities(certified.cert.pem()).open();
    assert!(error.unwrap_err().to_string().contains("https://HOST:PORT"));
}

/// Connections go on with the certificate that they have seen, and new ones see the new one.
#[test]
fn a_certificate_is_renewed_under_load() {
    let (old, new) = (certified(), certified());
    let files = Files::new("renewed", &old);
    let server = Running::new(LIMITS, |server| server.tls(files.read()));
    let mut kept = client(server.resp, &old, None);
    let mut ask = || {
        kept.write_all(b"PING\r\n").unwrap();
        kept.read_exact(&mut [0; 7]).unwrap();
    };
    ask();
    thread::scope(|threads| {
        // Clients that trust both are never without an answer.
        let load = || {
            for _ in 0..50 {
                let mut stream = client(server.resp, &old, None);
                let is_old = stream.write_all(b"QUIT\r\n").is_ok();
                let answer = match is_old {
                    true => {
                        let mut answer = String::new();
                        stream.read_to_string(&mut answer).unwrap();
                        answer
                    }
                    false => exchange(server.resp, &new, None, "QUIT\r\n").unwrap(),
                };
                assert_eq!(answer, "+OK\r\n");
            }
        };
        threads.spawn(load);
        threads.spawn(load);
        files.write(&new);
        let read = || {
            server
                .reloader
                .read_certificate(&files.cert, &files.key, None)
        };
        read().unwrap();
        // A key of another certificate changes nothing.
        fs::write(&files.key, old.signing_key.serialize_pem()).unwrap();
        let problem = read().unwrap_err().to_string();
        let expected = format!("not the certificate of the key {}: ", files.key.display());
        assert!(problem.contains(&expected), "{problem}");
    });
    ask();
    exchange(server.resp, &new, None, "QUIT\r\n").unwrap();
    exchange(server.resp, &old, None, "QUIT\r\n").unwrap_err();
    let page = exchange(server.admin, &new, None, &GET.replace("readyz", "metrics")).unwrap();
    for result in ["ok", "error"] {
        let line = format!("\nflowgate_certificate_loads_total{{result=\"{result}\"}} 1\n");
        assert!(page.contains(&line), "{page}");
    }
}

#[test]
fn a_client_that_does_not_shake_hands_is_closed() {
    let certified = certified();
    let files = Files::new("slow", &certified);
    let bounds = ServerBounds {
        head_time: Duration::from_millis(50),
        ..ServerBounds::default()
    };
    let server = Running::new(LIMITS, |server| server.bounds(bounds).tls(files.read()));
    for door in [server.http, server.resp] {
        let mut stream = connect(door);
        stream.write_all(b"\x16\x03\x01").unwrap();
        assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap(), 0);
    }
}

#[test]
fn a_wrong_file_is_named_with_what_is_wrong() {
    let certified = certified();
    let files = Files::new("wrong", &certified);
    let of = |clients| {
        let read = ServerTls::read(&files.cert, &files.key, clients);
        read.map(drop).unwrap_err().to_string()
    };
    let nothing = files.folder.join("nothing");
    assert!(of(Some(&nothing)).contains("nothing: cannot read it: "));
    fs::write(&files.clients, "").unwrap();
    assert!(
        of(Some(&files.clients))
            .ends_with("clients: no certificate: a PEM file has BEGIN and END lines")
    );
    fs::write(&files.key, certified.cert.pem()).unwrap();
    assert!(of(None).ends_with("key: no private key: a PEM file has BEGIN and END lines"));
    fs::write(&files.cert, "-----BEGIN CERTIFICATE-----\n?\n").unwrap();
    assert!(of(None).contains("cert: not a PEM file: "));
}
