//! Reads files again: when they have changed, and when the operator says so.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use flowgate_server::{Problem, Reloader, ServerTls};
use tokio::task::block_in_place;
use tokio::time::timeout;

use super::log::Log;
use super::watched::Watched;

/// Between two looks at the files.
const INTERVAL: Duration = Duration::from_secs(1);

/// Files that are read again while the server runs.
#[derive(Debug)]
pub(super) struct Reloads {
    pub(super) files: Watched,
    /// Its files are watched together.
    pub(super) certificate: Option<(Watched, Certificate)>,
    pub(super) reloader: Reloader,
    pub(super) log: Log,
}

/// The files of a certificate.
#[derive(Debug)]
pub(super) struct Certificate {
    pub(super) cert: PathBuf,
    pub(super) key: PathBuf,
    pub(super) client_ca: Option<PathBuf>,
}

impl Reloads {
    /// Reads files that change, and all files at each SIGHUP, from now on.
    pub(super) fn begin(mut self) -> io::Result<()> {
        let mut hangups = Hangups::new()?;
        tokio::spawn(async move {
            loop {
                let is_told = timeout(INTERVAL, hangups.next()).await.is_ok();
                block_in_place(|| self.look(is_told));
            }
        });
        Ok(())
    }

    fn look(&mut self, is_told: bool) {
        if self.files.is_to_be_read(is_told) {
            self.read_limits();
        }
        if let Some((files, certificate)) = &mut self.certificate
            && files.is_to_be_read(is_told)
        {
            certificate.read(&self.reloader, &self.log);
        }
    }

    /// A mistake changes nothing.
    fn read_limits(&self) {
        match self.reloader.read(self.files.files()) {
            Ok(config) => {
                for note in config.notes() {
                    self.log.complain(note);
                }
                self.log
                    .say(&format!("read the files again; limits: {}", config.len()));
            }
            Err(problem) => {
                let what = format!("{problem}; the limits stay as they are");
                self.log.complain(&what);
            }
        }
    }
}

impl Certificate {
    pub(super) fn tls(&self) -> Result<ServerTls, Problem> {
        ServerTls::read(&self.cert, &self.key, self.client_ca.as_deref())
    }

    fn read(&self, reloader: &Reloader, log: &Log) {
        let Certificate {
            cert,
            key,
            client_ca,
        } = self;
        match reloader.read_certificate(cert, key, client_ca.as_deref()) {
            Ok(()) => log.say("read the certificate again"),
            Err(problem) => log.complain(&format!("{problem}; the certificate stays as it is")),
        }
    }
}

/// Each SIGHUP.
#[cfg(unix)]
struct Hangups(tokio::signal::unix::Signal);

#[cfg(unix)]
impl Hangups {
    fn new() -> io::Result<Hangups> {
        use tokio::signal::unix::{SignalKind, signal};
        signal(SignalKind::hangup()).map(Hangups)
    }

    async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending().await
        }
    }
}

/// Other systems have no such signal.
#[cfg(not(unix))]
struct Hangups;

#[cfg(not(unix))]
impl Hangups {
    fn new() -> io::Result<Hangups> {
        Ok(Hangups)
    }

    async fn next(&mut self) {
        std::future::pending().await
    }
}
