//! HTTP proxies: a tunnel for TLS (RFC 9110, section 9.3.6). Without TLS the proxy gets the full URL in each request.

use httparse::{EMPTY_HEADER, Response, Status};
use hyper::header::HeaderValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::peer::Socket;
use crate::failure::Failure;

/// Maximum size of the proxy's response to `CONNECT`.
const MAX_ANSWER: usize = 16 * 1024;

/// An HTTP proxy.
///
/// # Examples
///
/// ```
/// use flowgate_load::{ConnectOptions, HttpProxy};
///
/// let proxy = HttpProxy { host: "127.0.0.1".to_owned(), port: 3128, authorization: None };
/// let connect = ConnectOptions { proxy: Some(proxy), ..ConnectOptions::default() };
/// assert_eq!(connect.proxy.unwrap().port, 3128);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpProxy {
    /// Host name or address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Value of the header `Proxy-Authorization`, for a proxy that asks for a password.
    pub authorization: Option<HeaderValue>,
}

/// Where a tunnel goes, and what the proxy asks for.
#[derive(Clone)]
pub(super) struct Tunnel {
    /// Host and port of the server.
    pub(super) server: String,
    pub(super) authorization: Option<HeaderValue>,
}

/// Asks the proxy for a connection to the server.
pub(super) async fn tunnel(socket: &mut Socket, tunnel: &Tunnel) -> Result<(), Failure> {
    let fail = |error: std::io::Error| Failure::of_exchange(&error);
    let server = &tunnel.server;
    let mut request = format!("CONNECT {server} HTTP/1.1\r\nhost: {server}\r\n").into_bytes();
    if let Some(authorization) = &tunnel.authorization {
        request.extend_from_slice(b"proxy-authorization: ");
        request.extend_from_slice(authorization.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    socket.write_all(&request).await.map_err(fail)?;
    let mut answer = Vec::new();
    // Byte by byte, because what follows belongs to the server. It is short, and there is one for each connection.
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() == MAX_ANSWER {
            return Err(Failure::Proxy);
        }
        answer.push(socket.read_u8().await.map_err(fail)?);
    }
    let mut headers = [EMPTY_HEADER; 64];
    let mut response = Response::new(&mut headers);
    match (response.parse(&answer), response.code) {
        (Ok(Status::Complete(_)), Some(200..=299)) => Ok(()),
        (Ok(Status::Complete(_)), Some(407)) => Err(Failure::ProxyPassword),
        _ => Err(Failure::Proxy),
    }
}
