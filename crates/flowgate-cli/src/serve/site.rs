//! The server: accepts connections, chooses the limit of each request, and counts.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use flowgate::QuotaError;
use hyper::body::Incoming;
use hyper::header::HeaderName;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::spawn_local;

use super::guard::{Answer, Guard, bare};
use super::page::Dropped;
use super::{Answering, Faults, Limit, Page};

/// Maximum number of concurrent connections, if the operating system allows it.
pub(crate) const MAX_CONNECTIONS: u64 = 512;
/// Maximum number of keys, each with a separate limit.
const MAX_KEYS: usize = 10_000;
/// Maximum length of a key, in bytes.
const MAX_KEY_BYTES: usize = 1024;

/// The node of a connection, and the key of a request.
type Place = (usize, Vec<u8>);

/// A page with its limits.
pub(crate) struct Site {
    limit: Limit,
    faults: Faults,
    answering: Answering,
    page: Page,
    key: Option<HeaderName>,
    guards: RefCell<HashMap<Place, Rc<Guard>>>,
    counts: Cell<Counts>,
}

/// Counts of requests by outcome.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) admitted: u64,
    pub(crate) refused: u64,
    pub(crate) dropped: u64,
}

impl Site {
    /// Creates a site with this limit, separate for each value of the header `key`, if given.
    pub(crate) fn new(
        limit: Limit,
        faults: Faults,
        answering: Answering,
        page: Page,
        key: Option<HeaderName>,
    ) -> Site {
        Site {
            limit,
            faults,
            answering,
            page,
            key,
            guards: RefCell::new(HashMap::new()),
            counts: Cell::new(Counts::default()),
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts.get()
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        connection: usize,
    ) -> Result<Answer, Dropped> {
        let node = connection % self.faults.nodes.unwrap_or(1);
        let key = match &self.key {
            Some(name) => request
                .headers()
                .get(name)
                .map(|key| key.as_bytes().to_vec()),
            None => Some(Vec::new()),
        };
        let guard = match key.filter(|key| key.len() <= MAX_KEY_BYTES) {
            Some(key) => self.guard(node, key),
            None => return Ok(bare(StatusCode::BAD_REQUEST)),
        };
        let guard = match guard {
            Ok(Some(guard)) => guard,
            Ok(None) => return Ok(bare(StatusCode::INSUFFICIENT_STORAGE)),
            Err(_) => return Ok(bare(StatusCode::INTERNAL_SERVER_ERROR)),
        };
        let answered = guard.answer(request).await;
        let mut counts = self.counts.get();
        match &answered {
            Ok((_, true)) => counts.admitted += 1,
            Ok((_, false)) => counts.refused += 1,
            Err(Dropped) => counts.dropped += 1,
        }
        self.counts.set(counts);
        answered.map(|(response, _)| response)
    }

    /// Returns the guard of this key on this node, created on first use; `None` if there are too many.
    fn guard(&self, node: usize, key: Vec<u8>) -> Result<Option<Rc<Guard>>, QuotaError> {
        let mut guards = self.guards.borrow_mut();
        let place = (node, key);
        if let Some(guard) = guards.get(&place) {
            return Ok(Some(guard.clone()));
        }
        if guards.len() >= MAX_KEYS {
            return Ok(None);
        }
        let page = self.page.clone();
        let guard = Rc::new(Guard::new(&self.limit, &self.answering, self.faults, page)?);
        guards.insert(place, guard.clone());
        Ok(Some(guard))
    }
}

/// Accepts connections while it is polled, within a local set. Connections beyond the limit wait.
pub(crate) async fn serve(listener: TcpListener, site: Rc<Site>, places: u64) {
    let places = places.min(MAX_CONNECTIONS) as usize;
    let places = Arc::new(Semaphore::new(places));
    let mut connection = 0;
    // The semaphore is never closed.
    while let Ok(place) = places.clone().acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            // Probably too many open files; some will be closed soon.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        if stream.set_nodelay(true).is_err() {
            continue;
        }
        let site = site.clone();
        spawn_local(async move {
            talk(stream, site, connection).await;
            drop(place);
        });
        connection += 1;
    }
}

async fn talk(stream: TcpStream, site: Rc<Site>, connection: usize) {
    let answer = service_fn(|request| site.answer(request, connection));
    // A client that hangs up midway is no concern of the server's, nor is a connection that is dropped on purpose.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), answer)
        .await;
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use flowgate_tower::Headers;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::runtime::Builder;
    use tokio::task::{LocalSet, yield_now};

    use super::*;

    fn open_site() -> Rc<Site> {
        let faults = Faults::of(&[], &Limit::None).unwrap();
        let page = Page::new(2, Duration::ZERO, &faults);
        let answering = Answering {
            refusal: StatusCode::TOO_MANY_REQUESTS,
            fields: Headers::none(),
        };
        Rc::new(Site::new(Limit::None, faults, answering, page, None))
    }

    #[test]
    fn who_finds_no_place_waits_for_one() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let address = listener.local_addr().unwrap();
            spawn_local(serve(listener, open_site(), 1));
            let mut answer = [0; 1024];
            let mut clients = Vec::new();
            for _ in 0..2 {
                let mut client = TcpStream::connect(address).await.unwrap();
                client
                    .write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
                    .await
                    .unwrap();
                clients.push(client);
            }
            let mut second = clients.pop().unwrap();
            let mut first = clients.pop().unwrap();
            assert!(first.read(&mut answer).await.unwrap() > 0);
            for _ in 0..200 {
                yield_now().await;
            }
            assert!(second.try_read(&mut answer).is_err(), "it was answered");
            drop(first);
            assert!(second.read(&mut answer).await.unwrap() > 0);
            assert!(answer.starts_with(b"HTTP/1.1 200"));
        });
    }
}
