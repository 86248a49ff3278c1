//! Limits that several processes share, in a layer.

use flowgate::ManualClock;
use flowgate_fleet::{CutOff, Fleet};
use flowgate_tower::{Custom, LimitLayer, by};
use http::{Request, Response, StatusCode};
use std::convert::Infallible;
use std::time::Duration;
use tower::{Layer, Service, ServiceExt, service_fn};

async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> {
    Ok(Response::new(String::new()))
}

fn request(tenant: &str) -> Request<String> {
    let request = Request::get("/").header("x-tenant", tenant);
    request.body(String::new()).unwrap()
}

async fn status<S, B>(service: &S, tenant: &str) -> (StatusCode, Option<String>)
where
    S: Service<Request<String>, Response = Response<B>, Error = Infallible> + Clone,
{
    let response = service.clone().oneshot(request(tenant)).await.unwrap();
    let field = response.headers().get("retry-after");
    let retry_after = field.map(|value| value.to_str().unwrap().to_owned());
    (response.status(), retry_after)
}

#[tokio::test]
async fn a_limit_of_a_fleet_guards_a_service_and_its_refusals_have_the_time() {
    let time = ManualClock::new();
    let fleet = Fleet::local().clock(&time).nodes(4).open().unwrap();
    let build = || {
        fleet
            .limit("api", "2/min".parse().unwrap())
            .build()
            .unwrap()
    };
    // Two services, as two processes have them.
    let [one, other] = [0; 2].map(|_| LimitLayer::new(build()).layer(service_fn(answer)));
    assert_eq!(status(&one, "").await.0, 200);
    assert_eq!(status(&other, "").await.0, 200);
    assert_eq!(
        status(&one, "").await,
        (StatusCode::TOO_MANY_REQUESTS, Some("30".to_owned()))
    );
    time.advance(Duration::from_secs(30));
    assert_eq!(status(&other, "").await.0, 200);
}

#[tokio::test]
async fn each_key_has_a_limit_of_the_fleet() {
    let fleet = Fleet::local().nodes(4).open().unwrap();
    let tenants = fleet.keyed("tenant", "1/day".parse().unwrap());
    let tenants = Custom::new(tenants.build().unwrap());
    let service = LimitLayer::keyed(tenants, by::header("x-tenant")).layer(service_fn(answer));
    for tenant in ["a", "b"] {
        assert_eq!(status(&service, tenant).await.0, 200);
        assert_eq!(status(&service, tenant).await.0, 429);
    }
}

#[tokio::test]
async fn an_outage_of_the_store_is_503_and_not_429() {
    let fleet = Fleet::redis("redis://127.0.0.1:1").unwrap().open().unwrap();
    let limit = fleet.limit("api", "2/day".parse().unwrap());
    let limit = limit.when_cut_off(CutOff::Share(1, 2)).build().unwrap();
    let service = LimitLayer::new(limit).layer(service_fn(answer));
    assert_eq!(status(&service, "").await.0, 200, "its share");
    assert_eq!(
        status(&service, "").await,
        (StatusCode::SERVICE_UNAVAILABLE, None)
    );
}
