//! Several downloads that share one bandwidth: 4 MiB/s for all of them, whatever their speed.
//!
//! ```text
//! cargo run -p flowgate --example shared_bandwidth
//! ```
//!
//! Each download has its own connection to a server on this machine, which would otherwise send at gigabytes per second.

use flowgate::{Throttled, TokenBucket};
use std::error::Error;
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Barrier};
use std::time::Instant;

const DOWNLOADS: usize = 4;
const BYTES: usize = 512 * 1024;
const QUOTA: &str = "4MiB/s burst 64KiB";

#[allow(dead_code, reason = "the test calls `run`")]
fn main() -> Result<(), Box<dyn Error>> {
    for line in run()? {
        println!("{line}");
    }
    Ok(())
}

/// Runs the downloads, and returns the lines to print.
pub fn run() -> Result<Vec<String>, Box<dyn Error>> {
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = server.local_addr()?;
    let server = std::thread::spawn(move || serve(&server));

    let bandwidth = Arc::new(TokenBucket::new(QUOTA.parse()?));
    let start = Arc::new(Barrier::new(DOWNLOADS));
    let began = Instant::now();
    let downloads: Vec<_> = (0..DOWNLOADS)
        .map(|_| {
            let (bandwidth, start) = (Arc::clone(&bandwidth), Arc::clone(&start));
            std::thread::spawn(move || {
                let mut page = Throttled::new(TcpStream::connect(address)?, bandwidth);
                start.wait();
                let began = Instant::now();
                let bytes = io::copy(&mut page, &mut io::sink())?;
                Ok::<_, io::Error>((bytes, began.elapsed().as_secs_f64()))
            })
        })
        .collect();

    let mut lines = Vec::new();
    let mut total = 0;
    for (index, download) in downloads.into_iter().enumerate() {
        let (bytes, seconds) = download.join().map_err(|_| "a download panicked")??;
        total += bytes;
        lines.push(format!(
            "download {}: {bytes} bytes, {:.2} MiB/s",
            index + 1,
            bytes as f64 / seconds / f64::from(1 << 20)
        ));
    }
    let seconds = began.elapsed().as_secs_f64();
    lines.push(format!(
        "together: {total} bytes, {:.2} MiB/s of {QUOTA}",
        total as f64 / seconds / f64::from(1 << 20)
    ));
    server.join().map_err(|_| "the server panicked")??;
    Ok(lines)
}

/// Sends each client the same page, as fast as the client reads it.
fn serve(server: &TcpListener) -> io::Result<()> {
    let connections = server.incoming().take(DOWNLOADS);
    let senders: Vec<_> = connections
        .map(|connection| {
            let mut connection = connection?;
            Ok(std::thread::spawn(move || {
                connection.write_all(&vec![0; BYTES])
            }))
        })
        .collect::<io::Result<_>>()?;
    for sender in senders {
        sender
            .join()
            .map_err(|_| io::Error::other("it panicked"))??;
    }
    Ok(())
}
