//! Where connections go: a TCP address, or a Unix socket.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
#[cfg(unix)]
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;

/// Where to connect, if not to the host and port of the URL.
///
/// Requests, `Host` headers and the TLS server name still contain the host of the URL.
///
/// # Examples
///
/// ```
/// use flowgate_load::{ConnectOptions, Via};
///
/// let via = Via::Host { host: "127.0.0.1".to_owned(), port: 8080 };
/// let connect = ConnectOptions { via: Some(via), ..ConnectOptions::default() };
/// assert_eq!(connect.via.unwrap().to_string(), "127.0.0.1:8080");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Via {
    /// Another host and port.
    Host {
        /// Host name or address, without brackets.
        host: String,
        /// Port.
        port: u16,
    },
    /// A Unix socket.
    #[cfg(unix)]
    Socket(PathBuf),
}

/// Address of one host and port, in place of the address that the system knows.
///
/// # Examples
///
/// ```
/// use flowgate_load::{ConnectOptions, HostAddress};
///
/// let connect = ConnectOptions {
///     addresses: vec![HostAddress {
///         host: "shop.example.org".to_owned(),
///         port: 443,
///         address: "192.0.2.7".parse()?,
///     }],
///     ..ConnectOptions::default()
/// };
/// assert_eq!(connect.addresses[0].port, 443);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAddress {
    /// Host name, as in the URL.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Its address.
    pub address: IpAddr,
}

/// Address of a server.
///
/// # Examples
///
/// ```
/// use std::net::{Ipv4Addr, SocketAddr};
///
/// use flowgate_load::Peer;
///
/// let peer = Peer::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)));
/// assert_eq!(peer.to_string(), "127.0.0.1:8080");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Peer {
    /// A TCP address.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    #[cfg(unix)]
    Unix(PathBuf),
}

/// A connected socket.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

impl Peer {
    /// Returns whether the server is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Peer::Tcp(address) => address.ip().to_canonical().is_loopback(),
            #[cfg(unix)]
            Peer::Unix(_) => true,
        }
    }

    /// Opens a connection, which writes immediately: a request is sent at its scheduled time, not when the kernel has
    /// collected enough bytes.
    pub(super) async fn connect(&self) -> io::Result<Socket> {
        match self {
            Peer::Tcp(address) => {
                let socket = TcpStream::connect(address).await?;
                socket.set_nodelay(true)?;
                Ok(Socket::Tcp(socket))
            }
            #[cfg(unix)]
            Peer::Unix(path) => UnixStream::connect(path).await.map(Socket::Unix),
        }
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Peer {
        Peer::Tcp(address)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Tcp(socket) => Pin::new(socket).poll_write(context, bytes),
            #[cfg(unix)]
            Socket::Unix(socket) => Pin::new(socket).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Tcp(socket) => Pin::new(socket).poll_write_vectored(context, slices),
            #[cfg(unix)]
            Socket::Unix(socket) => Pin::new(socket).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Socket::Tcp(socket) => socket.is_write_vectored(),
            #[cfg(unix)]
            Socket::Unix(socket) => socket.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(socket) => Pin::new(socket).poll_flush(context),
            #[cfg(unix)]
            Socket::Unix(socket) => Pin::new(socket).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(socket) => Pin::new(socket).poll_shutdown(context),
            #[cfg(unix)]
            Socket::Unix(socket) => Pin::new(socket).poll_shutdown(context),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(socket) => Pin::new(socket).poll_read(context, buffer),
            #[cfg(unix)]
            Socket::Unix(socket) => Pin::new(socket).poll_read(context, buffer),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Tcp(address) => address.fmt(f),
            #[cfg(unix)]
            Peer::Unix(path) => path.display().fmt(f),
        }
    }
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Via::Host { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Via::Host { host, port } => write!(f, "{host}:{port}"),
            #[cfg(unix)]
            Via::Socket(path) => path.display().fmt(f),
        }
    }
}
