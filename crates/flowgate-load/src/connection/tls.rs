//! Trusted certificates and offered protocols of encrypted connections.

use std::error::Error;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls;
use tokio_rustls::rustls::client::{Resumption, WebPkiServerVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::anchored::Anchored;
use super::connector::HttpVersion;
use super::insecure::AnyCertificate;

/// Certificates that a connection accepts.
///
/// # Examples
///
/// ```
/// use flowgate_load::{ConnectOptions, Trust};
///
/// let mut connect = ConnectOptions::default();
/// assert_eq!(connect.trust, Trust::System);
/// connect.trust = Trust::File("our-authority.pem".into()); // for a server within a company
/// connect.trust = Trust::Anyone; // for one whose certificate is of its own making
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Certificates that the operating system trusts, including a company's own authority, as with `curl`.
    #[default]
    System,
    /// Certificates in a PEM file and those that they issued, and no others, as with `curl --cacert`.
    File(PathBuf),
    /// Any certificate, for any host, expired or not. The traffic is encrypted, but the server is not authenticated.
    Anyone,
}

/// A client certificate with its key, as PEM files.
///
/// # Examples
///
/// ```
/// use flowgate_load::{ConnectOptions, ClientIdentity};
///
/// let identity = ClientIdentity { certificates: "client.pem".into(), key: "client.key".into() };
/// let connect = ConnectOptions { identity: Some(identity), ..ConnectOptions::default() };
/// assert!(connect.identity.is_some());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The certificate, and those of its issuers if the server does not have them.
    pub certificates: PathBuf,
    /// Its private key. It can be in the same file.
    pub key: PathBuf,
}

/// Error that prevents any TLS connection.
///
/// # Examples
///
/// ```
/// use flowgate::Quota;
/// use flowgate_load::{Plan, RunError, Schedule, Stop, Target, Trust};
///
/// let schedule = Schedule::of(Quota::per_second(100), 1000)?;
/// let mut plan = Plan::new(Target::parse("https://localhost/")?, schedule);
/// plan.connect.trust = Trust::File("no-such-file.pem".into());
/// match flowgate_load::run(plan, &Stop::new()) {
///     Err(RunError::Tls(error)) => {
///         assert!(error.to_string().starts_with("cannot read \"no-such-file.pem\""));
///     }
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TlsError(Reason);

#[derive(Debug)]
enum Reason {
    Unreadable(PathBuf, io::Error),
    NoCertificate(PathBuf),
    NoKey(PathBuf),
    BadIdentity(PathBuf, String),
    BadCertificate(PathBuf, String),
    NoSystemRoots(Vec<rustls_native_certs::Error>),
    BadName(String),
    Unsupported(rustls::Error),
}

/// Parses the name that a server's certificate must contain: a host name or an address.
pub(super) fn server_name(host: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(host.to_owned()).map_err(|_| TlsError(Reason::BadName(host.to_owned())))
}

/// Returns the settings for all connections of a run.
pub(super) fn configure(
    trust: &Trust,
    identity: Option<&ClientIdentity>,
    version: HttpVersion,
) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let any_certificate = AnyCertificate::new(&provider);
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError(Reason::Unsupported(error)))?;
    let builder = match trust {
        Trust::System => builder.with_root_certificates(system_roots()?),
        Trust::File(path) => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(anchored(path, provider)?)),
        Trust::Anyone => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(any_certificate)),
    };
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let (certificates, key) = load(identity)?;
            let config = builder.with_client_auth_cert(certificates, key);
            config.map_err(|error| {
                TlsError(Reason::BadIdentity(
                    identity.certificates.clone(),
                    error.to_string(),
                ))
            })?
        }
    };
    config.alpn_protocols = version.protocols().iter().map(|&p| p.to_vec()).collect();
    // Every connection represents a new user without a session to resume; and threads would share the session store.
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// Reads a client certificate and its key.
fn load(
    identity: &ClientIdentity,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let path = &identity.certificates;
    let read =
        |path: &Path| fs::read(path).map_err(|error| unreadable(path, pem::Error::Io(error)));
    let text = read(path)?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<_, _>>()
        .map_err(|error| unreadable(path, error))?;
    if certificates.is_empty() {
        return Err(TlsError(Reason::NoCertificate(path.clone())));
    }
    let text = match identity.key == *path {
        true => text,
        false => read(&identity.key)?,
    };
    let key = PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError(Reason::NoKey(identity.key.clone())),
        error => unreadable(&identity.key, error),
    })?;
    Ok((certificates, key))
}

fn unreadable(path: &Path, error: pem::Error) -> TlsError {
    let path = path.to_owned();
    TlsError(match error {
        pem::Error::Io(error) => Reason::Unreadable(path, error),
        error => Reason::BadCertificate(path, error.to_string()),
    })
}

fn system_roots() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Systems contain unreadable old certificates that are never needed.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(TlsError(Reason::NoSystemRoots(found.errors)));
    }
    Ok(roots)
}

fn anchored(path: &Path, provider: Arc<CryptoProvider>) -> Result<Anchored, TlsError> {
    let refuse = |error| unreadable(path, error);
    let unusable = |what: String| TlsError(Reason::BadCertificate(path.to_owned(), what));
    let mut roots = RootCertStore::empty();
    let mut certificates = Vec::new();
    for certificate in CertificateDer::pem_file_iter(path).map_err(refuse)? {
        let certificate = certificate.map_err(refuse)?;
        roots
            .add(certificate.clone())
            .map_err(|error| unusable(error.to_string()))?;
        certificates.push(certificate);
    }
    if roots.is_empty() {
        return Err(TlsError(Reason::NoCertificate(path.to_owned())));
    }
    let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| unusable(error.to_string()))?;
    Ok(Anchored {
        chains,
        certificates,
    })
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Reason::Unreadable(path, error) => write!(f, "cannot read {path:?}: {error}"),
            Reason::NoCertificate(path) => write!(
                f,
                "{path:?} holds no certificate: give a PEM file that has -----BEGIN CERTIFICATE-----"
            ),
            Reason::NoKey(path) => write!(
                f,
                "{path:?} holds no private key: give a PEM file that has -----BEGIN PRIVATE KEY-----"
            ),
            Reason::BadIdentity(path, what) => write!(
                f,
                "the certificate in {path:?} cannot be used with its key: {what}"
            ),
            Reason::BadCertificate(path, what) => {
                write!(
                    f,
                    "{path:?} holds a certificate that cannot be used: {what}"
                )
            }
            Reason::NoSystemRoots(errors) => {
                f.write_str("this system names no authority to trust")?;
                for error in errors.iter().take(1) {
                    write!(f, " ({error})")?;
                }
                f.write_str(": name one with --cacert FILE, or accept any with --insecure")
            }
            Reason::BadName(name) => {
                write!(
                    f,
                    "{name:?} is not a host name that a certificate could hold"
                )
            }
            Reason::Unsupported(error) => write!(f, "TLS cannot be used here: {error}"),
        }
    }
}

impl Error for TlsError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.0 {
            Reason::Unreadable(_, error) => Some(error),
            Reason::Unsupported(error) => Some(error),
            _ => None,
        }
    }
}
