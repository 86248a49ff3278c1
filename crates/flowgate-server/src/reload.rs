//! What can be replaced while a server runs.

use crate::config::{Config, Problem};
use crate::counts::ServerCounts;
use crate::limits::DecideLimits;
use crate::server::Door;
use crate::tls::ServerTls;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use tokio_rustls::TlsAcceptor;

/// The limits and the certificate that are used now.
#[derive(Debug)]
pub(crate) struct Current {
    limits: RwLock<Arc<DecideLimits>>,
    tls: RwLock<Option<ServerTls>>,
}

// A pointer is replaced in one step, so a thread that panicked left nothing half done.
impl Current {
    pub(crate) fn new(limits: DecideLimits) -> Self {
        Self {
            limits: RwLock::new(Arc::new(limits)),
            tls: RwLock::new(None),
        }
    }

    pub(crate) fn limits(&self) -> Arc<DecideLimits> {
        Arc::clone(&self.limits.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns what encrypts the connections of a door. `None`: nothing does.
    pub(crate) fn tls(&self, door: Door) -> Option<TlsAcceptor> {
        let tls = self.tls.read().unwrap_or_else(PoisonError::into_inner);
        tls.as_ref().map(|tls| tls.of(door).into())
    }

    pub(crate) fn set_tls(&self, tls: ServerTls) {
        *self.tls.write().unwrap_or_else(PoisonError::into_inner) = Some(tls);
    }
}

/// Replaces the limits and the certificate of a server that runs.
#[derive(Clone, Debug)]
pub struct Reloader {
    current: Arc<Current>,
    counts: Arc<ServerCounts>,
}

impl Reloader {
    pub(crate) fn new(current: &Arc<Current>, counts: &Arc<ServerCounts>) -> Self {
        Self {
            current: Arc::clone(current),
            counts: Arc::clone(counts),
        }
    }

    /// Replaces the limits by those of another configuration. What was taken stays taken.
    ///
    /// # Errors
    ///
    /// Returns a [`Problem`], and changes nothing, if the limits cannot be kept.
    pub fn reload(&self, config: &Config) -> Result<(), Problem> {
        let replaced = self.replace(config);
        self.counts.loaded(replaced.is_ok());
        replaced
    }

    /// Reads files, and replaces the limits by theirs. What was taken stays taken.
    ///
    /// # Errors
    ///
    /// Returns a [`Problem`], and changes nothing, if a file has a mistake, or the limits cannot be kept.
    pub fn read<P: AsRef<Path>>(
        &self,
        paths: impl IntoIterator<Item = P>,
    ) -> Result<Config, Problem> {
        let read = Config::read(paths);
        let replaced = read.and_then(|config| self.replace(&config).map(|()| config));
        self.counts.loaded(replaced.is_ok());
        replaced
    }

    /// Returns the [state](DecideLimits::state) of the current limits. Decisions that are made meanwhile may be
    /// missing.
    pub fn state(&self) -> Vec<u8> {
        self.current.limits().state()
    }

    fn replace(&self, config: &Config) -> Result<(), Problem> {
        let reloaded = self.current.limits().reloaded(config)?;
        let limits = &self.current.limits;
        *limits.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(reloaded);
        Ok(())
    }

    /// Reads a certificate, and shows it to clients that connect from now on. The arguments are those of [`ServerTls::read`].
    ///
    /// # Errors
    ///
    /// Returns a [`Problem`], and changes nothing, for the reasons of [`ServerTls::read`].
    pub fn read_certificate(
        &self,
        certificate: &Path,
        key: &Path,
        client_authorities: Option<&Path>,
    ) -> Result<(), Problem> {
        let read = ServerTls::read(certificate, key, client_authorities);
        self.counts.certificate_loaded(read.is_ok());
        self.current.set_tls(read?);
        Ok(())
    }
}
