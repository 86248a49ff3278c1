//! A way to a store that delays, cuts, or loses what goes over it.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// What happens to each direction of each connection. All of it can be changed at any time.
#[derive(Default)]
pub struct Faults {
    /// Each piece arrives this much later, in milliseconds, and by up to as much again.
    pub delay_ms: AtomicU64,
    /// Nothing arrives at the store; the connection stays.
    pub loses_calls: AtomicBool,
    /// Nothing arrives from the store; the connection stays.
    pub loses_answers: AtomicBool,
    connections: Mutex<Vec<TcpStream>>,
    is_over: AtomicBool,
}

/// A proxy in front of a port of this machine. It ends when it is dropped.
pub struct Proxy {
    faults: Arc<Faults>,
    address: SocketAddr,
}

impl Proxy {
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let faults = Arc::new(Faults::default());
        let shared = Arc::clone(&faults);
        thread::spawn(move || {
            for client in listener.incoming() {
                if shared.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
                let (Ok(client), Ok(server)) = (client, server) else {
                    continue;
                };
                for (from, to, is_call) in [(&client, &server, true), (&server, &client, false)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    from.set_nodelay(true).unwrap();
                    shared
                        .connections
                        .lock()
                        .unwrap()
                        .push(from.try_clone().unwrap());
                    let faults = Arc::clone(&shared);
                    thread::spawn(move || faults.carry(from, to, is_call));
                }
            }
        });
        Self { faults, address }
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Ends all connections, in the middle of whatever goes over them.
    pub fn cut(&self) {
        for connection in self.faults.connections.lock().unwrap().drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Faults {
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
            let delay = self.delay_ms.load(Ordering::Relaxed);
            if delay > 0 {
                let until =
                    Instant::now() + Duration::from_millis(delay + fastrand::u64(0..=delay));
                thread::sleep(until.saturating_duration_since(Instant::now()));
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
