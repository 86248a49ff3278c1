//! The server that a client is judged by: it notes when each request arrives, and answers `ok`.
//!
//! One blocking thread per connection, all of them there before the first arrives: a request wakes the
//! very thread that reads it, and the clock is read as soon as `read` returns. Nothing is allocated, and
//! no lock is taken, between one request and the next.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use rustix::net::{Shutdown as Both, shutdown};

use crate::arrivals::Arrivals;

/// Maximum number of concurrent connections; others wait until one is closed.
const MOST_CONNECTIONS: usize = 64;

/// A request's head and, of the next one, what came with it.
const MOST_HEAD_BYTES: usize = 8 * 1_024;

const END_OF_HEAD: &[u8] = b"\r\n\r\n";

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok";

/// A server on a free port of 127.0.0.1, until it is dropped.
pub struct Origin {
    port: u16,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    listener: TcpListener,
    started: Instant,
    /// One for each arrival, in ns since `started`; written to before anything arrives, so that no page
    /// is touched for the first time while it is measured.
    at_ns: Vec<AtomicU64>,
    /// Arrivals so far, which may be more than there is room for.
    arrived: AtomicUsize,
    by_connection: Mutex<Vec<u64>>,
    /// What each thread serves, so that it can be hung up on.
    open: Vec<Mutex<Option<TcpStream>>>,
    is_stopped: AtomicBool,
}

impl Origin {
    /// With room for twice the requests that are expected.
    ///
    /// # Errors
    ///
    /// If no port or no thread can be had.
    pub fn start(expected: u64) -> io::Result<Origin> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let room = 2 * expected + 1_024;
        let shared = Arc::new(Shared {
            listener,
            started: Instant::now(),
            at_ns: (0..room).map(|_| AtomicU64::new(u64::MAX)).collect(),
            arrived: AtomicUsize::new(0),
            by_connection: Mutex::new(Vec::with_capacity(MOST_CONNECTIONS)),
            open: (0..MOST_CONNECTIONS).map(|_| Mutex::new(None)).collect(),
            is_stopped: AtomicBool::new(false),
        });
        let mut origin = Origin {
            port,
            shared: Arc::clone(&shared),
            threads: Vec::with_capacity(MOST_CONNECTIONS),
        };
        for own in 0..MOST_CONNECTIONS {
            let shared = Arc::clone(&shared);
            let thread = thread::Builder::new()
                .name("origin".to_owned())
                .stack_size(128 * 1_024)
                .spawn(move || shared.serve_one_after_another(own))?;
            origin.threads.push(thread);
        }
        Ok(origin)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// Hangs up, and gives what arrived.
    pub fn finish(mut self) -> Arrivals {
        self.stop();
        let shared = &self.shared;
        let arrived = shared.arrived.load(Ordering::Acquire);
        let recorded = arrived.min(shared.at_ns.len());
        let at_ns = shared.at_ns[..recorded].iter();
        let mut at_ns: Vec<u64> = at_ns.map(|at| at.load(Ordering::Acquire)).collect();
        // Two threads that read at once may have noted it in either order.
        at_ns.sort_unstable();
        Arrivals {
            at_ns,
            by_connection: lock(&shared.by_connection).clone(),
            unrecorded: (arrived - recorded) as u64,
        }
    }

    fn stop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::SeqCst);
        // Who waits for a connection is told that there will be none.
        let _ = shutdown(&self.shared.listener, Both::Both);
        for open in &self.shared.open {
            if let Some(stream) = &*lock(open) {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
        for thread in self.threads.drain(..) {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn serve_one_after_another(&self, own: usize) {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(_) => return,
            };
            // Either `stop` finds the stream here, or this finds that it has been stopped.
            *lock(&self.open[own]) = stream.try_clone().ok();
            if self.is_stopped.load(Ordering::SeqCst) {
                return;
            }
            let served = self.serve(stream);
            *lock(&self.open[own]) = None;
            lock(&self.by_connection).push(served);
        }
    }

    /// Answers until the other end hangs up, and gives how many requests that were.
    fn serve(&self, mut stream: TcpStream) -> u64 {
        let mut buffer = [0; MOST_HEAD_BYTES];
        let (mut filled, mut served) = (0, 0);
        if stream.set_nodelay(true).is_err() {
            return served;
        }
        // A head that does not fit is no request of a load client: `read` into nothing ends it.
        while let Ok(read @ 1..) = stream.read(&mut buffer[filled..]) {
            let at_ns = self.started.elapsed().as_nanos() as u64;
            filled += read;
            while let Some(length) = head_length(&buffer[..filled]) {
                self.note(at_ns);
                served += 1;
                if stream.write_all(ANSWER).is_err() {
                    return served;
                }
                buffer.copy_within(length..filled, 0);
                filled -= length;
            }
        }
        served
    }

    fn note(&self, at_ns: u64) {
        let index = self.arrived.fetch_add(1, Ordering::AcqRel);
        if let Some(slot) = self.at_ns.get(index) {
            slot.store(at_ns, Ordering::Release);
        }
    }
}

/// The bytes of the first head, with the empty line at its end, if all of it is there.
fn head_length(bytes: &[u8]) -> Option<usize> {
    let mut windows = bytes.windows(END_OF_HEAD.len());
    Some(windows.position(|window| window == END_OF_HEAD)? + END_OF_HEAD.len())
}

/// What the lock guards is whole whoever panicked: it is only ever replaced or added to.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

    fn connect(origin: &Origin) -> TcpStream {
        TcpStream::connect((Ipv4Addr::LOCALHOST, origin.port())).expect("it listens")
    }

    fn read_answers(stream: &mut TcpStream, count: usize) {
        let mut answers = vec![0; count * ANSWER.len()];
        stream.read_exact(&mut answers).expect("it answers");
        assert_eq!(answers, ANSWER.repeat(count));
    }

    #[test]
    fn every_request_is_noted_and_answered() {
        let origin = Origin::start(4).expect("a port is free");
        let (mut one, mut other) = (connect(&origin), connect(&origin));
        for _ in 0..3 {
            one.write_all(REQUEST).expect("it reads");
            read_answers(&mut one, 1);
        }
        // In two pieces, the second with another request behind it.
        other.write_all(&REQUEST[..9]).expect("it reads");
        let rest = [&REQUEST[9..], REQUEST].concat();
        other.write_all(&rest).expect("it reads");
        read_answers(&mut other, 2);

        let arrivals = origin.finish();
        assert_eq!(arrivals.at_ns.len(), 5);
        assert!(arrivals.at_ns.is_sorted(), "{arrivals:?}");
        let mut by_connection = arrivals.by_connection;
        by_connection.sort_unstable();
        assert_eq!((by_connection, arrivals.unrecorded), (vec![2, 3], 0));
    }

    #[test]
    fn more_than_there_is_room_for_are_still_counted() {
        let origin = Origin::start(0).expect("a port is free");
        let mut stream = connect(&origin);
        stream.write_all(&REQUEST.repeat(1_030)).expect("it reads");
        read_answers(&mut stream, 1_030);
        let arrivals = origin.finish();
        assert_eq!((arrivals.at_ns.len(), arrivals.unrecorded), (1_024, 6));
    }

    #[test]
    fn it_ends_while_connections_are_open() {
        let origin = Origin::start(1).expect("a port is free");
        let mut stream = connect(&origin);
        stream.write_all(REQUEST).expect("it reads");
        read_answers(&mut stream, 1);
        drop(origin);
        let read = stream.read(&mut [0]);
        assert_eq!(read.expect("it was closed in good order"), 0);
    }
}
