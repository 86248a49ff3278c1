//! `flowgate decide` as a command: its file, its addresses, its end.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::support::{flowgate, run};

/// A file that is removed when dropped.
pub struct Limits(pub PathBuf);

impl Limits {
    pub fn new(name: &str, text: &str) -> Limits {
        let name = format!("flowgate-decide-{}-{name}.yaml", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, text).unwrap();
        Limits(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A process that is ended when dropped.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const GOOD: &str = "{domain: api, descriptors: [{key: user, quota: 3/day, capacity: 100}]}";

#[test]
fn a_file_is_checked() {
    let good = Limits::new("good", GOOD);
    let (code, output, _) = run(&["decide", good.path(), "--check"]);
    assert_eq!(code, 0);
    assert!(output.starts_with("ok: 1 limit, "), "{output}");

    let bad = Limits::new("bad", "domain: api\ndescriptors:\n  - kez: user\n");
    let (code, _, error) = run(&["decide", bad.path(), "--check"]);
    let path = bad.path();
    let expected = format!("flowgate: {path}:3:5: unknown key `kez`; did you mean `key`?\n");
    assert_eq!((code, error), (2, expected));

    let (code, _, error) = run(&["decide", "/no/such/file.yaml"]);
    assert_eq!(code, 1);
    assert!(
        error.starts_with("flowgate: /no/such/file.yaml: cannot read it: "),
        "{error}"
    );
}

#[test]
fn addresses_that_cannot_be_used_are_told_in_one_line() {
    let file = Limits::new("addresses", GOOD);
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (arguments, expected) in [
        (
            ["--http", &address, "--resp", "none"],
            "is in use: end that server, or write another port",
        ),
        (
            ["--http", "0", "--admin", &address],
            "is in use: end that server, or write another port",
        ),
        (
            ["--http", "0.0.0.0:0", "--resp", "none"],
            "is open to other machines, without encryption: add --cert and --key, or --plain",
        ),
        (
            ["--http", "none", "--resp", "none"],
            "no door: write --rls 8081, --http 8080, or --resp 6380",
        ),
    ] {
        let decide = ["decide", file.path(), "--rls", "none"];
        let (code, _, error) = run(&[&decide[..], &arguments].concat());
        assert_eq!(code, 2, "{error}");
        assert!(
            error.contains(expected) && error.lines().count() == 1,
            "{error}"
        );
    }
}

/// A server, what it writes to standard error, and its addresses.
#[cfg(unix)]
pub struct Server {
    process: Ending,
    said: mpsc::Receiver<String>,
    grpc: String,
    pub http: String,
    pub resp: String,
    pub admin: String,
}

#[cfg(unix)]
impl Server {
    fn new(file: &Path) -> Server {
        Server::with(file, &[])
    }

    pub fn with(file: &Path, more: &[&str]) -> Server {
        Server::at("0", file, more)
    }

    /// With an address of the gRPC door.
    fn at(grpc: &str, file: &Path, more: &[&str]) -> Server {
        let doors = ["--rls", grpc, "--http", "0", "--resp", "0", "--admin", "0"];
        let arguments = [&["decide", file.to_str().unwrap()][..], &doors, more].concat();
        Server::of(flowgate(&arguments))
    }

    fn of(mut command: Command) -> Server {
        let process = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut process = Ending(process);
        let lines = BufReader::new(process.0.stderr.take().unwrap()).lines();
        let (sender, said) = mpsc::channel();
        thread::spawn(move || {
            lines
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        let listening = line(&said);
        let after = |what: &str| {
            let rest = listening.split_once(what).map(|(_, rest)| rest);
            let rest = rest.unwrap_or_else(|| panic!("no address: {listening}"));
            let begin = rest.find("127.0.0.1").expect("an address");
            let end = begin + rest[begin..].find([';', ',', '/']).expect("more");
            rest[begin..end].to_owned()
        };
        Server {
            process,
            grpc: after("gRPC "),
            http: after("HTTP on "),
            resp: after("RESP "),
            admin: after("admin on "),
            said,
        }
    }

    /// The next line on standard error.
    pub fn line(&self) -> String {
        line(&self.said)
    }

    fn ask(&self) -> String {
        exchange(&self.resp, "FG.ASK api.user a\r\nQUIT\r\n")
    }

    fn loads(&self) -> [String; 2] {
        ["ok", "error"].map(|result| {
            let line = format!("flowgate_configuration_loads_total{{result=\"{result}\"}}");
            self.metric(&line)
        })
    }

    /// The value of a line of the metrics.
    pub fn metric(&self, line: &str) -> String {
        let get = "GET /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        let page = exchange(&self.admin, get);
        let find = |text: &str| Some(text.strip_prefix(line)?.strip_prefix(' ')?.to_owned());
        page.lines().find_map(find).expect("such a line")
    }
}

#[cfg(unix)]
fn line(said: &mpsc::Receiver<String>) -> String {
    said.recv_timeout(Duration::from_secs(60)).expect("a line")
}

#[cfg(unix)]
pub fn exchange(address: &str, sent: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    stream.write_all(sent.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[cfg(unix)]
#[test]
fn it_answers_reads_its_file_again_and_ends() {
    let file = Limits::new("runs", GOOD);
    let mut server = Server::new(&file.0);
    assert!(server.ask().starts_with("*5\r\n:0\r\n:3\r\n:2\r\n"));
    fs::write(&file.0, GOOD.replace("3/day", "1/dya")).unwrap();
    crate::support::signal(server.process.0.id(), "-HUP");
    assert!(server.line().ends_with("; the limits stay as they are"));
    assert!(server.ask().starts_with("*5\r\n:0\r\n:3\r\n:1\r\n"));
    assert_eq!(server.loads(), ["1", "1"]);
    fs::write(&file.0, GOOD.replace("3/day", "5/day")).unwrap();
    crate::support::signal(server.process.0.id(), "-HUP");
    assert_eq!(server.line(), "read the files again; limits: 1");
    assert!(server.ask().starts_with("*5\r\n:0\r\n:5\r\n:2\r\n"));
    assert_eq!(server.loads(), ["2", "1"]);
    crate::support::signal(server.process.0.id(), "-TERM");
    assert_eq!(server.process.0.wait().unwrap().code(), Some(0));
}

/// Kubernetes mounts a ConfigMap as links, and swaps one of them.
#[cfg(unix)]
#[test]
fn a_file_that_changes_is_read_without_a_signal() {
    use std::os::unix::fs::symlink;

    let folder = format!("flowgate-decide-links-{}", std::process::id());
    let folder = Folder(std::env::temp_dir().join(folder));
    let put = |name: &str, text: &str| {
        let version = folder.0.join(name);
        fs::create_dir_all(&version).unwrap();
        fs::write(version.join("limits.yaml"), text).unwrap();
        let [data, next] = ["..data", "..data_next"].map(|name| folder.0.join(name));
        symlink(name, &next).unwrap();
        fs::rename(next, data).unwrap();
    };
    put("..1", GOOD);
    let file = folder.0.join("limits.yaml");
    symlink("..data/limits.yaml", &file).unwrap();
    let server = Server::new(&file);
    assert!(server.ask().starts_with("*5\r\n:0\r\n:3\r\n:2\r\n"));
    put("..2", &GOOD.replace("3/day", "5/day"));
    assert_eq!(server.line(), "read the files again; limits: 1");
    assert!(server.ask().starts_with("*5\r\n:0\r\n:5\r\n:3\r\n"));
    put("..3", "domain: api\ndescriptors:\n  - kez: user\n");
    let line = server.line();
    let what =
        "limits.yaml:3:5: unknown key `kez`; did you mean `key`?; the limits stay as they are";
    assert!(line.ends_with(what), "{line}");
    assert!(server.ask().starts_with("*5\r\n:0\r\n:5\r\n:2\r\n"));
    assert_eq!(server.loads(), ["2", "1"]);
}

/// A folder that is removed when dropped.
#[cfg(unix)]
struct Folder(PathBuf);

#[cfg(unix)]
impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The memory of a process that is not swapped out.
#[cfg(target_os = "linux")]
fn resident_bytes(id: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let find = |line: &str| {
        line.strip_prefix("VmRSS:")?
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    };
    let kilobytes: u64 = status.lines().find_map(find).expect("a size");
    kilobytes * 1024
}

/// Slow, silent and rude clients: each costs a bounded amount, and others are served.
#[cfg(target_os = "linux")]
#[test]
fn c9_a_flood_takes_bounded_memory_and_others_are_served() {
    const EACH: usize = 100;
    let file = Limits::new("flood", &GOOD.replace("3/day", "300/day"));
    let server = Server::new(&file.0);
    for _ in 0..10 {
        server.ask();
    }
    let before = resident_bytes(server.process.0.id());
    let large = "x".repeat(60_000);
    let begun = format!("*2\r\n$4\r\nECHO\r\n$61000\r\n{large}");
    let echo = format!("*2\r\n$4\r\nECHO\r\n$60000\r\n{large}\r\n");
    let body = format!("POST /json HTTP/1.1\r\nhost: a\r\ncontent-length: 61000\r\n\r\n{large}");
    let mut kept = Vec::new();
    for _ in 0..EACH {
        for (address, bytes) in [(&server.resp, &begun), (&server.http, &body)] {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(bytes.as_bytes()).unwrap();
            kept.push(stream);
        }
        // It reads no answer, and sends as much as the system takes.
        let mut stream = TcpStream::connect(&server.resp).unwrap();
        stream.set_nonblocking(true).unwrap();
        while stream.write(echo.as_bytes()).is_ok() {}
        kept.push(stream);
    }
    assert!(server.ask().starts_with("*5\r\n:0\r\n"));
    let more = resident_bytes(server.process.0.id()).saturating_sub(before);
    let most = (3 * EACH * 256 * 1024) as u64;
    assert!(more < most, "{more} bytes for {} clients", 3 * EACH);
    drop(kept);
    let begun = std::time::Instant::now();
    while server.metric("flowgate_connections{door=\"http\"}") != "0" {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "they still count"
        );
        thread::sleep(Duration::from_millis(20));
    }
}

/// Where the system allows few open files, connections wait for others to end.
#[cfg(unix)]
#[test]
fn clients_beyond_the_open_files_of_the_process_wait() {
    let file = Limits::new("files", GOOD);
    let doors = "--http 0 --resp 0 --admin 0";
    let mut shell = Command::new("sh");
    let program = env!("CARGO_BIN_EXE_flowgate");
    let path = file.path();
    shell
        .args([
            "-c",
            &format!("ulimit -n 64; exec {program} decide {path} {doors}"),
        ])
        .stdin(Stdio::null());
    let server = Server::of(shell);
    let mut clients: Vec<_> = (0..100)
        .map(|_| {
            let mut stream = TcpStream::connect(&server.resp).unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(60)))
                .unwrap();
            stream.write_all(b"PING\r\n").unwrap();
            stream
        })
        .collect();
    for mut client in clients.drain(..) {
        let mut answer = [0; 7];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"+PONG\r\n");
        // A probe is answered, however many wait.
        assert_ne!(server.metric("flowgate_connections{door=\"resp\"}"), "0");
    }
    assert_eq!(server.metric("flowgate_accept_errors_total"), "0");
}

#[cfg(unix)]
#[test]
fn a_certificate_is_read_again_when_its_files_change() {
    use rcgen::generate_simple_self_signed;
    use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
    use std::sync::Arc;

    let folder = format!("flowgate-decide-tls-{}", std::process::id());
    let folder = Folder(std::env::temp_dir().join(folder));
    fs::create_dir_all(&folder.0).unwrap();
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| folder.0.join(name));
    let renew = || {
        let certified = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fs::write(&cert, certified.cert.pem()).unwrap();
        fs::write(&key, certified.signing_key.serialize_pem()).unwrap();
        certified.cert
    };
    let old = renew();
    let file = Limits::new("tls", GOOD);
    let files = [cert.to_str().unwrap(), key.to_str().unwrap()];
    let server = Server::with(&file.0, &["--cert", files[0], "--key", files[1]]);
    let ping = |certificate: &rcgen::Certificate| {
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "localhost".try_into().unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let stream = TcpStream::connect(&server.resp).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        stream.write_all(b"PING\r\nQUIT\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok::<_, std::io::Error>(answer)
    };
    assert_eq!(ping(&old).unwrap(), "+PONG\r\n+OK\r\n");
    let new = renew();
    assert_eq!(server.line(), "read the certificate again");
    assert_eq!(ping(&new).unwrap(), "+PONG\r\n+OK\r\n");
    ping(&old).unwrap_err();
    fs::write(&key, "no key").unwrap();
    let line = server.line();
    assert!(line.ends_with("; the certificate stays as it is"), "{line}");
    assert_eq!(ping(&new).unwrap(), "+PONG\r\n+OK\r\n");

    let check = [
        "decide",
        file.path(),
        "--check",
        "--cert",
        files[0],
        "--key",
        files[1],
    ];
    let (code, _, error) = run(&check);
    assert_eq!(code, 2, "{error}");
    assert!(
        error.ends_with("key.pem: no private key: a PEM file has BEGIN and END lines\n"),
        "{error}"
    );
    let (code, _, error) = run(&["decide", file.path(), "--cert", files[0]]);
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("--key"), "{error}");
    fs::remove_file(&key).unwrap();
    let (code, _, error) = run(&check);
    assert_eq!((code, error.lines().count()), (2, 1), "{error}");
    assert!(
        error.ends_with("; write a PEM file that this user can read\n"),
        "{error}"
    );
}

/// Asks once about a user, as envoyproxy/ratelimit is asked. Returns the first line of the answer.
#[cfg(unix)]
fn ask_as_envoy(server: &Server) -> String {
    let body = r#"{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"a-name"}]}]}"#;
    let length = body.len();
    let head = format!(
        "POST /json HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    let mut stream = TcpStream::connect(&server.http).unwrap();
    stream.write_all((head + body).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[cfg(unix)]
#[test]
fn a_difference_from_another_server_is_a_line_without_the_key() {
    let old = Limits::new("old", &GOOD.replace("3/day", "1/day"));
    let new = Limits::new("new", GOOD);
    let old = Server::new(&old.0);
    let url = format!("http://{}", old.http);
    let server = Server::with(&new.0, &["--shadow", &url]);
    // The other server refuses the second, and clients are answered by this one.
    for _ in 0..2 {
        assert_eq!(ask_as_envoy(&server), "HTTP/1.1 200 OK");
    }
    let differs =
        "1 different, 0 without an answer, 0 skipped; api.user: here OK, there OVER_LIMIT";
    let line = (0..3)
        .map(|_| server.line())
        .find(|line| line.ends_with(differs));
    assert!(line.is_some_and(|line| !line.contains("a-name")));
    drop(old);
    ask_as_envoy(&server);
    let line = server.line();
    assert!(line.contains("1 different, 1 without an answer"), "{line}");

    let (code, _, error) = run(&["decide", new.path(), "--shadow", "old:8080"]);
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("write http://HOST:PORT"), "{error}");
}

#[cfg(unix)]
#[test]
fn each_line_of_a_log_is_json_without_keys() {
    let file = Limits::new("log", GOOD);
    let server = Server::with(&file.0, &["--log", "json", "--log-level", "debug"]);
    assert_eq!(ask_as_envoy(&server), "HTTP/1.1 200 OK");
    let mut spans = Vec::new();
    while spans.last() != Some(&"request".to_owned()) {
        let line = server.line();
        assert!(!line.contains("a-name"), "{line}");
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        if let Some(name) = value["span"]["name"].as_str() {
            assert!(value["fields"]["time.busy"].is_string(), "{line}");
            spans.push(name.to_owned());
        }
    }
    assert_eq!(spans, ["decision", "request"]);
}

/// Two servers, one store: together they admit the limit. When it is away, each admits its part, and then says so.
#[cfg(all(unix, feature = "fleet"))]
#[test]
#[ignore = "needs redis-server: ./ci/test"]
fn c1_servers_share_a_store_and_an_outage_is_not_a_refusal() {
    use crate::support::engine::Engine;

    let mut engine = Engine::start();
    let url = engine.url();
    let file = Limits::new(
        "store",
        "{domain: api, descriptors: [{key: user, quota: 4/day}]}",
    );
    let arguments = ["--store", &url, "--nodes", "2"];
    let servers = [(); 2].map(|()| Server::with(&file.0, &arguments));
    for server in &servers {
        let begun = std::time::Instant::now();
        while server.metric("flowgate_store_connected") != "1" {
            assert!(begun.elapsed() < Duration::from_secs(60), "not connected");
            thread::sleep(Duration::from_millis(20));
        }
    }
    let admitted = |times: usize| {
        let answers = (0..times).map(|time| servers[time % 2].ask());
        answers
            .filter(|answer| answer.starts_with("*5\r\n:0\r\n"))
            .count()
    };
    assert_eq!(admitted(8), 4);
    // It is the limit that an operator sees.
    let inspect = [
        "fleet", "inspect", &url, "api.user", "--key", "a", "--quota", "4/day",
    ];
    let (code, output, error) = run(&inspect);
    assert_eq!(code, 0, "{error}");
    assert!(output.contains("\navailable   0"), "{output}");

    engine.kill();
    let get = "GET /auth?limit=api.user&key=b HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let statuses: Vec<_> = (0..4)
        .map(|_| exchange(&servers[0].http, get)[9..12].to_owned())
        .collect();
    assert_eq!(statuses, ["200", "200", "503", "503"]);
}

/// Programs lease from a server that hangs, is killed and starts again, and from a second server that stands on it.
#[cfg(all(unix, feature = "fleet"))]
#[test]
fn c1_programs_lease_from_a_server() {
    use crate::support::signal;
    use flowgate_fleet::{CutOff, Fleet};

    let text = "{domain: api, descriptors: [{key: user, quota: 1000/day burst 10}]}";
    let file = Limits::new("lends", text);
    let mut server = Server::with(&file.0, &["--store", "local"]);
    let url = format!("http://{}", server.grpc);
    let on_it = Server::with(&file.0, &["--store", &url, "--nodes", "2"]);
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.build().unwrap();
    let limits = [&url, &format!("http://{}", on_it.grpc)].map(|url| {
        let fleet = Fleet::server(url).unwrap().open().unwrap();
        runtime.block_on(fleet.ready());
        let quota = "1000/day burst 10".parse().unwrap();
        let limit = fleet.keyed("api.user", quota).when_cut_off(CutOff::Deny);
        (limit.build().unwrap(), fleet)
    });
    let [(near, fleet), (far, _)] = &limits;
    assert!(near.ask("a").n(3).block().is_ok());
    assert!(far.ask("a").n(3).block().is_ok());
    assert!(server.ask().starts_with("*5\r\n:0\r\n:10\r\n:3\r\n"));
    let refused = |denied: flowgate::Denied| !denied.is_outage();
    assert!(far.ask("a").n(4).block().is_err_and(refused));

    signal(server.process.0.id(), "-STOP");
    for _ in 0..5 {
        let denied = near.ask("a").block().unwrap_err();
        assert!(denied.is_outage());
    }
    signal(server.process.0.id(), "-CONT");
    runtime.block_on(fleet.ready());
    // One of the five was sent, and may be carried out now.
    let left = (0..4).filter(|_| near.ask("a").block().is_ok()).count();
    assert!((2..=3).contains(&left), "{left}");

    assert!(near.ask("b").n(9).block().is_ok());
    signal(server.process.0.id(), "-KILL");
    server.process.0.wait().unwrap();
    let denied = near.ask("b").block().unwrap_err();
    assert!(denied.is_outage());
    let grpc = url.strip_prefix("http://").unwrap();
    server = Server::at(grpc, &file.0, &["--store", "local"]);
    runtime.block_on(fleet.ready());
    // The server that has forgotten is reminded.
    assert!(near.ask("b").block().is_ok());
    let answer = exchange(&server.resp, "FG.ASK api.user b\r\nQUIT\r\n");
    assert!(answer.starts_with("*5\r\n:1\r\n"), "{answer}");
}

/// Off a terminal, the numbers are lines of their own, and hide no other line.
#[cfg(unix)]
#[test]
fn numbers_are_a_line_each_second_beside_the_lines_of_the_log() {
    let file = Limits::new("watch", GOOD);
    let doors = "--watch --rls 0 --http 0 --resp 0 --admin 0";
    let mut command = flowgate(&["decide", file.path()]);
    command.args(doors.split(' ')).stdout(Stdio::piped());
    let mut server = Server::of(command);
    let numbers = server.process.0.stdout.take().unwrap();
    let mut numbers = BufReader::new(numbers).lines().map_while(Result::ok);
    assert!(server.ask().starts_with("*5\r\n:0\r\n"));
    let line = numbers.next().expect("a line");
    assert!(line.contains(" connections: admitted "), "{line}");
    fs::write(&file.0, "domain: [").unwrap();
    crate::support::signal(server.process.0.id(), "-HUP");
    let line = server.line();
    assert!(line.ends_with("; the limits stay as they are"), "{line}");
}

/// On a terminal, the numbers are drawn over the last ones, and end with the server.
#[cfg(target_os = "linux")]
#[test]
fn on_a_terminal_limits_are_drawn_in_place() {
    let file = Limits::new("drawn", GOOD);
    let mut command = flowgate(&["decide", file.path(), "--watch", "--rls", "none"]);
    command.args("--http none --resp 0 --admin none".split(' '));
    command.env("TERM", "xterm-256color");
    let (mut screen, terminal) = crate::view::terminal(120, 24);
    let mut process = Ending(command.stderr(terminal).spawn().unwrap());
    // Its own end of the terminal goes with it.
    drop(command);
    let mut drawn = String::new();
    let mut draw_until = |what: &str| {
        let mut bytes = [0; 4096];
        while !drawn.contains(what) {
            let length = screen.read(&mut bytes).expect("more is drawn");
            drawn.push_str(str::from_utf8(&bytes[..length]).expect("text"));
        }
        drawn.clone()
    };
    let first = draw_until("api.user");
    let (_, address) = first.split_once("RESP on ").expect("an address");
    let address = &address[..address.find(' ').expect("more")];
    for refused in [0, 0, 0, 1, 1] {
        let answer = exchange(address, "FG.ASK api.user a\r\nQUIT\r\n");
        assert!(answer.starts_with(&format!("*5\r\n:{refused}\r\n")));
    }
    // Two of five, and no unit beyond the quota.
    let last = draw_until("             2       0");
    assert!(last.contains("\r\u{1b}[5ARESP on "), "{last:?}");
    assert!(
        last.contains("limit     quota  admitted  refused  refused, all  beyond"),
        "{last:?}"
    );
    crate::support::signal(process.0.id(), "-TERM");
    assert_eq!(process.0.wait().unwrap().code(), Some(0));
}

#[test]
fn a_store_that_cannot_be_used_is_told_in_one_line() {
    let file = Limits::new("no-store", GOOD);
    let check = |arguments: &[&str]| {
        let all = [&["decide", file.path(), "--check"][..], arguments].concat();
        let (code, _, error) = run(&all);
        assert_eq!((code, error.lines().count()), (2, 1), "{error}");
        error
    };
    let url = "redis://127.0.0.1:1";
    assert!(check(&["--store", "ftp://a"]).starts_with("flowgate: --store: "));
    for (option, most) in [("--nodes", u64::from(u32::MAX)), ("--threads", 256)] {
        let expected = format!("not a whole number from 1 to {most}: write 2\n");
        for number in ["0", "x", "-1", "4294967296"] {
            let all = ["--store", url, &format!("{option}={number}")];
            assert!(check(&all).ends_with(&expected), "{option} {number}");
        }
    }
    assert!(
        check(&["--store", url, "--store", url]).contains("need --sentinel PRIMARY, or --cluster")
    );
    assert!(check(&["--store", url]).contains(
        ":1:29: what is admitted while the store does not answer is not known: add --nodes N"
    ));
    let (code, output, _) = run(&[
        "decide",
        file.path(),
        "--check",
        "--store",
        url,
        "--nodes",
        "2",
    ]);
    assert_eq!((code, output.as_str()), (0, "ok: 1 limit in the store\n"));
}

/// Ends a server as a service manager does, and waits for it.
#[cfg(unix)]
pub fn end(mut server: Server) -> Option<i32> {
    crate::support::signal(server.process.0.id(), "-TERM");
    server.process.0.wait().unwrap().code()
}

#[cfg(unix)]
#[test]
fn c1_a_planned_restart_goes_on_with_what_was_taken() {
    use std::os::unix::fs::PermissionsExt as _;

    let file = Limits::new("restart", GOOD);
    let state = Limits::new("restart-state", "");
    fs::remove_file(&state.0).unwrap();
    let start = || Server::with(&file.0, &["--state", state.path()]);
    let server = start();
    assert!(server.ask().starts_with("*5\r\n:0\r\n:3\r\n:2\r\n"));
    assert!(server.ask().starts_with("*5\r\n:0\r\n:3\r\n:1\r\n"));
    // A connection that is open does not delay the end, and changes nothing after it.
    let mut kept = TcpStream::connect(&server.resp).unwrap();
    kept.write_all(b"FG.ASK api.user b\r\n").unwrap();
    kept.read_exact(&mut [0; 4]).unwrap();
    assert_eq!(end(server), Some(0));
    let mode = fs::metadata(&state.0).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let server = start();
    assert!(!state.0.exists(), "a state is used once");
    assert!(server.ask().starts_with("*5\r\n:0\r\n:3\r\n:0\r\n"));
    assert!(server.ask().starts_with("*5\r\n:1\r\n:3\r\n:0\r\n"));
    let asked = exchange(&server.resp, "FG.ASK api.user b 0\r\nQUIT\r\n");
    assert!(asked.starts_with("*5\r\n:0\r\n:3\r\n:2\r\n"), "{asked}");
    // An end that was not planned leaves none.
    drop(server);
    assert!(!state.0.exists());
    assert!(start().ask().starts_with("*5\r\n:0\r\n:3\r\n:2\r\n"));

    fs::write(&state.0, "damaged").unwrap();
    let (code, _, error) = run(&["decide", file.path(), "--check", "--state", state.path()]);
    assert_eq!(code, 2);
    let expected = format!(
        "flowgate: {}: the state is damaged, or of another version; remove it to begin with full limits\n",
        state.path()
    );
    assert_eq!(error, expected);
}

#[cfg(unix)]
#[test]
fn c1_a_planned_restart_goes_on_with_what_was_lent() {
    let file = Limits::new("restart-local", GOOD);
    let state = Limits::new("restart-local-state", "");
    fs::remove_file(&state.0).unwrap();
    let options = ["--store", "local", "--state", state.path()];
    let server = Server::with(&file.0, &options);
    assert!(server.ask().starts_with("*5\r\n:0\r\n:3\r\n:2\r\n"));
    assert!(server.ask().starts_with("*5\r\n:0\r\n:3\r\n:1\r\n"));
    assert_eq!(end(server), Some(0));
    let server = Server::with(&file.0, &options);
    assert!(!state.0.exists(), "a state is used once");
    assert!(server.ask().starts_with("*5\r\n:0\r\n:3\r\n:0\r\n"));
    assert!(server.ask().starts_with("*5\r\n:1\r\n:3\r\n:0\r\n"));
    drop(server);

    fs::write(&state.0, "damaged").unwrap();
    let check = ["decide", file.path(), "--check"];
    let (code, _, error) = run(&[&check[..], &options[..]].concat());
    assert_eq!(code, 2);
    let expected = format!("flowgate: {}: the state is damaged", state.path());
    assert!(error.starts_with(&expected), "{error}");
}

/// At the end, it would be too late: what was taken would be lost.
#[cfg(unix)]
#[test]
fn a_state_that_cannot_be_written_is_refused_at_the_start() {
    let file = Limits::new("no-state", GOOD);
    let folder = format!("flowgate-decide-no-state-{}", std::process::id());
    let folder = Folder(std::env::temp_dir().join(folder));
    fs::create_dir_all(&folder.0).unwrap();
    let check = |state: &str| run(&["decide", file.path(), "--check", "--state", state]);
    let missing = folder.0.join("missing/state");
    let below_a_file = format!("{}/state", file.path());
    for state in [missing.to_str().unwrap(), &below_a_file, "/proc/state"] {
        let (code, output, error) = check(state);
        assert_eq!((code, output.as_str()), (2, ""), "{error}");
        let expected = format!("flowgate: cannot write the state {state}: ");
        assert!(error.starts_with(&expected), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    // Nothing is left of the check, and a state is not touched by it.
    let state = folder.0.join("state");
    let (code, ..) = check(state.to_str().unwrap());
    assert_eq!((code, fs::read_dir(&folder.0).unwrap().count()), (0, 0));
    fs::write(&state, "damaged").unwrap();
    let (code, ..) = check(state.to_str().unwrap());
    assert_eq!((code, fs::read(&state).unwrap()), (2, b"damaged".to_vec()));
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
    // What is there is no file.
    let (code, _, error) = check(folder.0.to_str().unwrap());
    assert_eq!((code, error.lines().count()), (2, 1), "{error}");
    assert!(
        error.starts_with("flowgate: cannot read the state "),
        "{error}"
    );
    assert!(
        error.ends_with("remove it to begin with full limits\n"),
        "{error}"
    );
}

#[test]
fn options_that_mean_nothing_for_a_store_are_refused() {
    let file = Limits::new("meaningless", GOOD);
    for (options, expected) in [
        (
            ["--store", "local", "--nodes", "2"],
            "--nodes is for a store that several servers share",
        ),
        (
            ["--store", "redis://127.0.0.1:1", "--state", "none"],
            "--state is for limits of this process",
        ),
    ] {
        let check = ["decide", file.path(), "--check"];
        let (code, _, error) = run(&[&check[..], &options[..]].concat());
        assert_eq!(code, 2, "{error}");
        assert!(error.contains(expected), "{error}");
    }
}
