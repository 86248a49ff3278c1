//! HTTP proxies: a tunnel for TLS (RFC 9110, section 9.3.6). Without TLS the proxy gets the full URL in each request.

use httparse::{EMPTY_HEADER, Response, Status};
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
/// let proxy = HttpProxy { host: "127.0.0.1".to_owned(), port: 3128 };
/// let connect = ConnectOptions { proxy: Some(proxy), ..ConnectOptions::default() };
/// assert_eq!(connect.proxy.unwrap().port, 3128);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpProxy {
    /// Host name or address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// Asks the proxy for a connection to `server`, a host and a port.
pub(super) async fn tunnel(socket: &mut Socket, server: &str) -> Result<(), Failure> {
    let fail = |error: std::io::Error| Failure::of_exchange(&error);
    let request = format!("CONNECT {server} HTTP/1.1\r\nhost: {server}\r\n\r\n");
    socket.write_all(request.as_bytes()).await.map_err(fail)?;
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
        _ => Err(Failure::Proxy),
    }
}
