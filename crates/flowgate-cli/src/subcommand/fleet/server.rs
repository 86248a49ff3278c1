//! A limit of a decision server, by its door for operators.

use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::{Limit, Sight, TIMEOUT, json, number};
use crate::argument::url::{is_http, without_credentials};
use crate::exit::Refusal;
use crate::figure::{span, time};

/// The door of operators, if the address has no other port.
const DEFAULT_PORT: u16 = 6070;
/// Bytes of an answer, at most.
const LARGEST: usize = 64 << 10;
/// The type of an answer that has what is wrong, and what to write.
const PROBLEM: &str = "application/problem+json";

/// A decision server. `Display` writes its address, without the token.
pub(super) struct Server {
    host: String,
    port: u16,
    is_tls: bool,
    token: Option<HeaderValue>,
}

/// What a server reports of a limit.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Reported {
    limit: String,
    name: Option<String>,
    quota: String,
    is_shadow: bool,
    kept: String,
    is_connected: Option<bool>,
    keys: Option<u64>,
    capacity: Option<u64>,
    decisions: Decisions,
    beyond: Beyond,
    assigned: Option<Assigned>,
    of_key: Option<OfKey>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Decisions {
    admitted: u64,
    refused: u64,
    refused_in_shadow: u64,
    not_taken: u64,
    undecided: u64,
}

#[derive(Debug, Deserialize, Serialize)]
struct Beyond {
    /// `None`: without a bound.
    total: Option<u64>,
    in_flight: u64,
    leased: u64,
    forgotten: u64,
    reset: u64,
    alone: u64,
    others_alone: Option<u64>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Assigned {
    keys: u64,
    buckets: u64,
    tokens: u64,
    per_second: f64,
}

#[derive(Debug, Deserialize, Serialize)]
struct OfKey {
    available: u64,
    burst: u64,
    full_in_s: f64,
}

/// An answer to a reset.
#[derive(Deserialize)]
struct Reset {
    was_full: bool,
}

#[derive(Deserialize)]
struct Problem {
    detail: String,
}

impl Server {
    /// Reads `http://[:TOKEN@]HOST[:PORT]`, or the same with `https`. `None`: it is the address of a store.
    pub(super) fn parse(url: &str) -> Result<Option<Server>, Refusal> {
        if !is_http(url) {
            return Ok(None);
        }
        let wrong = || {
            Refusal::usage(format!(
                "`{}` is not the address of a server: write http://HOST:PORT, or http://:TOKEN@HOST:PORT",
                without_credentials(url)
            ))
        };
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let (Some(authority), "" | "/", None) = (uri.authority(), uri.path(), uri.query()) else {
            return Err(wrong());
        };
        let address = authority.as_str();
        let address = address
            .rsplit_once('@')
            .map_or(address, |(_, address)| address);
        let port = match (authority.port_u16(), address.strip_prefix(authority.host())) {
            (Some(port @ 1..), _) => port,
            (None, Some("")) => DEFAULT_PORT,
            _ => return Err(wrong()),
        };
        let token = match authority.as_str().rsplit_once('@') {
            None => None,
            Some((user, _)) => {
                let token = user.strip_prefix(':').filter(|token| !token.is_empty());
                let token = percent_decode_str(token.ok_or_else(wrong)?).decode_utf8_lossy();
                let token = HeaderValue::from_str(&format!("Bearer {token}"));
                Some(token.map_err(|_| wrong())?)
            }
        };
        Ok(Some(Server {
            host: authority.host().to_owned(),
            port,
            is_tls: uri.scheme_str() == Some("https"),
            token,
        }))
    }

    /// Asks for a limit.
    pub(super) async fn look(&self, limit: &Limit) -> Result<Reported, Refusal> {
        let answer = self.ask(Method::GET, limit).await?;
        serde_json::from_slice(&answer).map_err(|_| self.foreign(&"its answer is not a limit"))
    }

    /// Sets the limit back to full. Returns whether it was.
    pub(super) async fn reset(&self, limit: &Limit) -> Result<bool, Refusal> {
        let answer = self.ask(Method::DELETE, limit).await?;
        let answer = serde_json::from_slice(&answer);
        let Reset { was_full } =
            answer.map_err(|_| self.foreign(&"its answer is not that to a reset"))?;
        Ok(was_full)
    }

    async fn ask(&self, method: Method, limit: &Limit) -> Result<Bytes, Refusal> {
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let mut path = format!("/limits?limit={}", encoded(&limit.name));
        if let Some(key) = &limit.key {
            path += &format!("&key={}", encoded(key));
        }
        let mut request = Request::builder().method(method).uri(path);
        request = request.header(HOST, format!("{}:{}", self.host, self.port));
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token);
        }
        let request = request.body(Empty::new()).expect("a path and fields");
        match timeout(TIMEOUT, self.exchange(request)).await {
            Ok(answer) => answer,
            Err(_) => Err(self.unreachable(&"it does not answer in time")),
        }
    }

    async fn exchange(&self, request: Request<Empty<Bytes>>) -> Result<Bytes, Refusal> {
        // An address of IPv6 has brackets in a URL.
        let host = self.host.trim_matches(['[', ']']);
        let stream = TcpStream::connect((host, self.port)).await;
        let stream = stream.map_err(|error| self.unreachable(&error))?;
        if !self.is_tls {
            return self.exchange_over(stream, request).await;
        }
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|error| self.unreachable(&error))?;
        let stream = trusting_the_system().connect(name, stream).await;
        let stream = stream.map_err(|error| self.unreachable(&error))?;
        self.exchange_over(stream, request).await
    }

    async fn exchange_over(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        request: Request<Empty<Bytes>>,
    ) -> Result<Bytes, Refusal> {
        let no_http = |error: hyper::Error| self.foreign(&error);
        let (mut requests, connection) = handshake(TokioIo::new(stream)).await.map_err(no_http)?;
        tokio::spawn(connection);
        let answer = requests.send_request(request).await.map_err(no_http)?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, LARGEST).collect().await;
        let body = body.map_err(|error| self.foreign(&error))?.to_bytes();
        let is_problem = head
            .headers
            .get(CONTENT_TYPE)
            .is_some_and(|of| of == PROBLEM);
        match (head.status, serde_json::from_slice(&body)) {
            (StatusCode::OK, _) => Ok(body),
            (StatusCode::UNAUTHORIZED, _) => Err(Refusal::could_not_run(format!(
                "{self} asks for the token of its --secret-file: write http://:TOKEN@HOST:PORT"
            ))),
            (_, Ok(Problem { detail })) if is_problem => {
                Err(Refusal::could_not_run(format!("{self}: {detail}")))
            }
            (status, _) => Err(self.foreign(&format!("it answers {}", status.as_u16()))),
        }
    }

    fn unreachable(&self, why: &dyn Display) -> Refusal {
        Refusal::could_not_run(format!("{self} cannot be reached: {why}"))
    }

    fn foreign(&self, why: &dyn Display) -> Refusal {
        Refusal::could_not_run(format!(
            "{self} is not the --admin of flowgate decide: {why}; write the address after `admin on`"
        ))
    }
}

impl Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

/// Trusts the authorities of the system, or those of the file in `SSL_CERT_FILE`.
fn trusting_the_system() -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has the ciphers of both");
    let config = config.with_root_certificates(roots).with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

impl Reported {
    fn kept(&self) -> String {
        match (&*self.kept, self.is_connected) {
            ("memory", _) => "in memory".to_owned(),
            ("store", Some(false)) => "in a store, which is AWAY".to_owned(),
            ("store", _) => "in a store".to_owned(),
            ("envoys", _) => "by Envoys (RLQS)".to_owned(),
            ("nothing", _) => "nothing is to be kept".to_owned(),
            (other, _) => other.to_owned(),
        }
    }
}

impl Beyond {
    /// Lists the causes, if there are any.
    fn describe(&self) -> String {
        let Some(total) = self.total else {
            return "without a bound, because servers admit everything while the store is away"
                .to_owned();
        };
        let terms = [
            (self.in_flight, "in flight"),
            (self.leased, "leased"),
            (self.forgotten, "forgotten by the store"),
            (self.reset, "by resets"),
            (self.alone, "alone"),
            (self.others_alone.unwrap_or_default(), "others alone"),
        ];
        let causes = terms.into_iter().filter(|(tokens, _)| *tokens > 0);
        let causes: Vec<_> = causes
            .map(|(tokens, what)| format!("{tokens} {what}"))
            .collect();
        match causes.is_empty() {
            true => total.to_string(),
            false => format!("{total} at most: {}", causes.join(", ")),
        }
    }
}

impl Sight for Reported {
    fn json(&self, is_pretty: bool) -> String {
        json(self, is_pretty)
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = vec![match &self.name {
            Some(name) => format!("limit       {}, called {name}", self.limit),
            None => format!("limit       {}", self.limit),
        }];
        let shadow = if self.is_shadow {
            ", never refuses (shadow)"
        } else {
            ""
        };
        lines.push(format!("quota       {}{shadow}", self.quota));
        let keys = match (self.keys, self.capacity) {
            (Some(keys), Some(capacity)) => format!(", {keys} of {capacity} keys are not full"),
            _ => String::new(),
        };
        lines.push(format!("kept        {}{keys}", self.kept()));
        let Decisions {
            admitted,
            refused,
            refused_in_shadow,
            not_taken,
            undecided,
        } = self.decisions;
        let decisions = [
            (admitted, "admitted"),
            (refused, "refused"),
            (refused_in_shadow, "refused in shadow"),
            (not_taken, "not taken"),
            (undecided, "undecided"),
        ];
        let is_shown = |(place, (count, _)): &(usize, (u64, &str))| *place < 2 || *count > 0;
        let decisions = decisions.into_iter().enumerate().filter(is_shown);
        let decisions: Vec<_> = decisions
            .map(|(_, (count, what))| format!("{count} {what}"))
            .collect();
        lines.push(format!("decisions   {}", decisions.join(", ")));
        lines.push(format!("beyond      {}", self.beyond.describe()));
        if let Some(assigned) = &self.assigned {
            let Assigned {
                keys,
                buckets,
                tokens,
                per_second,
            } = assigned;
            let rate = number(*per_second);
            lines.push(format!(
                "assigned    {tokens} tokens and {rate}/s, to {buckets} buckets, of {keys} keys"
            ));
        }
        if let Some(OfKey {
            available,
            burst,
            full_in_s,
        }) = self.of_key
        {
            lines.push(format!("available   {available} of {burst}"));
            lines.push(match full_in_s {
                0.0 => "full        now".to_owned(),
                left => format!("full        in {}", time(Duration::from_secs_f64(left))),
            });
        }
        lines
    }

    fn line(&self, elapsed: Duration) -> String {
        let Decisions {
            admitted, refused, ..
        } = self.decisions;
        let available = match &self.of_key {
            Some(of_key) => format!(", available {}", of_key.available),
            None => String::new(),
        };
        let assigned = match &self.assigned {
            Some(assigned) => format!(", assigned {}", assigned.tokens),
            None => String::new(),
        };
        format!(
            "{} {}: admitted {admitted}, refused {refused}{available}{assigned}",
            span(elapsed),
            self.limit,
        )
    }
}
