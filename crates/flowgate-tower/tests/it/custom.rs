//! Limiters that are not part of the library, honest ones and others.

use crate::support::{call, done, field, from_tenant, get, poll, text};
use flowgate::{Denied, ManualClock, Quota};
use flowgate_tower::client::{ClientError, ClientLayer};
use flowgate_tower::{
    Admission, Custom, CustomLimit, Deciding, LimitLayer, Missing, WouldReject, by,
};
use http::Request;
use std::collections::HashMap;
use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;
use tower::{Layer, Service};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// Answers what it is told to, and remembers when it was asked.
struct Scripted {
    time: ManualClock,
    answer: Box<dyn Fn(usize) -> Option<Result<Admission, Denied>> + Send + Sync>,
    asked_ms: Mutex<Vec<u64>>,
    refunded: Mutex<u64>,
}

impl Scripted {
    /// `answer` has the number of those that were asked before; `None` is no answer, ever.
    fn new(
        time: &ManualClock,
        answer: impl Fn(usize) -> Option<Result<Admission, Denied>> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            time: time.clone(),
            answer: Box::new(answer),
            asked_ms: Mutex::default(),
            refunded: Mutex::default(),
        })
    }

    fn asked(&self) -> usize {
        self.asked_ms.lock().expect("unharmed").len()
    }
}

impl<K: Send + 'static> CustomLimit<K> for Scripted {
    fn decide(self: Arc<Self>, _: K, _: u64) -> Deciding {
        let mut asked = self.asked_ms.lock().expect("unharmed");
        let answer = (self.answer)(asked.len());
        asked.push(self.time.now().as_nanos() / 1_000_000);
        match answer {
            Some(answer) => Box::pin(async { answer }),
            None => Box::pin(pending()),
        }
    }

    fn quota(&self, _: &K) -> Option<Quota> {
        Some(Quota::per_minute(60))
    }

    fn refund(&self, _: &K, n: u64) {
        *self.refunded.lock().expect("unharmed") += n;
    }
}

fn custom<K>(limit: &Arc<Scripted>) -> Custom<K>
where
    Scripted: CustomLimit<K>,
    K: 'static,
{
    let limit: Arc<dyn CustomLimit<K>> = Arc::clone(limit) as _;
    Custom::from(limit)
}

/// Counts per key in memory, as a database would.
struct Store(Mutex<HashMap<String, u64>>);

impl CustomLimit<String> for Store {
    fn decide(self: Arc<Self>, key: String, n: u64) -> Deciding {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let mut counts = self.0.lock().expect("unharmed");
            let count = counts.entry(key).or_default();
            if *count + n > 2 {
                return Err(Denied::retry_in(SECOND / 2));
            }
            *count += n;
            Ok(Admission::new().remaining(2 - *count))
        })
    }

    fn quota(&self, _: &String) -> Option<Quota> {
        Some(Quota::per_second(2))
    }
}

#[tokio::test]
async fn c7_a_limiter_of_somebody_elses_has_all_that_others_have() {
    let store = Custom::new(Store(Mutex::default()));
    let layer = LimitLayer::keyed(store, by::header("x-tenant"))
        .name("store")
        .missing(Missing::Exempt);
    let mut service = layer.layer(done());
    let mut statuses = Vec::new();
    for tenant in ["ann", "ann", "ann", "bob"] {
        let answer = service.call(from_tenant(tenant)).await.expect("an answer");
        statuses.push((
            answer.status().as_u16(),
            field(&answer, "ratelimit").to_owned(),
        ));
    }
    let told = |r: &str| format!("\"store\";{r}");
    assert_eq!(
        statuses,
        [
            (200, told("r=1")),
            (200, told("r=0")),
            (429, told("r=0;t_us=500000")),
            (200, told("r=1"))
        ]
    );
    let refused = service.call(from_tenant("ann")).await.expect("an answer");
    assert_eq!(field(&refused, "retry-after"), "1");
    assert_eq!(text(refused), "over the limit `store`; retry after 1 s\n");
    assert_eq!(
        service.call(get("/")).await.expect("an answer").status(),
        200
    );
    let counts = layer.counts().get();
    assert_eq!((counts.admitted, counts.refused, counts.waited), (3, 2, 0));
    assert_eq!((counts.exempt, counts.outages), (1, 0));
}

#[test]
fn it_is_asked_again_when_it_has_said() {
    let time = ManualClock::new();
    let limit = Scripted::new(&time, |asked| match asked {
        0 => Some(Err(Denied::retry_in(3 * SECOND))),
        _ => Some(Ok(Admission::new())),
    });
    let layer = LimitLayer::new(custom(&limit).with_clock(&time)).wait(10 * SECOND);
    let mut service = layer.layer(done());
    let mut waits = pin!(service.call(get("/")));
    assert!(poll(waits.as_mut()).is_pending());
    time.advance(3 * SECOND - MS);
    assert!(poll(waits.as_mut()).is_pending());
    assert_eq!(limit.asked(), 1);
    time.advance(MS);
    assert!(poll(waits.as_mut()).is_ready());
    let counts = layer.counts().get();
    assert_eq!((counts.admitted, counts.waited), (1, 1));

    // Not if that would be too late.
    let late = Scripted::new(&time, |_| Some(Err(Denied::retry_in(11 * SECOND))));
    let layer = LimitLayer::new(custom(&late).with_clock(&time)).wait(10 * SECOND);
    let refused = call(&mut layer.layer(done()), get("/"));
    assert_eq!(
        (refused.status().as_u16(), field(&refused, "retry-after")),
        (429, "11")
    );
    assert_eq!(late.asked(), 1);
}

/// A refusal with a wait of 0, forever: neither a spin nor an endless wait.
#[test]
fn nonsense_ends_in_a_refusal_after_a_bounded_wait() {
    let time = ManualClock::new();
    let limit = Scripted::new(&time, |_| Some(Err(Denied::retry_in(Duration::ZERO))));

    // Without a wait, it is asked once.
    let layer = LimitLayer::new(custom(&limit).with_clock(&time));
    assert_eq!(call(&mut layer.layer(done()), get("/")).status(), 429);
    assert_eq!(limit.asked(), 1);

    for is_client in [false, true] {
        limit.asked_ms.lock().expect("unharmed").clear();
        let custom = custom(&limit).with_clock(&time);
        let began_ms = time.now().as_nanos() / 1_000_000;
        let mut polls = 0;
        let mut end = |mut is_over: Box<dyn FnMut() -> bool>| {
            while !is_over() {
                polls += 1;
                assert!(polls < 20_000, "it waits forever");
                time.advance(MS);
            }
        };
        if is_client {
            // A client without a maximum wait.
            let mut client = ClientLayer::new(custom).layer(done());
            let request = Request::get("http://example.org/").body(());
            let mut wait = Box::pin(client.call(request.expect("a request")));
            end(Box::new(move || match poll(wait.as_mut()) {
                Poll::Ready(Err(ClientError::Denied(denied, _))) => !denied.is_outage(),
                Poll::Ready(_) => panic!("it is admitted"),
                Poll::Pending => false,
            }));
        } else {
            let layer = LimitLayer::new(custom).wait(Duration::MAX);
            let mut wait = Box::pin(layer.layer(done()).call(get("/")));
            end(Box::new(move || match poll(wait.as_mut()) {
                Poll::Ready(answer) => answer.expect("an answer").status() == 429,
                Poll::Pending => false,
            }));
        }
        let asked_ms = limit.asked_ms.lock().expect("unharmed").clone();
        let gaps: Vec<_> = asked_ms.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mut expected: Vec<u64> = (0..10).map(|power| 1 << power).collect();
        expected.extend([1000; 6]);
        assert_eq!(gaps, expected);
        assert_eq!(asked_ms[0], began_ms);
    }
}

#[test]
fn an_outage_is_not_a_refusal() {
    let time = ManualClock::new();
    let down = Scripted::new(&time, |_| Some(Err(Denied::outage())));
    let layer = LimitLayer::new(custom(&down).with_clock(&time)).wait(SECOND);
    let rejected = call(&mut layer.layer(done()), get("/"));
    assert_eq!(
        (rejected.status().as_u16(), field(&rejected, "ratelimit")),
        (503, "")
    );
    assert_eq!(text(rejected), "the limit `default` could not be checked\n");
    let counts = layer.counts().get();
    assert_eq!((counts.refused, counts.outages, counts.admitted), (1, 1, 0));

    let layer = LimitLayer::new(custom(&down).with_clock(&time).admit_during_outages());
    assert_eq!(call(&mut layer.layer(done()), get("/")).status(), 200);
    let counts = layer.counts().get();
    assert_eq!((counts.refused, counts.outages, counts.admitted), (0, 1, 1));
}

#[test]
fn no_answer_is_an_outage_after_the_timeout() {
    let time = ManualClock::new();
    let hangs = Scripted::new(&time, |_| None);
    let layer = LimitLayer::new(custom(&hangs).with_clock(&time).timeout(50 * MS));
    let mut service = layer.layer(done());
    let mut waits = pin!(service.call(get("/")));
    assert!(poll(waits.as_mut()).is_pending());
    time.advance(49 * MS);
    assert!(poll(waits.as_mut()).is_pending());
    time.advance(MS);
    let Poll::Ready(Ok(answer)) = poll(waits.as_mut()) else {
        panic!("it hangs");
    };
    assert_eq!(answer.status(), 503);
    assert_eq!(layer.counts().get().outages, 1);

    // Of a client, too.
    let hosts: Custom<String> = custom(&hangs).with_clock(&time).timeout(50 * MS);
    let mut client = ClientLayer::new(hosts).layer(done());
    let request = Request::get("http://example.org/").body(());
    let mut waits = pin!(client.call(request.expect("a request")));
    assert!(poll(waits.as_mut()).is_pending());
    time.advance(50 * MS);
    match poll(waits.as_mut()) {
        Poll::Ready(Err(ClientError::Denied(denied, _))) => assert!(denied.is_outage()),
        _ => panic!("it hangs"),
    }
}

#[test]
fn a_dry_run_asks_and_refuses_nobody() {
    let time = ManualClock::new();
    let limit = Scripted::new(&time, |_| Some(Err(Denied::retry_in(SECOND))));
    let layer = LimitLayer::new(custom(&limit).with_clock(&time))
        .wait(10 * SECOND)
        .dry_run();
    let answer = call(&mut layer.layer(done()), get("/"));
    assert_eq!(answer.status(), 200);
    let would = answer.extensions().get::<WouldReject>().expect("a refusal");
    assert_eq!(
        (would.status.as_u16(), would.retry_after),
        (429, Some(SECOND))
    );
    let counts = layer.counts().get();
    assert_eq!((counts.would_refuse, counts.refused), (1, 0));
}

#[test]
fn c1_what_an_admission_holds_is_held_as_long_as_the_body() {
    let time = ManualClock::new();
    let slots = Arc::new(());
    let held = Arc::clone(&slots);
    let limit = Scripted::new(&time, move |_| {
        Some(Ok(Admission::new().holding(Arc::clone(&held))))
    });
    let layer = LimitLayer::new(custom(&limit).with_clock(&time));
    let idle = Arc::strong_count(&slots);
    let answer = call(&mut layer.layer(done()), get("/"));
    assert_eq!(Arc::strong_count(&slots), idle + 1);
    assert_eq!(text(answer), "done");
    assert_eq!(Arc::strong_count(&slots), idle);
}

#[test]
fn what_is_not_used_comes_back() {
    let time = ManualClock::new();
    let limit = Scripted::new(&time, |_| Some(Ok(Admission::new())));
    let layer = LimitLayer::new(custom(&limit).with_clock(&time));
    let mut service = layer.cost(|_| 5).settle(|_, _| 2).layer(done());
    call(&mut service, get("/"));
    assert_eq!(*limit.refunded.lock().expect("unharmed"), 3);
}
