//! A store with TLS.

use crate::support::{Engine, free_port};
use flowgate_fleet::{CutOff, Fleet, FleetBuilder, FleetError};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::fs;
use std::time::Duration;

/// An authority, and a certificate and a key for each of two.
struct Certificates {
    authority: String,
    server: [String; 2],
    client: [String; 2],
}

impl Certificates {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        // Not the name of those that it signs.
        params
            .distinguished_name
            .push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = CertifiedIssuer::self_signed(params, key).unwrap();
        let signed = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
            let certificate = params.signed_by(&key, &authority).unwrap();
            [certificate.pem(), key.serialize_pem()]
        };
        Self {
            server: signed("127.0.0.1"),
            client: signed("client"),
            authority: authority.pem(),
        }
    }
}

/// Returns whether the store admits.
fn is_admitted(fleet: FleetBuilder) -> bool {
    // A busy machine takes its time for the handshakes.
    let fleet = fleet.timeout(Duration::from_secs(10)).open().unwrap();
    let limit = fleet.limit("api", "1000/day".parse().unwrap());
    let limit = limit.when_cut_off(CutOff::Deny).build().unwrap();
    limit.ask().block().is_ok()
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn a_store_with_tls_is_trusted_by_its_authority_and_asks_for_a_certificate() {
    let certificates = Certificates::new();
    let directory = std::env::temp_dir().join(format!("flowgate-tls-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let write = |name: &str, text: &str| {
        let file = directory.join(name);
        fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let port = free_port().to_string();
    let files = [
        write("authority.pem", &certificates.authority),
        write("server.pem", &certificates.server[0]),
        write("server.key", &certificates.server[1]),
    ];
    let engine = Engine::start_with(&[
        "--tls-port",
        &port,
        "--tls-ca-cert-file",
        &files[0],
        "--tls-cert-file",
        &files[1],
        "--tls-key-file",
        &files[2],
    ]);
    let url = format!("rediss://127.0.0.1:{port}");
    let fleet = || Fleet::redis(&url).unwrap();
    let authority = &certificates.authority;
    let [certificate, key] = &certificates.client;
    let shown = |fleet: FleetBuilder| fleet.client_certificate(certificate.as_str(), key.as_str());

    let trusted = fleet().certificate_authorities(authority.as_str());
    assert!(is_admitted(shown(trusted)));
    let unknown = fleet().certificate_authorities(authority.as_str());
    assert!(!is_admitted(unknown), "no certificate was shown");
    let other = Certificates::new();
    let untrusted = fleet().certificate_authorities(other.authority.as_str());
    assert!(
        !is_admitted(shown(untrusted)),
        "another authority is trusted"
    );
    drop(engine);
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn certificates_that_cannot_be_used_are_refused_with_what_to_write() {
    let refused = |fleet: FleetBuilder, word: &str| {
        let error = fleet.open().unwrap_err();
        assert!(matches!(error, FleetError::Certificate(_)), "{error}");
        assert!(error.to_string().contains(word), "{error}");
    };
    let plain = Fleet::redis("redis://127.0.0.1:1").unwrap();
    let certificates = Certificates::new();
    let authority = certificates.authority.as_str();
    refused(plain.certificate_authorities(authority), "rediss://");
    let fleet = || Fleet::redis("rediss://127.0.0.1:1").unwrap();
    refused(fleet().certificate_authorities("nonsense"), "PEM");
    refused(fleet().client_certificate(authority, "nonsense"), "PEM");
}
