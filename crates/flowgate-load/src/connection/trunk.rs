//! Connections for several users: each gets its own, or a share in one.

use std::cell::Cell;

use tokio::sync::Mutex;

use super::Connection;
use super::connector::Connector;
use super::peer::Peer;
use crate::failure::Failure;

/// Shares one HTTP/2 connection among its users: the first opens it, and again after it has closed. With HTTP/1.1 each
/// user gets a separate connection.
pub(crate) struct Trunk {
    connector: Connector,
    address: Peer,
    /// The shared connection, or one that waits for the first user. The lock is held while a connection is opened, so
    /// that other users wait for it instead of opening one each.
    open: Mutex<Option<Connection>>,
    may_share: Cell<bool>,
}

impl Trunk {
    pub(crate) fn new(connector: Connector, address: Peer) -> Trunk {
        Trunk {
            may_share: Cell::new(connector.may_share()),
            connector,
            address,
            open: Mutex::new(None),
        }
    }

    /// Creates a trunk with one open connection.
    pub(crate) fn beginning_with(first: Connection, connector: Connector, address: Peer) -> Trunk {
        Trunk {
            open: Mutex::new(Some(first)),
            ..Trunk::new(connector, address)
        }
    }

    /// Returns an open connection, or a handle on the shared one. Cancel safe.
    ///
    /// # Errors
    ///
    /// Returns an error if a connection had to be opened and could not be.
    pub(crate) async fn connect(&self) -> Result<Connection, Failure> {
        let mut open = self.open.lock().await;
        if let Some(mut connection) = open.take()
            && connection.is_open().await
        {
            *open = connection.share();
            return Ok(connection);
        }
        if !self.may_share.get() {
            // Many are opened concurrently.
            drop(open);
            return self.connector.open(self.address.clone()).await;
        }
        let connection = self.connector.open(self.address.clone()).await?;
        *open = connection.share();
        // A protocol that a server negotiated once is assumed for later connections.
        self.may_share.set(open.is_some());
        Ok(connection)
    }
}
