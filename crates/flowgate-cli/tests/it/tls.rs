//! `https://` as users meet it: what is wrong in one line, and what to type.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

use crate::support::{answer_with, number, run, server};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A server with a certificate that nobody knows, for `localhost`. Returns its port.
pub fn tls_server() -> (u16, CertifiedKey<rcgen::KeyPair>) {
    let certified = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(
        certified.signing_key.serialize_der(),
    ));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            let connection = ServerConnection::new(config.clone()).unwrap();
            thread::spawn(move || {
                let mut stream = StreamOwned::new(connection, socket);
                let mut request = Vec::new();
                let mut byte = [0];
                while matches!(stream.read(&mut byte), Ok(1)) {
                    request.push(byte[0]);
                    if request.ends_with(b"\r\n\r\n") {
                        request.clear();
                        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                        if stream.write_all(answer).is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    (port, certified)
}

/// One line: where to, what is wrong, and what to type.
fn assert_line(err: &str, port: u16, what: &str, advice: &str) {
    let begin = format!("flowgate: cannot connect to 127.0.0.1:{port}: {what}");
    let rest = err.strip_prefix(&begin).unwrap_or_else(|| panic!("{err}"));
    assert!(rest.contains(advice), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
}

#[test]
fn a_certificate_that_nobody_knows_is_accepted_when_asked_to() {
    let (port, certified) = tls_server();
    let url = format!("https://127.0.0.1:{port}/");
    let short = ["load", "-q", "100", "-n", "5", "-c", "2"];
    let (exit, out, err) = run(&[&short[..], &[&url]].concat());
    assert_eq!((exit, out.as_str()), (1, ""));
    assert_line(
        &err,
        port,
        "certificate not trusted (unknown issuer)",
        "--insecure",
    );
    for accept in ["-k", "--insecure"] {
        let (_, out, err) = run(&[&short[..], &[accept, &url]].concat());
        assert_eq!(err, "");
        assert_eq!(number(&out, "status", "2xx"), 5, "{out}");
    }

    let file = std::env::temp_dir().join(format!("flowgate-cert-{}.pem", std::process::id()));
    fs::write(&file, certified.cert.pem()).unwrap();
    let path = file.to_str().unwrap();
    let named = format!("https://localhost:{port}/");
    let (_, out, err) = run(&[&short[..], &["--cacert", path, &named]].concat());
    assert_eq!(err, "");
    assert_eq!(number(&out, "status", "2xx"), 5, "{out}");
    let (exit, _, err) = run(&[&short[..], &["--cacert", path, &url]].concat());
    assert_eq!(exit, 1);
    assert_line(&err, port, "certificate is for another host", "--insecure");
    fs::remove_file(file).unwrap();

    let (exit, _, err) = run(&[&short[..], &["--cacert", "/no/such/file", &url]].concat());
    assert_eq!(exit, 1);
    assert!(
        err.starts_with("flowgate: cannot read \"/no/such/file\": "),
        "{err}"
    );
    assert_eq!(err.lines().count(), 1, "{err}");
}

#[test]
fn a_server_without_tls_is_told() {
    let url = server(|stream, _| {
        answer_with(stream, b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        true
    });
    let (exit, out, err) = run(&["load", "-q", "10", "-n", "1", "-k", &url]);
    assert!(exit == 0 || exit == 4, "{err}");
    assert_eq!(number(&out, "status", "2xx"), 1, "{out}");
    assert_eq!(
        err,
        "flowgate: -k has no effect without https://: remove it (connections are kept open anyway)\n"
    );

    // Says something that is no TLS as soon as it is spoken to.
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut socket in listener.incoming().map_while(Result::ok) {
            let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
            let _ = socket.read(&mut [0; 1024]);
        }
    });
    let (exit, out, err) = run(&["load", "-q", "10", &format!("https://127.0.0.1:{port}/")]);
    assert_eq!((exit, out.as_str()), (1, ""));
    assert_line(&err, port, "answer is not TLS", "http://");
}
