//! A store with TLS.

use crate::support::{Engine, NAME, Place, free_port, until};
use flowgate_fleet::{CutOff, Fleet, FleetBuilder, FleetError};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::fs;
use std::path::PathBuf;
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

/// Certificates as files, which are removed when this is dropped.
struct Files {
    directory: PathBuf,
}

impl Files {
    fn new(name: &str, certificates: &Certificates) -> Self {
        let name = format!("flowgate-tls-{}-{name}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        let write = |name: &str, text: &str| fs::write(directory.join(name), text).unwrap();
        write("authority.pem", &certificates.authority);
        write("server.pem", &certificates.server[0]);
        write("server.key", &certificates.server[1]);
        Self { directory }
    }

    /// Returns the settings of a server with a port with TLS, each with its value.
    fn settings(&self, dashes: &str, port: u16) -> Vec<String> {
        let file = |setting: &str, name: &str| {
            let file = self.directory.join(name);
            format!("{dashes}{setting} {}", file.to_str().unwrap())
        };
        vec![
            format!("{dashes}tls-port {port}"),
            file("tls-ca-cert-file", "authority.pem"),
            file("tls-cert-file", "server.pem"),
            file("tls-key-file", "server.key"),
        ]
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn words(settings: &[String]) -> Vec<&str> {
    settings.iter().flat_map(|line| line.split(' ')).collect()
}

fn url(port: u16) -> String {
    format!("rediss://127.0.0.1:{port}")
}

impl Certificates {
    /// Requires that a store is trusted by its authority only, and trusts only those that show a certificate.
    fn are_asked_for(&self, fleet: impl Fn() -> FleetBuilder) {
        let authority = self.authority.as_str();
        let [certificate, key] = &self.client;
        let shown =
            |fleet: FleetBuilder| fleet.client_certificate(certificate.as_str(), key.as_str());
        assert!(is_admitted(shown(
            fleet().certificate_authorities(authority)
        )));
        let unknown = fleet().certificate_authorities(authority);
        assert!(!is_admitted(unknown), "no certificate was shown");
        let other = Self::new().authority;
        let untrusted = fleet().certificate_authorities(other);
        assert!(
            !is_admitted(shown(untrusted)),
            "another authority is trusted"
        );
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
    let files = Files::new("one", &certificates);
    let port = free_port();
    let _engine = Engine::start_with(&words(&files.settings("--", port)));
    let url = url(port);
    certificates.are_asked_for(|| Fleet::redis(&url).unwrap());
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn sentinels_and_their_primary_with_tls_are_trusted_in_the_same_way() {
    let certificates = Certificates::new();
    let files = Files::new("sentinels", &certificates);
    let port = free_port();
    let _primary = Engine::start_with(&words(&files.settings("--", port)));
    let sentinels = [free_port(), free_port()];
    let engines = sentinels.map(|of| {
        let settings = files.settings("", of).join("\n");
        let monitor = format!("sentinel monitor {NAME} 127.0.0.1 {port} 2\ntls-replication yes\n");
        Engine::start_sentinel(&Place::here(), &(settings + "\n" + &monitor))
    });
    let urls = sentinels.map(url);
    certificates.are_asked_for(|| Fleet::sentinel(&urls, &format!("rediss://{NAME}")).unwrap());
    drop(engines);
}

#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn the_servers_of_a_cluster_with_tls_are_trusted_in_the_same_way() {
    let certificates = Certificates::new();
    let files = Files::new("cluster", &certificates);
    let (port, bus) = (free_port(), free_port().to_string());
    let cluster = ["--cluster-enabled", "yes", "--cluster-port", &bus];
    let cluster = [&cluster[..], &["--tls-cluster", "yes"]].concat();
    let tls = files.settings("--", port);
    let engine = Engine::start_with(&[cluster, words(&tls)].concat());
    engine
        .command::<()>("CLUSTER ADDSLOTSRANGE 0 16383")
        .unwrap();
    until("the cluster is not complete", || {
        let info: String = engine.command("CLUSTER INFO").unwrap();
        info.contains("cluster_state:ok")
    });
    certificates.are_asked_for(|| Fleet::cluster([url(port)]).unwrap());
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
