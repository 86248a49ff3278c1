//! Connections for several users: each gets its own, or a share in one.

use std::cell::Cell;
use std::net::SocketAddr;

use tokio::sync::Mutex;

use super::Connection;
use super::connector::Connector;
use crate::failure::Failure;

/// Where the users of one HTTP/2 connection meet: the first to come opens it, the others share it,
/// and so again after it has closed. Where HTTP/1.1 is spoken, each gets a connection of its own.
pub(crate) struct Trunk {
    connector: Connector,
    address: SocketAddr,
    /// The connection that is shared; or one that waits for the first user. Held while opening what
    /// will be shared, so that those who come meanwhile wait for that instead of opening one each.
    open: Mutex<Option<Connection>>,
    may_share: Cell<bool>,
}

impl Trunk {
    pub(crate) fn new(connector: Connector, address: SocketAddr) -> Trunk {
        Trunk {
            may_share: Cell::new(connector.may_share()),
            connector,
            address,
            open: Mutex::new(None),
        }
    }

    /// A trunk of which one connection is open already.
    pub(crate) fn beginning_with(
        first: Connection,
        connector: Connector,
        address: SocketAddr,
    ) -> Trunk {
        Trunk {
            open: Mutex::new(Some(first)),
            ..Trunk::new(connector, address)
        }
    }

    /// An open connection, or a handle on the one that is open. Cancel safe.
    ///
    /// # Errors
    ///
    /// When one had to be opened, and could not be.
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
            return self.connector.open(self.address).await;
        }
        let connection = self.connector.open(self.address).await?;
        *open = connection.share();
        // What a server agreed to once, it is taken to agree to again.
        self.may_share.set(open.is_some());
        Ok(connection)
    }
}
