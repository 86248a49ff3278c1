//! What the machine allows: a thread that does nothing but send when it is time.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

/// Sends `rate` requests per second for `span` over one connection to `port`.
///
/// Each request is sent at its scheduled time or, after a slow one, as soon as that is answered. The thread spins in
/// between, and occupies a core.
///
/// # Errors
///
/// Returns an error if the connection fails, or a response takes over 10 s.
pub fn send(port: u16, rate: u32, span: Duration) -> io::Result<()> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut answer = [0; 1_024];
    let started = Instant::now();
    let requests = u64::from(rate) * span.as_millis() as u64 / 1_000;
    for k in 0..requests {
        let due_ns = u128::from(k) * 1_000_000_000 / u128::from(rate);
        while started.elapsed().as_nanos() < due_ns {
            std::hint::spin_loop();
        }
        stream.write_all(REQUEST)?;
        // An answer is one segment.
        if stream.read(&mut answer)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}
