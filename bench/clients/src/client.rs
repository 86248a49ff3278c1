//! The load clients: where each is, which version it is, and how to run it.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Serialize;

use crate::running::Running;

/// Where `bench/setup.sh` installs what it compiles.
const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/tools/bin");

/// This repository, whose `flowgate` is measured.
const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A program that sends HTTP requests, and nginx, which answers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    Flowgate,
    Oha,
    Hey,
    Wrk,
    H2load,
    Nginx,
}

impl Program {
    const ALL: [Program; 6] = [
        Program::Flowgate,
        Program::Oha,
        Program::Hey,
        Program::Wrk,
        Program::H2load,
        Program::Nginx,
    ];

    fn name(self) -> &'static str {
        match self {
            Program::Flowgate => "flowgate",
            Program::Oha => "oha",
            Program::Hey => "hey",
            Program::Wrk => "wrk",
            Program::H2load => "h2load",
            Program::Nginx => "nginx",
        }
    }

    /// What makes it, or its package, say its version.
    fn ask_version(self, path: &Path) -> Command {
        let mut command = Command::new(path);
        match self {
            Program::Flowgate | Program::Oha | Program::H2load => command.arg("--version"),
            Program::Wrk | Program::Nginx => command.arg("-v"),
            Program::Hey => {
                command = Command::new("dpkg-query");
                command.args(["-W", "-f", "hey ${Version}", "hey"])
            }
        };
        command
    }
}

/// One that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Installed {
    pub program: Program,
    /// As it says itself.
    pub version: String,
    #[serde(skip)]
    path: PathBuf,
}

/// Why a client did not do what it was asked.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    pub why: String,
    /// It knows no such arguments.
    pub is_unsupported: bool,
}

impl From<String> for Failure {
    fn from(why: String) -> Failure {
        Failure {
            why,
            is_unsupported: false,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure {
            why,
            is_unsupported,
        } = self;
        match is_unsupported {
            true => write!(f, "NOT SUPPORTED: {why}"),
            false => write!(f, "FAILED: {why}"),
        }
    }
}

/// What was found on this machine.
pub struct Programs(Vec<Installed>);

impl Programs {
    /// Looks for all; `flowgate` is the one given, or one that is built now.
    ///
    /// # Errors
    ///
    /// A message if `flowgate` cannot be built, or is not where it was said to be.
    pub fn find(flowgate: Option<PathBuf>) -> Result<Programs, String> {
        let flowgate = match flowgate {
            Some(path) if path.is_file() => path,
            Some(path) => return Err(format!("--flowgate {}: no such file", path.display())),
            None => build()?,
        };
        let found = Program::ALL.into_iter().filter_map(|program| {
            let path = match program {
                Program::Flowgate => flowgate.clone(),
                _ => locate(program.name())?,
            };
            Some(Installed {
                program,
                version: version(program, &path),
                path,
            })
        });
        Ok(Programs(found.collect()))
    }

    pub fn installed(&self) -> &[Installed] {
        &self.0
    }

    /// The names of those that were not found.
    pub fn missing(&self) -> Vec<&'static str> {
        let missing = Program::ALL
            .into_iter()
            .filter(|&program| !self.has(program));
        missing.map(Program::name).collect()
    }

    pub fn has(&self, program: Program) -> bool {
        self.path(program).is_some()
    }

    pub fn path(&self, program: Program) -> Option<&Path> {
        let mut installed = self.0.iter();
        let found = installed.find(|installed| installed.program == program)?;
        Some(&found.path)
    }

    /// Runs a client to its end, which is expected after `span`.
    ///
    /// # Errors
    ///
    /// If it is not installed, could not do what it was asked, or took much longer.
    pub fn run(
        &self,
        program: Program,
        arguments: &[String],
        span: Duration,
    ) -> Result<(), Failure> {
        let name = program.name();
        let path = self.path(program);
        let path = path.ok_or_else(|| format!("{name} is missing"))?;
        let mut running = Running::start(path, arguments)?;
        let patience = span.mul_f64(1.5) + Duration::from_secs(20);
        let status = running.wait(patience)?;
        match (program, status.code()) {
            // 4: it ran, but says that the rate was not held, which is ours to judge here.
            (_, Some(0)) | (Program::Flowgate, Some(4)) => Ok(()),
            (Program::Flowgate, Some(2)) => Err(Failure {
                why: last_line(&running),
                is_unsupported: true,
            }),
            _ => Err(format!("{status}: {}", last_line(&running)).into()),
        }
    }
}

/// The last thing that it said.
fn last_line(running: &Running) -> String {
    let printed = running.printed();
    let mut lines = printed.lines().map(str::trim).rev();
    let line = lines.find(|line| !line.is_empty());
    line.unwrap_or("it said nothing").to_owned()
}

/// Builds this repository's command, as it is shipped. One that lies there may be older than its source.
fn build() -> Result<PathBuf, String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--profile", "dist", "--locked"])
        .args(["-p", "flowgate-cli"])
        .args(["--message-format", "json-render-diagnostics"])
        .current_dir(REPOSITORY)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo cannot be started: {error}"))?;
    if !output.status.success() {
        return Err("flowgate cannot be built; --flowgate says where another one is".to_owned());
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    // Its own comes after those that it is made of.
    let mut last_first = messages.lines().rev();
    let last = last_first.find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message.get("executable")?.as_str()?))
    });
    last.ok_or_else(|| "cargo does not say where it built flowgate".to_owned())
}

/// Returns the path of `name`: the installation of `bench/setup.sh` first, and Debian's folder for servers last,
/// because that is often not in `PATH`.
fn locate(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let tools = [PathBuf::from(TOOLS)].into_iter();
    let mut places = tools
        .chain(env::split_paths(&path))
        .chain([PathBuf::from("/usr/sbin")])
        .map(|directory| directory.join(name));
    places.find(|path| path.is_file())
}

/// The first line that it says of itself.
fn version(program: Program, path: &Path) -> String {
    let output = program.ask_version(path).stdin(Stdio::null()).output();
    let said = output.map(|output| [output.stdout, output.stderr].concat());
    let said = String::from_utf8_lossy(&said.unwrap_or_default()).into_owned();
    let line = said.lines().next().unwrap_or_default();
    let line = line.split(" Copyright").next().unwrap_or_default().trim();
    match line {
        "" => format!("{}, unknown version", program.name()),
        _ => line
            .strip_prefix("nginx version: ")
            .unwrap_or(line)
            .to_owned(),
    }
}
