//! A way to a server that delays, cuts, or loses what goes over it.
//!
//! It is for tests of clients in real time: what does a limit that processes share become on a slow network? Each message is a piece of
//! a TCP connection. So pieces arrive in order, and once: TCP delivers nothing twice. A simulation has to, such as that of
//! flowgate-fleet.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// A proxy in front of a server, on a free port of this machine. It ends when it is dropped.
///
/// ```
/// use flowgate_testkit::proxy::Proxy;
/// use std::io::{Read, Write};
/// use std::net::{TcpListener, TcpStream};
///
/// let server = TcpListener::bind("127.0.0.1:0")?;
/// let proxy = Proxy::to(server.local_addr()?)?;
/// let mut client = TcpStream::connect(proxy.address())?;
/// let (mut accepted, _) = server.accept()?;
///
/// proxy.delay(std::time::Duration::from_millis(1));
/// client.write_all(b"ping")?;
/// let mut piece = [0; 4];
/// accepted.read_exact(&mut piece)?;
/// assert_eq!(&piece, b"ping");
///
/// proxy.cut();
/// assert_eq!(client.read(&mut piece).unwrap_or(0), 0, "the connection has ended");
/// # Ok::<_, std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Proxy {
    faults: Arc<Faults>,
    address: SocketAddr,
}

/// What happens to each direction of each connection.
#[derive(Debug, Default)]
struct Faults {
    delay_us: AtomicU64,
    loses_calls: AtomicBool,
    loses_answers: AtomicBool,
    connections: Mutex<Vec<TcpStream>>,
    is_over: AtomicBool,
}

impl Proxy {
    /// Starts a proxy to a server.
    ///
    /// # Errors
    ///
    /// No port of this machine is free.
    pub fn to(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let faults = Arc::new(Faults::default());
        let shared = Arc::clone(&faults);
        thread::spawn(move || {
            for client in listener.incoming() {
                if shared.is_over.load(Ordering::Relaxed) {
                    return;
                }
                if let Ok(client) = client {
                    // A server that is not there refuses the connection.
                    let _ = shared.join(&client, server);
                }
            }
        });
        Ok(Self { faults, address })
    }

    /// Returns the address at which clients reach the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Delays each piece from now on, in both directions.
    ///
    /// Each arrives later by `at_least`, and by up to as much again, at random.
    pub fn delay(&self, at_least: Duration) {
        let us = u64::try_from(at_least.as_micros()).unwrap_or(u64::MAX / 2);
        self.faults.delay_us.store(us, Ordering::Relaxed);
    }

    /// Sets whether what clients send is lost. The connections stay.
    pub fn lose_calls(&self, are_lost: bool) {
        self.faults.loses_calls.store(are_lost, Ordering::Relaxed);
    }

    /// Sets whether what the server sends is lost. The connections stay.
    pub fn lose_answers(&self, are_lost: bool) {
        self.faults.loses_answers.store(are_lost, Ordering::Relaxed);
    }

    /// Ends all connections, in the middle of whatever goes over them.
    pub fn cut(&self) {
        for connection in self.faults.connections().drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Faults {
    fn connections(&self) -> MutexGuard<'_, Vec<TcpStream>> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins a client to the server.
    fn join(self: &Arc<Self>, client: &TcpStream, server: SocketAddr) -> io::Result<()> {
        let server = &TcpStream::connect(server)?;
        for (from, to, is_call) in [(client, server, true), (server, client, false)] {
            let (from, to) = (from.try_clone()?, to.try_clone()?);
            to.set_nodelay(true)?;
            self.connections().push(from.try_clone()?);
            let faults = Arc::clone(self);
            thread::spawn(move || faults.carry(from, to, is_call));
        }
        Ok(())
    }

    /// Carries what comes, in order, until either side ends.
    fn carry(&self, mut from: TcpStream, mut to: TcpStream, is_call: bool) {
        let loses = if is_call {
            &self.loses_calls
        } else {
            &self.loses_answers
        };
        let mut piece = [0; 4_096];
        loop {
            let read = match from.read(&mut piece) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            let delay = self.delay_us.load(Ordering::Relaxed);
            if delay > 0 {
                let delay = delay.saturating_add(fastrand::u64(0..=delay));
                thread::sleep(Duration::from_micros(delay));
            }
            if !loses.load(Ordering::Relaxed) && to.write_all(&piece[..read]).is_err() {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.faults.is_over.store(true, Ordering::Relaxed);
        self.cut();
        // The thread waits for a connection.
        let _ = TcpStream::connect(self.address);
    }
}
