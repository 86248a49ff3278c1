//! Servers with configurable behavior, and certificates of every kind.

use std::cell::Cell;
use std::convert::Infallible;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
    date_time_ymd,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

/// A listener whose connections are served by tasks of the test's own runtime.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) connections: Rc<Cell<usize>>,
    /// Number of open connections.
    pub(super) open: Rc<Cell<usize>>,
}

impl Server {
    /// Serves each TCP connection.
    pub(super) async fn tcp<F: Future>(serve: impl Fn(TcpStream) -> F + 'static) -> Server {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let server = Server {
            address: listener.local_addr().unwrap(),
            connections: Rc::default(),
            open: Rc::default(),
        };
        let (connections, open) = (server.connections.clone(), server.open.clone());
        let serve = Rc::new(serve);
        spawn_local(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.set(connections.get() + 1);
                open.set(open.get() + 1);
                let (serve, open) = (serve.clone(), open.clone());
                spawn_local(async move {
                    serve(stream).await;
                    open.set(open.get() - 1);
                });
            }
        });
        server
    }

    /// Serves each connection, over TLS if there is a configuration for it.
    pub(super) async fn start<F: Future>(
        tls: Option<ServerConfig>,
        serve: impl Fn(Box<dyn Stream>) -> F + 'static,
    ) -> Server {
        let tls = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
        let serve = Rc::new(serve);
        Server::tcp(move |stream| {
            let (tls, serve) = (tls.clone(), serve.clone());
            async move {
                let stream: Box<dyn Stream> = match tls {
                    None => Box::new(stream),
                    Some(tls) => match tls.accept(stream).await {
                        Ok(stream) => Box::new(stream),
                        // The client rejected the handshake; that is what the test is about.
                        Err(_) => return,
                    },
                };
                serve(stream).await;
            }
        })
        .await
    }

    pub(super) fn url(&self, scheme: &str) -> String {
        format!("{scheme}://localhost:{}/", self.address.port())
    }
}

/// Responds to every HTTP/1.1 request with 200 and two bytes more than it received.
pub(super) async fn http1(stream: Box<dyn Stream>) {
    async fn echo(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let body = request.into_body().collect().await;
        let mut body = body
            .map(|body| body.to_bytes().to_vec())
            .unwrap_or_default();
        body.extend(b"ok");
        let mut response = Response::new(Full::new(body.into()));
        *response.status_mut() = StatusCode::OK;
        Ok(response)
    }
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service_fn(echo))
        .await;
}

/// Reads until the client closes. A server that closed first would discard its own response.
pub(super) async fn wait_for_the_end(mut stream: TcpStream) {
    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
}

/// An authority, and the certificates that it issues.
pub(super) struct Issuer(CertifiedIssuer<'static, KeyPair>);

/// Contents of a server's certificate.
pub(super) struct Wanted {
    pub(super) name: &'static str,
    /// First and last year.
    pub(super) years: (i32, i32),
    pub(super) is_authority: bool,
    /// Whether it has alternative names, or only a common name.
    pub(super) has_names: bool,
}

pub(super) const GOOD: Wanted = Wanted {
    name: "localhost",
    years: (2020, 2120),
    is_authority: false,
    has_names: true,
};

impl Issuer {
    pub(super) fn new(name: &str) -> Issuer {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        Issuer(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    /// Returns the settings of a server with such a certificate, offering these protocols.
    pub(super) fn server(&self, wanted: &Wanted, protocols: &[&str]) -> ServerConfig {
        self.build(wanted, protocols, false)
    }

    /// The same for a server that requires a client certificate.
    pub(super) fn strict_server(&self, protocols: &[&str]) -> ServerConfig {
        self.build(&GOOD, protocols, true)
    }

    /// Returns the settings of a server, and its certificate, which this authority issued or nobody else did.
    pub(super) fn pinned(&self, wanted: &Wanted, is_own: bool) -> (ServerConfig, Scratch) {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        if wanted.has_names {
            params = CertificateParams::new(vec![wanted.name.to_owned()]).unwrap();
        }
        params.not_before = date_time_ymd(wanted.years.0, 1, 1);
        params.not_after = date_time_ymd(wanted.years.1, 1, 1);
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::OrganizationName, "flowgate");
        params
            .distinguished_name
            .push(DnType::CommonName, wanted.name);
        if wanted.is_authority {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = match is_own {
            true => params.self_signed(&key).unwrap(),
            false => params.signed_by(&key, &self.0).unwrap(),
        };
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        (config, Scratch::holding(&certificate.pem()))
    }

    fn build(&self, wanted: &Wanted, protocols: &[&str], is_strict: bool) -> ServerConfig {
        let mut params = CertificateParams::new(vec![wanted.name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(wanted.years.0, 1, 1);
        params.not_after = date_time_ymd(wanted.years.1, 1, 1);
        if wanted.is_authority {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let chain: Vec<CertificateDer> = vec![certificate.der().clone()];

        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = if is_strict {
            let mut roots = RootCertStore::empty();
            roots.add(self.0.der().clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let mut config = builder.with_single_cert(chain, key).unwrap();
        config.alpn_protocols = protocols.iter().map(|&p| p.into()).collect();
        config
    }

    /// Returns a client certificate and its key, in one file.
    pub(super) fn client(&self) -> Scratch {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["client".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Scratch::holding(&format!("{}{}", certificate.pem(), key.serialize_pem()))
    }

    pub(super) fn pem(&self) -> Scratch {
        Scratch::holding(&self.0.pem())
    }
}

/// A file that is deleted when the value is dropped.
pub(super) struct Scratch(pub(super) PathBuf);

impl Scratch {
    pub(super) fn holding(text: &str) -> Scratch {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("flowgate-test-{}-{count}.pem", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, text).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
