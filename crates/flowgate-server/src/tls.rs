//! Encryption, and who clients are.

use crate::config::Problem;
use crate::server::Door;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::{Error, RootCertStore, ServerConfig, version};

/// The certificate of a server, its private key, and the authority of its clients' certificates.
///
/// TLS 1.2 and 1.3 are spoken. At [`Door::Admin`], clients need no certificate.
#[derive(Clone)]
pub struct ServerTls {
    http: Arc<ServerConfig>,
    resp: Arc<ServerConfig>,
    admin: Arc<ServerConfig>,
    grpc: Arc<ServerConfig>,
}

impl ServerTls {
    /// Reads PEM files: the certificate with its chain, and its private key.
    ///
    /// With `client_authorities`, a client needs a certificate that one of these authorities has signed.
    ///
    /// # Errors
    ///
    /// Returns a [`Problem`] if a file cannot be read, has no such content, or the key is not the certificate's.
    pub fn read(
        certificate: &Path,
        key: &Path,
        client_authorities: Option<&Path>,
    ) -> Result<Self, Problem> {
        let provider = Arc::new(ring::default_provider());
        let chain = certificates(certificate)?;
        let private = PrivateKeyDer::from_pem_slice(&bytes(key)?);
        let private = private.map_err(|error| problem(key, unreadable(&error, "private key")))?;
        let clients = client_authorities.map(|file| verifier(file, &provider));
        let clients = clients.transpose()?;
        let config = |clients: Option<&Arc<dyn ClientCertVerifier>>, protocols: &[&str]| {
            let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
            let builder = builder.with_protocol_versions(&[&version::TLS13, &version::TLS12])?;
            let builder = match clients {
                Some(clients) => builder.with_client_cert_verifier(Arc::clone(clients)),
                None => builder.with_no_client_auth(),
            };
            let mut config = builder.with_single_cert(chain.clone(), private.clone_key())?;
            let protocols = protocols.iter().map(|name| name.as_bytes().to_vec());
            config.alpn_protocols = protocols.collect();
            Ok::<_, Error>(Arc::new(config))
        };
        let configs = || {
            Ok(Self {
                http: config(clients.as_ref(), &["h2", "http/1.1"])?,
                resp: config(clients.as_ref(), &[])?,
                admin: config(None, &["h2", "http/1.1"])?,
                grpc: config(clients.as_ref(), &["h2"])?,
            })
        };
        configs().map_err(|error: Error| {
            problem(
                certificate,
                match error {
                    Error::InconsistentKeys(_) => format!(
                        "not the certificate of the key {}: write the two files that belong together",
                        key.display()
                    ),
                    error => format!("cannot be used with its key: {error}"),
                },
            )
        })
    }

    /// Returns the settings of a door.
    pub(crate) fn of(&self, door: Door) -> Arc<ServerConfig> {
        Arc::clone(match door {
            Door::Http => &self.http,
            Door::Resp => &self.resp,
            Door::Admin => &self.admin,
            Door::Grpc => &self.grpc,
        })
    }
}

/// It shows nothing of the key.
impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerTls").finish_non_exhaustive()
    }
}

fn verifier(
    file: &Path,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Problem> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        let added = roots.add(certificate);
        added.map_err(|error| problem(file, format!("not an authority: {error}")))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let built = builder.build();
    let built = built.map_err(|error| problem(file, error.to_string()))?;
    Ok(built)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Problem> {
    let bytes = bytes(file)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match read {
        Ok(read) if !read.is_empty() => Ok(read),
        Ok(_) => Err(problem(
            file,
            unreadable(&pem::Error::NoItemsFound, "certificate"),
        )),
        Err(error) => Err(problem(file, unreadable(&error, "certificate"))),
    }
}

fn bytes(file: &Path) -> Result<Vec<u8>, Problem> {
    fs::read(file).map_err(|error| {
        let what = format!("cannot read it: {error}; write a PEM file that this user can read");
        problem(file, what)
    })
}

fn unreadable(error: &pem::Error, what: &str) -> String {
    match error {
        pem::Error::NoItemsFound => format!("no {what}: a PEM file has BEGIN and END lines"),
        error => format!("not a PEM file: {error}"),
    }
}

fn problem(file: &Path, what: String) -> Problem {
    Problem::new(&file.display().to_string(), None, what)
}
