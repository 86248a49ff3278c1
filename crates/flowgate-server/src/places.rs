//! How many connections there are, in all and for each address.

use crate::bounds::ServerBounds;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections, in all and for each address.
pub(crate) struct Places {
    connections: u32,
    per_address: usize,
    all: Arc<Semaphore>,
    addresses: Mutex<HashMap<IpAddr, usize>>,
    next_id: AtomicU64,
}

/// One connection of an address.
pub(crate) struct Place {
    places: Arc<Places>,
    address: IpAddr,
}

impl Places {
    pub(crate) fn new(bounds: &ServerBounds) -> Self {
        let connections = u32::try_from(bounds.connections).unwrap_or(u32::MAX);
        Self {
            connections,
            per_address: bounds.connections_per_address,
            all: Arc::new(Semaphore::new(connections as usize)),
            addresses: Mutex::default(),
            next_id: AtomicU64::new(1),
        }
    }

    /// Waits until there are fewer connections than there may be.
    pub(crate) async fn any(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        Arc::clone(&self.all).acquire_owned().await.ok()
    }

    /// Counts a connection. `None` if its address has as many as it may have.
    pub(crate) fn take(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let mut addresses = self
            .addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let count = addresses.entry(address).or_insert(0);
        if *count >= self.per_address {
            return None;
        }
        *count += 1;
        Some(Place {
            places: Arc::clone(self),
            address,
        })
    }

    pub(crate) async fn all_free(&self) {
        let _ = self.all.acquire_many(self.connections).await;
    }
}

impl Place {
    /// Returns whether the client is on this machine.
    pub(crate) fn is_near(&self) -> bool {
        self.address.to_canonical().is_loopback()
    }

    /// Returns a number that no other connection has.
    pub(crate) fn id(&self) -> u64 {
        self.places.next_id.fetch_add(1, Relaxed)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let addresses = &self.places.addresses;
        let mut addresses = addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = addresses.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                addresses.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Places;
    use crate::bounds::ServerBounds;
    use std::sync::Arc;

    #[test]
    fn a_client_on_this_machine_is_near_by_either_version_of_ip() {
        let places = Arc::new(Places::new(&ServerBounds::default()));
        let is_near = |address: &str| places.take(address.parse().unwrap()).unwrap().is_near();
        let near = ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"];
        assert!(near.into_iter().all(is_near));
        let far = ["192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1", "0.0.0.0"];
        assert!(!far.into_iter().any(is_near));
    }
}
