//! Servers that are set up wrongly: found when the layer is built, or named in the answer and in the counts.

use crate::support::{call, done, from_tenant, get, text};
use flowgate::{Keyed, Quota, TokenBucket};
use flowgate_tower::by::{self, NoKey};
use flowgate_tower::{LimitLayer, Missing};
use http::StatusCode;
use std::net::SocketAddr;
use tower::Layer;

fn buckets() -> Keyed<TokenBucket> {
    let table = Keyed::token_bucket(Quota::per_minute(5)).capacity(100);
    table.expect("a table")
}

#[test]
fn a_peer_that_is_not_known_is_named_and_counted_whatever_becomes_of_the_request() {
    let shared = || TokenBucket::new(Quota::per_minute(5));
    for missing in [
        Missing::Reject,
        Missing::Share(shared().into()),
        Missing::Exempt,
    ] {
        let expected = match missing {
            Missing::Reject => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::OK,
        };
        let layer = LimitLayer::keyed(buckets(), by::peer_address()).missing(missing);
        let mut service = layer.layer(done());
        let answer = call(&mut service, get("/"));
        assert_eq!(answer.status(), expected);
        if expected != StatusCode::OK {
            let text = text(answer);
            assert!(
                text.contains("into_make_service_with_connect_info"),
                "{text}"
            );
        }
        let mut request = get("/");
        let peer: SocketAddr = "192.0.2.7:1".parse().expect("an address");
        request.extensions_mut().insert(peer);
        assert_eq!(call(&mut service, request).status(), StatusCode::OK);
        assert_eq!(layer.counts().get().misconfigured, 1);
    }
    // A client that does not send its key is not the server's fault.
    let layer = LimitLayer::keyed(buckets(), by::header("x-tenant"));
    call(&mut layer.layer(done()), get("/"));
    assert_eq!(layer.counts().get().misconfigured, 0);
    assert!(NoKey::NotProvided.is_the_servers_fault());
    assert!(!NoKey::Malformed.is_the_servers_fault());
}

#[test]
fn a_quota_that_the_table_cannot_keep_is_found_when_the_layer_is_built() {
    let windows = || Keyed::fixed_window(Quota::per_minute(5)).capacity(100);
    let layer = || LimitLayer::keyed(windows().expect("a table"), by::header("x-tenant"));
    let class = |_: &flowgate_tower::RequestHead<'_>, tenant: &String| match &**tenant {
        "gold" => Some(1),
        "lost" => Some(7),
        _ => None,
    };
    let good = Quota::per_minute(9);
    let bad = Quota::per_second(1).burst(5);
    let error = layer().quota_classes([(1, good), (2, bad)], class);
    assert!(error.is_err());

    let layer = layer().quota_classes([(1, good)], class).expect("a quota");
    let mut service = layer.layer(done());
    let mut admitted = |tenant| {
        let is_ok = |_: &i32| call(&mut service, from_tenant(tenant)).status() == StatusCode::OK;
        (0..20).filter(is_ok).count()
    };
    assert_eq!(
        (admitted("gold"), admitted("tin"), admitted("lost")),
        (9, 5, 5)
    );
}

#[test]
fn a_quota_that_is_found_at_a_request_is_named_and_counted() {
    let windows = Keyed::fixed_window(Quota::per_minute(5)).capacity(100);
    let bad = Quota::per_second(1).burst(5);
    let layer = LimitLayer::keyed(windows.expect("a table"), by::path())
        .name("pages")
        .quota_of(move |_, path| (path == "/bad").then_some(bad));
    let mut service = layer.layer(done());
    let answer = call(&mut service, get("/bad"));
    assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let text = text(answer);
    let what = "the limit `pages` cannot keep the quota that `quota_of` gave this key: ";
    assert!(text.starts_with(what), "{text}");
    assert_eq!(call(&mut service, get("/")).status(), StatusCode::OK);
    assert_eq!(layer.counts().get().misconfigured, 1);

    // A dry run finds it before anybody is refused.
    let windows = Keyed::fixed_window(Quota::per_minute(5)).capacity(100);
    let dry = LimitLayer::keyed(windows.expect("a table"), by::path())
        .quota_of(move |_, _| Some(bad))
        .dry_run();
    let answer = call(&mut dry.layer(done()), get("/"));
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(dry.counts().get().misconfigured, 1);
}
