//! Which requests a layer with priorities refuses, on a clock that the tests move.

use crate::support::{call, done, field, from_tenant, poll, text};
use flowgate::{ConcurrencyLimit, ManualClock, PriorityShedder, TokenBucket};
use flowgate_tower::{LimitLayer, RefusalReason, RequestHead};
use http::StatusCode;
use std::sync::Arc;
use std::time::Duration;
use tower::{Layer, Service};

const WINDOW: Duration = Duration::from_millis(100);

fn level(request: &RequestHead<'_>) -> u32 {
    u32::from(request.headers["x-tenant"] == "payments")
}

fn shedder(time: &ManualClock) -> Arc<PriorityShedder> {
    let shedder = PriorityShedder::builder(2).clock(time).build();
    Arc::new(shedder.expect("a shedder"))
}

#[test]
fn under_overload_the_least_important_are_shed_before_the_limit() {
    let time = ManualClock::new();
    let shedder = shedder(&time);
    // It has nothing left after one request.
    let bucket = TokenBucket::builder("1/h".parse().expect("a quota")).clock(&time);
    let layer =
        LimitLayer::new(bucket.build().expect("a bucket")).priority(Arc::clone(&shedder), level);
    let mut service = layer.layer(done());
    for _ in 0..20 {
        for _ in 0..25 {
            call(&mut service, from_tenant("batch"));
            call(&mut service, from_tenant("payments"));
        }
        time.advance(WINDOW);
    }
    assert_eq!(shedder.lowest_admitted(), 1);
    let counts = layer.counts();
    let before = counts.get();
    let shed = call(&mut service, from_tenant("batch"));
    assert_eq!(shed.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(field(&shed, "retry-after"), "1");
    let line = "more important requests go first at `default`; retry after 1 s\n";
    assert_eq!(text(shed), line);
    let important = call(&mut service, from_tenant("payments"));
    assert_eq!(important.status(), StatusCode::TOO_MANY_REQUESTS);
    let since = counts.get().since(&before);
    assert_eq!(since.refused_for(RefusalReason::Priority), 1);
    assert_eq!(since.refused_for(RefusalReason::OverLimit), 1);
}

#[test]
fn a_request_that_waits_is_excess_and_one_that_is_shed_takes_nothing() {
    let time = ManualClock::new();
    let shedder = shedder(&time);
    let limit = ConcurrencyLimit::builder(1).clock(&time).build();
    let limit = Arc::new(limit.expect("a limit"));
    let layer = LimitLayer::new(Arc::clone(&limit))
        .wait(10 * WINDOW)
        .priority(Arc::clone(&shedder), level);
    let mut service = layer.layer(done());
    let held = call(&mut service, from_tenant("payments"));
    let mut waiting: Vec<_> = (0..30)
        .map(|_| Box::pin(service.call(from_tenant("batch"))))
        .collect();
    for request in &mut waiting {
        assert!(poll(request.as_mut()).is_pending());
    }
    time.advance(WINDOW);
    let shed = (0..30).find_map(|_| {
        let answer = poll(std::pin::pin!(service.call(from_tenant("batch"))));
        match answer {
            std::task::Poll::Ready(Ok(answer)) => Some(answer.status()),
            _ => None,
        }
    });
    assert_eq!(shed, Some(StatusCode::SERVICE_UNAVAILABLE));
    assert!(layer.counts().get().refused_for(RefusalReason::Priority) >= 1);
    assert_eq!(limit.in_flight(), 1);
    drop(held);
    assert!(poll(waiting[0].as_mut()).is_ready());
}

#[test]
fn while_the_limit_admits_nothing_is_shed() {
    let time = ManualClock::new();
    let layer = LimitLayer::new(ConcurrencyLimit::new(1)).priority(shedder(&time), level);
    let mut service = layer.layer(done());
    for _ in 0..20 {
        for _ in 0..25 {
            assert!(
                call(&mut service, from_tenant("batch"))
                    .status()
                    .is_success()
            );
        }
        time.advance(WINDOW);
    }
    assert_eq!(layer.counts().get().refused, 0);
}
