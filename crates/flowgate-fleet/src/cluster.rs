//! A cluster: each of its primaries keeps the records of some slots, over a connection of its own.
//!
//! The connections are apart. A server that hangs cuts off the records of its own slots, and no others. A write of many calls is answered
//! when its last server has answered, or has not in time; so a hang delays the others once, by at most one time-out.
//!
//! redis-rs has a client for clusters. Without its retries, it returns `MOVED` and `ASK` to the caller; with them, it sends a call again
//! that may have been carried out. So only its connections are used here.

use crate::advice::Advice;
use crate::call::{Failure, Request};
use crate::link::Outcome;
use crate::node::{LinkState, Node, wait_for};
use crate::record::Record;
use crate::redis::{self as server, Address, Host, Unanswered};
use crate::store::{Connection, Store};
use ::redis::RedisResult;
use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{self, Instant};

const SLOTS: usize = 16_384;
/// A call is sent to at most as many servers: one that does not keep its record any more, one that does, and one that gets it just now.
const HOPS: usize = 5;
/// How many servers are asked who keeps which slot.
const ASKED: usize = 3;
/// While a server is missing, the others are asked for its successor after a pause of between a half and the whole of this.
const PAUSE: Duration = Duration::from_millis(50);
/// How often it is looked whether a server is missing.
const LOOK: Duration = Duration::from_secs(1);

/// The servers of a cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    seeds: Vec<Address>,
    timeout: Duration,
    advice: Arc<Advice>,
    map: Mutex<Map>,
    state: watch::Sender<LinkState>,
    /// The map is out of date.
    outdated: Notify,
}

/// The keepers of the slots.
#[derive(Debug)]
struct Map {
    slots: Vec<Kept>,
    nodes: HashMap<Host, Arc<Node>>,
}

#[derive(Clone, Debug, Default)]
struct Kept {
    by: Option<Arc<Node>>,
    /// Of two servers that claim a slot, the one with the higher epoch keeps it.
    epoch: u64,
}

/// What a primary says to keep, as one of the servers has heard it.
#[derive(Debug, PartialEq, Eq)]
struct Claim {
    host: Host,
    epoch: u64,
    slots: Vec<RangeInclusive<usize>>,
}

/// Calls for one server, by their places.
struct Batch {
    node: Arc<Node>,
    asking: bool,
    places: Vec<usize>,
}

impl Cluster {
    pub(crate) fn new(seeds: Vec<Address>, timeout: Duration, advice: &Arc<Advice>) -> Arc<Self> {
        Arc::new(Self {
            seeds,
            timeout,
            advice: Arc::clone(advice),
            map: Mutex::new(Map {
                slots: vec![Kept::default(); SLOTS],
                nodes: HashMap::new(),
            }),
            state: watch::Sender::new(LinkState::Connecting),
            outdated: Notify::new(),
        })
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<LinkState> {
        self.state.subscribe()
    }

    fn map(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends each request to the server that keeps its records.
    pub(crate) async fn call(&self, requests: &[Request], deadline: Instant) -> Vec<Outcome> {
        let mut outcomes = vec![Err(Failure::Unreachable); requests.len()];
        let mut batches = Vec::new();
        for (at, request) in requests.iter().enumerate() {
            match self.map().slots[slot(request.record())].by.clone() {
                Some(node) => Batch::add(&mut batches, node, false, at),
                None => self.outdated.notify_one(),
            }
        }
        for _ in 0..HOPS {
            // What is sent late could not be answered in time, and the server would be blamed for it.
            if batches.is_empty() || deadline - Instant::now() < self.timeout / 2 {
                break;
            }
            let mut sent = JoinSet::new();
            for batch in std::mem::take(&mut batches) {
                let places = batch.places.iter();
                let requests: Vec<Request> = places.map(|&at| requests[at].clone()).collect();
                sent.spawn(async move {
                    let answers = batch.send(&requests, deadline).await;
                    (batch.places, answers)
                });
            }
            while let Some(Ok((places, answers))) = sent.join_next().await {
                for (at, answer) in places.into_iter().zip(answers) {
                    if let Err(Unanswered::Elsewhere { host, asking }) = answer {
                        let slot = slot(requests[at].record());
                        if let Ok(node) = self.redirect(slot, host, asking) {
                            Batch::add(&mut batches, node, asking, at);
                        }
                        continue;
                    }
                    let outcome = answer.map_err(Unanswered::failure);
                    if let Err(Failure::Lost | Failure::Unreachable) = outcome {
                        self.outdated.notify_one();
                    }
                    outcomes[at] = outcome;
                }
            }
        }
        outcomes
    }

    /// Returns the server that an answer has named. If it is not only for now, the map is changed.
    fn redirect(&self, slot: usize, host: Host, asking: bool) -> RedisResult<Arc<Node>> {
        let mut map = self.map();
        let node = self.node(&mut map, host)?;
        if !asking {
            map.slots[slot].by = Some(Arc::clone(&node));
            self.outdated.notify_one();
        }
        Ok(node)
    }

    fn node(&self, map: &mut Map, host: Host) -> RedisResult<Arc<Node>> {
        if let Some(node) = map.nodes.get(&host) {
            return Ok(Arc::clone(node));
        }
        let address = self.seeds[0].with_host(&host)?;
        let node = Node::new(Store::Redis(address), self.timeout, &self.advice);
        node.connect();
        map.nodes.insert(host, Arc::clone(&node));
        Ok(node)
    }

    /// Keeps the map up to date, until the cluster is dropped.
    pub(crate) fn connect(self: &Arc<Self>) {
        tokio::spawn(follow(Arc::downgrade(self)));
    }

    /// Looks once who keeps which slot, and waits until the next look.
    async fn look(&self) {
        match self.survey().await {
            Ok(claims) => self.apply(claims),
            Err(error) if *self.state.borrow() == LinkState::Connecting => {
                tracing::warn!("the cluster cannot be reached: {}", server::explain(&error));
            }
            Err(_) => {}
        }
        let nodes: Vec<Arc<Node>> = self.map().nodes.values().map(Arc::clone).collect();
        for node in &nodes {
            wait_for(node.subscribe(), |state| *state != LinkState::Connecting).await;
        }
        let up = nodes.iter().filter(|node| node.state() == LinkState::Up);
        let up = up.count();
        self.state.send_replace(match up {
            0 => LinkState::Down,
            _ => LinkState::Up,
        });
        time::sleep(PAUSE.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        if up > 0 && up == nodes.len() {
            let _ = time::timeout(LOOK, self.outdated.notified()).await;
        }
    }

    /// Asks some servers who keeps which slot.
    async fn survey(&self) -> RedisResult<Vec<Claim>> {
        let nodes = self.map().nodes.values().map(Arc::clone).collect();
        let mut asks = JoinSet::new();
        let timeout = self.timeout;
        for node in some(nodes, |node: &Arc<Node>| node.state() == LinkState::Up) {
            asks.spawn(async move { of_node(&node, timeout).await });
        }
        if asks.is_empty() {
            for seed in some(self.seeds.clone(), |_| true) {
                asks.spawn(async move { of_seed(&seed, timeout).await });
            }
        }
        let (mut claims, mut failure) = (Vec::new(), None);
        while let Some(Ok(asked)) = asks.join_next().await {
            match asked {
                Ok(heard) => claims.extend(heard),
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) if claims.is_empty() => Err(error),
            _ => Ok(claims),
        }
    }

    /// Makes a map of all claims. A server without slots is left.
    fn apply(&self, claims: Vec<Claim>) {
        let mut map = self.map();
        if *self.state.borrow() == LinkState::Down {
            // It may be another cluster by now, which counts its epochs from the start.
            map.slots.iter_mut().for_each(|kept| kept.epoch = 0);
        }
        for claim in claims {
            let Claim { host, epoch, slots } = claim;
            for slot in slots.into_iter().flatten() {
                if map.slots.get(slot).is_none_or(|kept| kept.epoch > epoch) {
                    continue;
                }
                if let Ok(node) = self.node(&mut map, host.clone()) {
                    map.slots[slot] = Kept {
                        by: Some(node),
                        epoch,
                    };
                }
            }
        }
        let Map { slots, nodes } = &mut *map;
        let keepers = slots.iter().filter_map(|kept| kept.by.as_ref());
        let keepers: HashSet<*const Node> = keepers.map(Arc::as_ptr).collect();
        nodes.retain(|_, node| keepers.contains(&Arc::as_ptr(node)));
    }
}

async fn follow(cluster: Weak<Cluster>) {
    while let Some(cluster) = cluster.upgrade() {
        cluster.look().await;
    }
}

/// Returns at most [`ASKED`] of those that are fit, chosen at random.
fn some<T>(mut of: Vec<T>, is_fit: impl Fn(&T) -> bool) -> Vec<T> {
    of.retain(is_fit);
    fastrand::shuffle(&mut of);
    of.truncate(ASKED);
    of
}

/// Asks over the connection that there is. One that does not answer is given up.
async fn of_node(node: &Arc<Node>, timeout: Duration) -> RedisResult<Vec<Claim>> {
    let gone = || server::error(format!("no connection to {}", node.store()));
    let Some((Connection::Redis(connection), number)) = node.connection() else {
        return Err(gone());
    };
    let Ok(claims) = time::timeout(timeout, of_connection(&connection)).await else {
        node.give_up(number, "it took too long");
        return Err(gone());
    };
    claims
}

async fn of_seed(seed: &Address, timeout: Duration) -> RedisResult<Vec<Claim>> {
    let ask = async { of_connection(&seed.open(Arc::default()).await?).await };
    let Ok(claims) = time::timeout(2 * timeout, ask).await else {
        return Err(server::error(format!("{seed} took too long")));
    };
    claims
}

async fn of_connection(connection: &server::Connection) -> RedisResult<Vec<Claim>> {
    let text: String = connection.ask(&["CLUSTER", "NODES"]).await?;
    let address = connection.address();
    let asked = address.host().map(|host| host.name);
    Ok(claims(&text, &asked.unwrap_or_default(), address.is_tls()))
}

/// Returns what all primaries claim, from the text of `CLUSTER NODES`: `ID IP:PORT@BUS[,NAME] FLAGS PRIMARY PING PONG EPOCH LINK SLOTS...`.
///
/// With `is_tls`, a server's name is preferred: its certificate has no address.
fn claims(text: &str, asked: &str, is_tls: bool) -> Vec<Claim> {
    let claim = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, address, flags, _, _, _, epoch, _, slots @ ..] = words.as_slice() else {
            return None;
        };
        if !flags.split(',').any(|flag| flag == "master") {
            return None;
        }
        let (address, names) = address.split_once('@')?;
        let (ip, port) = address.rsplit_once(':')?;
        let name = names
            .split(',')
            .nth(1)
            .filter(|name| is_tls && !name.is_empty());
        let name = match name.unwrap_or(ip) {
            "" => asked,
            name => name,
        };
        let host = Host {
            name: name.to_owned(),
            port: port.parse().ok()?,
        };
        let range = |text: &&str| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            Some(first.parse().ok()?..=last.parse().ok()?)
        };
        Some(Claim {
            host,
            epoch: epoch.parse().ok()?,
            // Not those that are on the move: `[93-<-ID]`.
            slots: slots.iter().filter_map(range).collect(),
        })
    };
    text.lines().filter_map(claim).collect()
}

impl Batch {
    fn add(batches: &mut Vec<Self>, node: Arc<Node>, asking: bool, at: usize) {
        let same = |batch: &&mut Self| Arc::ptr_eq(&batch.node, &node) && batch.asking == asking;
        match batches.iter_mut().find(same) {
            Some(batch) => batch.places.push(at),
            None => batches.push(Self {
                node,
                asking,
                places: vec![at],
            }),
        }
    }

    async fn send(&self, requests: &[Request], deadline: Instant) -> Vec<server::Answer> {
        // One that was just found is connected to first.
        let tried = wait_for(self.node.subscribe(), |state| {
            *state != LinkState::Connecting
        });
        let _ = time::timeout_at(deadline, tried).await;
        self.node.call(requests, self.asking, deadline).await
    }
}

/// Returns the slot of a record: CRC-16 (XMODEM) of its name.
pub(crate) fn slot(record: Record) -> usize {
    let crc = record.to_string().bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| {
            let carry = crc & 0x8000 != 0;
            (crc << 1) ^ if carry { 0x1021 } else { 0 }
        })
    });
    usize::from(crc) % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::Tls;

    const NODES: &str = "\
07c37df 127.0.0.1:30004@31004,host4 slave e7d1eec 0 1426238317239 4 connected
67ed2db 127.0.0.1:30002@31002,host2 master - 0 1426238316232 2 connected 5461-10922
292f8b3 :30003@31003 myself,master,fail? - 0 1426238318243 3 connected 10923-16382 16383 [93-<-67ed2db]
824fe11 :0@0 master,noaddr - 1426238316232 0 7 disconnected
";

    #[test]
    fn the_claims_of_all_primaries_are_read() {
        let claim = |name: &str, port, epoch, slots| Claim {
            host: Host {
                name: name.to_owned(),
                port,
            },
            epoch,
            slots,
        };
        let read = claims(NODES, "10.0.0.3", false);
        let expected = [
            claim("127.0.0.1", 30002, 2, vec![5461..=10922]),
            claim("10.0.0.3", 30003, 3, vec![10923..=16382, 16383..=16383]),
            claim("10.0.0.3", 0, 7, vec![]),
        ];
        assert_eq!(read, expected);
        assert_eq!(claims(NODES, "", true)[0].host.name, "host2");
    }

    #[test]
    fn the_last_failover_keeps_a_slot_whoever_tells_of_it_first() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let info = ::redis::IntoConnectionInfo::into_connection_info("redis://127.0.0.1:1");
            let seed = Address::new(info.unwrap(), &Tls::default()).unwrap();
            let cluster = Cluster::new(vec![seed], Duration::from_millis(50), &Arc::default());
            let claim = |port, epoch| Claim {
                host: Host {
                    name: "127.0.0.1".to_owned(),
                    port,
                },
                epoch,
                slots: vec![0..=SLOTS - 1],
            };
            let keeper = || {
                cluster.map().slots[7]
                    .by
                    .as_ref()
                    .unwrap()
                    .store()
                    .to_string()
            };
            for claims in [vec![claim(2, 2), claim(1, 1)], vec![claim(1, 1)]] {
                cluster.apply(claims);
                assert_eq!(keeper(), "the store 127.0.0.1:2");
            }
            assert_eq!(cluster.map().nodes.len(), 1, "the old one is left");
            cluster.state.send_replace(LinkState::Down);
            cluster.apply(vec![claim(1, 1)]);
            assert_eq!(keeper(), "the store 127.0.0.1:1");
        });
    }
}
