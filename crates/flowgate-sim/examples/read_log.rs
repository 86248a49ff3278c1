//! How fast a log is read: writes a combined log, an average line of which has about 200 bytes, and reads it again.
//!
//! ```sh
//! cargo run --release -p flowgate-sim --example read_log               # 10,000,000 lines of 100,000 clients
//! cargo run --release -p flowgate-sim --example read_log 1000000 json  # or access, csv
//! ```
//!
//! The file is in the folder for temporary files, and is removed.

use std::env;
use std::error::Error;
use std::fs::{File, read_to_string, remove_file};
use std::io::{BufWriter, Result, Write};
use std::ops::ControlFlow;
use std::time::Instant;

use fastrand::Rng;
use flowgate_sim::{LogProgress, LogReader};

const CLIENTS: u64 = 100_000;
const PER_SECOND: u64 = 400;

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let lines = arguments
        .next()
        .map_or(Ok(10_000_000), |text| text.parse())?;
    let format = arguments.next().unwrap_or_else(|| "access".to_owned());
    let path = env::temp_dir().join(format!("flowgate-{}.log", std::process::id()));
    let read = write(File::create(&path)?, &format, lines)
        .map_err(Into::into)
        .and_then(|()| read(File::open(&path)?, &format));
    remove_file(&path)?;
    read
}

fn read(file: File, format: &str) -> std::result::Result<(), Box<dyn Error>> {
    let size = file.metadata()?.len();
    let mut shown = 0;
    let progress = |progress: LogProgress| {
        let percent = progress.bytes * 100 / size.max(1);
        if percent >= shown + 10 {
            shown = percent;
            eprintln!("{percent} %, {} requests", progress.requests);
        }
        ControlFlow::Continue(())
    };
    let (begin, cpu) = (Instant::now(), cpu_seconds());
    let log = LogReader::new()
        .format(format.parse()?)
        .read(file, progress)?;
    let took = begin.elapsed().as_secs_f64();
    let cpu = cpu_seconds() - cpu;
    println!(
        "{format}: {} requests of {} keys, {:?}, read in {took:.2} s, {cpu:.2} s of which on a CPU: {:.1} million lines per second, {:.0} MB/s",
        log.requests.len(),
        log.keys.len(),
        log.span(),
        log.lines as f64 / took / 1e6,
        size as f64 / took / 1e6,
    );
    Ok(())
}

/// How long this program was on a CPU, which a busy machine does not change much; 0 where Linux is not there to ask.
fn cpu_seconds() -> f64 {
    let text = read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok());
    nanos.unwrap_or(0.0) / 1e9
}

/// Writes requests of clients, a few of which have most of them, with times in order.
fn write(file: File, format: &str, lines: u64) -> Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, file);
    let mut random = Rng::with_seed(1);
    if format == "csv" {
        writeln!(file, "time,key,cost")?;
    }
    for line in 0..lines {
        let second = line / PER_SECOND;
        let (hours, minutes, seconds) = (second / 3_600 % 24, second / 60 % 60, second % 60);
        let day = 1 + second / 86_400 % 28;
        let client = (random.f64().powi(3) * CLIENTS as f64) as u64;
        let ip =
            format_args!("10.{}.{}.{}", client >> 16, client >> 8 & 255, client & 255).to_string();
        let page = random.u64(..5_000);
        match format {
            "json" => writeln!(
                file,
                "{{\"level\":\"info\",\"ts\":{}.{:06},\"request\":{{\"remote_ip\":\"{ip}\",\"method\":\"GET\",\"host\":\"example.com\",\
                 \"uri\":\"/products/{page}?ref=home\"}},\"duration\":0.00{page},\"size\":{},\"status\":200}}",
                1_700_000_000 + second,
                line % PER_SECOND * 2_500,
                random.u64(..50_000),
            )?,
            "csv" => writeln!(file, "{}.{:06},{ip},1", second, line % PER_SECOND * 2_500)?,
            _ => writeln!(
                file,
                "{ip} - - [{day:02}/Nov/2026:{hours:02}:{minutes:02}:{seconds:02} +0000] \"GET /products/{page}?ref=home HTTP/1.1\" \
                 200 {} \"https://example.com/\" \"Mozilla/5.0 (X11; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0\"",
                random.u64(..50_000),
            )?,
        }
    }
    file.flush()
}
