//! The connection of a process to a decision server: one stream.

use super::LEASE_METHOD;
use super::wire::{LeaseAnswers, LeaseRequest, LeaseRequests};
use crate::FleetError;
use crate::call::Request;
use crate::redis::{Answer, Tls, Unanswered, error};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use h2::{RecvStream, SendStream};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, TE};
use http::{StatusCode, Uri};
use percent_encoding::percent_decode_str;
use prost::Message;
use redis::{ErrorKind, RedisResult};
use std::collections::HashMap;
use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;

/// Requests of more bytes than this are divided among messages. The server reads twice as much: the largest request is smaller than that.
const MESSAGE: usize = 128 << 10;
/// An answer of more bytes than this ends the connection.
const LARGEST_ANSWER: usize = 1 << 20;
/// What comes before each message of gRPC: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// A decision server, and how to be let in.
#[derive(Clone)]
pub(crate) struct Server {
    uri: Uri,
    host: String,
    port: u16,
    is_tls: bool,
    token: Option<HeaderValue>,
    #[cfg(feature = "tls")]
    tls: Option<tls::Encrypted>,
}

impl Server {
    /// Reads `http://[:TOKEN@]HOST[:PORT]`, or the same with `https`.
    pub(crate) fn parse(url: &str) -> Result<Self, FleetError> {
        let wrong = |why: &str| FleetError::Server(format!("{why}: `{}`", without_token(url)));
        let uri: Uri = url.parse().map_err(|_| wrong("it is no address"))?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong("it begins with neither http:// nor https://")),
        };
        if is_tls && !cfg!(feature = "tls") {
            return Err(FleetError::NoTls);
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(wrong("nothing follows the port"));
        }
        let authority = uri.authority().ok_or_else(|| wrong("it has no host"))?;
        let host = authority.host().to_owned();
        let (user, address) = match authority.as_str().rsplit_once('@') {
            None => (None, authority.as_str()),
            Some((user, address)) => (Some(user), address),
        };
        let port = match address.strip_prefix(&host).unwrap_or_default() {
            "" => DEFAULT_PORT,
            port => match port.trim_start_matches(':').parse() {
                Ok(port @ 1..) => port,
                _ => return Err(wrong("a port is a number from 1 to 65535")),
            },
        };
        let token = match user {
            None => None,
            Some(user) => {
                let token = user.strip_prefix(':').filter(|token| !token.is_empty());
                let token = token.ok_or_else(|| wrong("a token is written :TOKEN@HOST"))?;
                let token = percent_decode_str(token).decode_utf8_lossy();
                let value = HeaderValue::from_str(&format!("Bearer {token}"));
                let mut value = value.map_err(|_| wrong("the token cannot be a header"))?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        let scheme = if is_tls { "https" } else { "http" };
        let uri = format!("{scheme}://{host}:{port}{LEASE_METHOD}").parse();
        Ok(Self {
            uri: uri.map_err(|_| wrong("it is no address"))?,
            // An address of IPv6 has brackets in a URL.
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            is_tls,
            token,
            #[cfg(feature = "tls")]
            tls: None,
        })
    }

    /// Returns an error if the certificates cannot be used.
    #[cfg_attr(not(feature = "tls"), expect(unused_mut))]
    pub(crate) fn with_tls(mut self, tls: &Tls) -> RedisResult<Self> {
        #[cfg(feature = "tls")]
        if self.is_tls {
            self.tls = Some(tls::Encrypted::new(tls, &self.host)?);
        } else if tls.is_given() {
            return Err(error(
                "the address is one without TLS; write https://HOST:PORT",
            ));
        }
        let _ = tls;
        Ok(self)
    }

    /// Connects, and opens a stream that the server answers.
    pub(crate) async fn connect(&self) -> RedisResult<Connection> {
        let stream = TcpStream::connect((&*self.host, self.port)).await?;
        // Messages are small, and wait for nothing.
        stream.set_nodelay(true)?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return self.open(tls.connect(stream).await?).await;
        }
        self.open(stream).await
    }

    async fn open(
        &self,
        io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> RedisResult<Connection> {
        let (requests, driver) = h2::client::handshake(io).await.map_err(broken)?;
        let driver = Task::spawn(async move { drop(driver.await) });
        let (stream, answers) = self.begin(requests).await?;
        let waiting = Arc::new(Waiting::default());
        let reader = Task::spawn(read(answers, Arc::clone(&waiting)));
        let connection = Connection(Arc::new(Shared {
            stream: Mutex::new(stream),
            waiting,
            next: AtomicU64::new(0),
            _tasks: [driver, reader],
        }));
        connection.ping().await?;
        Ok(connection)
    }

    /// Opens the stream of messages.
    async fn begin(
        &self,
        requests: SendRequest<Bytes>,
    ) -> RedisResult<(SendStream<Bytes>, RecvStream)> {
        let mut request = http::Request::post(self.uri.clone())
            .header(CONTENT_TYPE, "application/grpc")
            .header(TE, "trailers");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token);
        }
        let request = request.body(()).map_err(|_| error("no request"))?;
        let mut requests = requests.ready().await.map_err(broken)?;
        let (response, stream) = requests.send_request(request, false).map_err(broken)?;
        let response = response.await.map_err(broken)?;
        if response.status() != StatusCode::OK {
            let status = response.status();
            return Err(lasting(format!(
                "it answers {status}: give the address of the gRPC door of `flowgate decide`"
            )));
        }
        match status(response.headers()) {
            None => Ok((stream, response.into_body())),
            // It lends nothing, or asks for a token.
            Some((9 | 12 | 16, why)) => Err(lasting(why)),
            Some((_, why)) => Err(error(why)),
        }
    }
}

/// The gRPC door of `flowgate decide`, if it has no other port.
const DEFAULT_PORT: u16 = 8081;

/// Returns an address without what lets in.
fn without_token(url: &str) -> String {
    let Some((before, host)) = url.rsplit_once('@') else {
        return url.to_owned();
    };
    match before.split_once("://") {
        Some((scheme, _)) => format!("{scheme}://…@{host}"),
        None => format!("…@{host}"),
    }
}

/// Without the token.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        let brackets = if self.host.contains(':') {
            ["[", "]"]
        } else {
            ["", ""]
        };
        let [open, close] = brackets;
        write!(f, "{scheme}://{open}{}{close}:{}", self.host, self.port)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.to_string()).finish()
    }
}

/// Returns the code of an error of gRPC, what it means, and what to do about it. `None`: there is none.
fn status(headers: &HeaderMap) -> Option<(u32, String)> {
    let code = headers.get("grpc-status")?.to_str().unwrap_or_default();
    let message = headers.get("grpc-message").map(HeaderValue::as_bytes);
    let message = percent_encoding::percent_decode(message.unwrap_or_default()).decode_utf8_lossy();
    let code = code.parse().unwrap_or(u32::MAX);
    let why = match code {
        0 => "it has ended the stream".to_owned(),
        12 => {
            "it lends nothing: update it, or give the address of the gRPC door of `flowgate decide`"
                .to_owned()
        }
        16 => "it asks for a token: write http://:TOKEN@HOST:PORT, or https://".to_owned(),
        _ => format!("{message} (gRPC status {code})"),
    };
    Some((code, why))
}

/// An error that does not end by itself.
fn lasting(why: String) -> redis::RedisError {
    (ErrorKind::InvalidClientConfig, "it refuses", why).into()
}

fn broken(cause: h2::Error) -> redis::RedisError {
    error(cause.to_string())
}

/// One stream. It does not reconnect.
#[derive(Clone)]
pub(crate) struct Connection(Arc<Shared>);

struct Shared {
    stream: Mutex<SendStream<Bytes>>,
    waiting: Arc<Waiting>,
    next: AtomicU64,
    /// They end with the connection.
    _tasks: [Task; 2],
}

/// A task that ends when this is dropped.
struct Task(AbortHandle);

impl Task {
    fn spawn(task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(task).abort_handle())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Messages that are not answered yet.
#[derive(Default)]
struct Waiting {
    state: Mutex<State>,
    /// The stream has ended.
    ended: Notify,
}

enum State {
    Open(HashMap<u64, oneshot::Sender<LeaseAnswers>>),
    Ended(String),
}

impl Default for State {
    fn default() -> Self {
        Self::Open(HashMap::new())
    }
}

impl Waiting {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// # Errors
    ///
    /// The stream has ended.
    fn add(&self, number: u64) -> RedisResult<oneshot::Receiver<LeaseAnswers>> {
        match &mut *self.state() {
            State::Open(waiting) => {
                let (tell, told) = oneshot::channel();
                waiting.insert(number, tell);
                Ok(told)
            }
            State::Ended(why) => Err(error(why.clone())),
        }
    }

    fn answer(&self, answers: LeaseAnswers) {
        if let State::Open(waiting) = &mut *self.state()
            && let Some(told) = waiting.remove(&answers.number)
        {
            let _ = told.send(answers);
        }
    }

    fn end(&self, why: String) {
        // Those that wait are told after the reason is there.
        drop(mem::replace(&mut *self.state(), State::Ended(why)));
        self.ended.notify_one();
    }

    fn why(&self) -> String {
        match &*self.state() {
            State::Ended(why) => why.clone(),
            State::Open(_) => "the answer is lost".to_owned(),
        }
    }
}

impl Connection {
    /// Waits until the stream has ended.
    pub(crate) async fn ended(&self) {
        self.0.waiting.ended.notified().await;
    }

    /// # Errors
    ///
    /// The server is not of use: it does not answer, or does not reach its own authority.
    pub(crate) async fn ping(&self) -> RedisResult<()> {
        let answers = self.send(Vec::new())?.answers().await?;
        match answers.is_cut_off {
            true => Err(error("its own store does not answer")),
            false => Ok(()),
        }
    }

    /// Sends all requests, and returns what became of each.
    ///
    /// # Errors
    ///
    /// The stream has ended.
    pub(crate) async fn call(&self, requests: &[Request]) -> RedisResult<Vec<Answer>> {
        let mut sent = Vec::new();
        let (mut message, mut length) = (Vec::new(), 0);
        for request in requests {
            let request = LeaseRequest::of(request);
            let more = request.encoded_len() + PREFIX;
            if length + more > MESSAGE && !message.is_empty() {
                sent.push(self.send(mem::take(&mut message))?);
                length = 0;
            }
            message.push(request);
            length += more;
        }
        sent.push(self.send(message)?);
        let mut answers = Vec::with_capacity(requests.len());
        for sent in sent {
            answers.extend(sent.answers().await?.answers);
        }
        if answers.len() != requests.len() {
            return Err(error("its answer is too short"));
        }
        let answers = answers.into_iter().zip(requests);
        let read = |(answer, request): (super::wire::LeaseAnswer, &Request)| {
            answer.read(request).map_err(Unanswered::Failed)
        };
        Ok(answers.map(read).collect())
    }

    fn send(&self, requests: Vec<LeaseRequest>) -> RedisResult<Sent<'_>> {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let message = LeaseRequests { number, requests };
        let length = message.encoded_len();
        let mut frame = BytesMut::with_capacity(PREFIX + length);
        frame.put_u8(0);
        frame.put_u32(length as u32);
        message
            .encode(&mut frame)
            .map_err(|cause| error(cause.to_string()))?;
        let waiting = &self.0.waiting;
        let told = waiting.add(number)?;
        let mut stream = self.0.stream.lock().unwrap_or_else(PoisonError::into_inner);
        stream.send_data(frame.freeze(), false).map_err(broken)?;
        Ok(Sent { told, waiting })
    }
}

/// A message that was sent.
struct Sent<'a> {
    told: oneshot::Receiver<LeaseAnswers>,
    waiting: &'a Waiting,
}

impl Sent<'_> {
    async fn answers(self) -> RedisResult<LeaseAnswers> {
        let answers = self.told.await;
        answers.map_err(|_| error(self.waiting.why()))
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

/// Passes on what the server answers, until the stream ends.
async fn read(mut stream: RecvStream, waiting: Arc<Waiting>) {
    let why = match read_all(&mut stream, &waiting).await {
        Err(why) => why,
        Ok(()) => match stream.trailers().await {
            Ok(Some(trailers)) => status(&trailers).map(|(_, why)| why),
            _ => None,
        }
        .unwrap_or_else(|| "it has ended the stream".to_owned()),
    };
    waiting.end(why);
}

async fn read_all(stream: &mut RecvStream, waiting: &Waiting) -> Result<(), String> {
    let mut buffer = BytesMut::new();
    while let Some(data) = stream.data().await {
        let data = data.map_err(|cause| cause.to_string())?;
        let _ = stream.flow_control().release_capacity(data.len());
        buffer.extend_from_slice(&data);
        while let Some(message) = message(&mut buffer)? {
            let answers = LeaseAnswers::decode(message);
            waiting.answer(answers.map_err(|cause| cause.to_string())?);
        }
    }
    Ok(())
}

/// Returns the next message, if all of it is there.
fn message(buffer: &mut BytesMut) -> Result<Option<Bytes>, String> {
    let Some(&[compressed, a, b, c, d]) = buffer.first_chunk::<PREFIX>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    if compressed != 0 || length > LARGEST_ANSWER {
        return Err("its answer cannot be read".to_owned());
    }
    if buffer.len() < PREFIX + length {
        return Ok(None);
    }
    buffer.advance(PREFIX);
    Ok(Some(buffer.split_to(length).freeze()))
}

#[cfg(feature = "tls")]
mod tls {
    use crate::redis::{Tls, error};
    use redis::RedisResult;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
    use rustls::{ClientConfig, RootCertStore, crypto::ring, version};
    use std::sync::Arc;
    use tokio::net::TcpStream;
    use tokio_rustls::{TlsConnector, client::TlsStream};

    /// How to encrypt, and whom to trust.
    #[derive(Clone)]
    pub(super) struct Encrypted {
        connector: TlsConnector,
        name: ServerName<'static>,
    }

    impl Encrypted {
        pub(super) fn new(tls: &Tls, host: &str) -> RedisResult<Self> {
            let wrong = |cause: rustls::Error| error(cause.to_string());
            let mut roots = RootCertStore::empty();
            match &tls.authorities {
                Some(pem) => {
                    for certificate in certificates(pem)? {
                        roots.add(certificate).map_err(wrong)?;
                    }
                }
                None => {
                    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                    if roots.is_empty() {
                        return Err(error("the system has no certificate authorities"));
                    }
                }
            }
            let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_protocol_versions(&[&version::TLS13, &version::TLS12])
                .map_err(wrong)?
                .with_root_certificates(roots);
            let mut config = match &tls.client {
                None => builder.with_no_client_auth(),
                Some(client) => {
                    let key = PrivateKeyDer::from_pem_slice(&client.client_key);
                    let key =
                        key.map_err(|_| error("the key is not a private key in PEM format"))?;
                    let chain = certificates(&client.client_cert)?;
                    builder.with_client_auth_cert(chain, key).map_err(wrong)?
                }
            };
            config.alpn_protocols = vec![b"h2".to_vec()];
            let name = ServerName::try_from(host.to_owned());
            Ok(Self {
                connector: TlsConnector::from(Arc::new(config)),
                name: name.map_err(|_| error("the host is no name for a certificate"))?,
            })
        }

        pub(super) async fn connect(&self, stream: TcpStream) -> RedisResult<TlsStream<TcpStream>> {
            Ok(self.connector.connect(self.name.clone(), stream).await?)
        }
    }

    fn certificates(pem: &[u8]) -> RedisResult<Vec<CertificateDer<'static>>> {
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        match read {
            Ok(read) if !read.is_empty() => Ok(read),
            _ => Err(error("there is no certificate in PEM format")),
        }
    }
}
