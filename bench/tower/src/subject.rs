//! The subjects: layers around one service, and their requests.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::body::Body;
use axum::extract::ConnectInfo;
use flowgate::{Keyed, Quota, TokenBucket};
use flowgate_bench::cases::{Case, Traffic as Answer};
use flowgate_tower::{Headers, LimitLayer, Reset, by};
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Request, Response, StatusCode};
use serde::Serialize;
use tower::limit::rate::Rate;
use tower::{Layer, Service};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;
use tower_governor::key_extractor::{GlobalKeyExtractor, KeyExtractor, PeerIpKeyExtractor};

/// Baseline without a layer: the service if it is called, else the request alone.
pub const BARE: &str = "nobody";
/// What the others' overhead is divided by.
pub const GOVERNOR: &str = "tower_governor 0.8.0";
/// What the goals are about.
pub const FLOWGATE: &str = "flowgate-tower";
pub const FLOWGATE_LEGACY: &str = "flowgate-tower, X-RateLimit";
pub const TOWER: &str = "tower 0.5.3 RateLimit";
const FIELDS_ALONE: &str = "two fields alone";

/// All of them.
pub const NAMES: [&str; 6] = [
    BARE,
    GOVERNOR,
    FLOWGATE,
    FLOWGATE_LEGACY,
    TOWER,
    FIELDS_ALONE,
];

/// Whose limit it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Whose {
    /// One limit for all.
    Everybodys,
    /// One limit for each of this many addresses.
    Addresses(u32),
}

/// One table's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Situation {
    pub whose: Whose,
    /// Do responses tell how the limit stands?
    pub has_fields: bool,
    pub admits: bool,
}

impl Situation {
    pub fn all() -> Vec<Situation> {
        let mut all = Vec::new();
        for admits in [true, false] {
            for has_fields in [false, true] {
                for whose in [
                    Whose::Everybodys,
                    Whose::Addresses(1),
                    Whose::Addresses(1_000),
                ] {
                    all.push(Situation {
                        whose,
                        has_fields,
                        admits,
                    });
                }
            }
        }
        all
    }

    pub fn title(self) -> String {
        let whose = match self.whose {
            Whose::Everybodys => "one limit for all".to_owned(),
            Whose::Addresses(1) => "a limit by address, 1 address".to_owned(),
            Whose::Addresses(count) => format!("a limit by address, {count} addresses in turn"),
        };
        let answer = match self.admits {
            true => "admit (1000/s, burst 1e9)",
            false => "refuse (1/h, burst 1)",
        };
        let fields = match self.has_fields {
            true => "with fields",
            false => "without fields",
        };
        format!("{answer}, {fields}, {whose}")
    }

    /// In numbers that every peer's types can hold.
    fn limit(self) -> Limit {
        match self.admits {
            true => Limit {
                period: Duration::from_millis(1),
                burst: 1_000_000_000,
            },
            false => Limit {
                period: Duration::from_secs(3_600),
                burst: 1,
            },
        }
    }

    fn addresses(self) -> u32 {
        match self.whose {
            Whose::Everybodys => 1,
            Whose::Addresses(count) => count,
        }
    }
}

/// One token per `period` with a burst of `burst`.
#[derive(Clone, Copy)]
struct Limit {
    period: Duration,
    burst: u32,
}

impl Limit {
    fn quota(self) -> Quota {
        let spacing = Quota::spacing(self.period).expect("none is 0");
        spacing.burst(self.burst.into())
    }
}

/// Every subject that can be asked so, the one that time is counted from first.
pub fn cases(situation: Situation) -> Vec<Case> {
    let mut cases = Vec::new();
    if situation.admits {
        cases.push(case(BARE, situation, Bare));
        cases.push(governor(situation));
        cases.push(flowgate(situation));
        if situation.has_fields {
            cases.push(flowgate_with(FLOWGATE_LEGACY, situation, legacy()));
            cases.push(case(FIELDS_ALONE, situation, FieldsAlone));
        } else if situation.whose == Whose::Everybodys {
            cases.push(tower_rate_limit(situation));
        }
    } else {
        cases.push(case_of(BARE, situation, (), |(), request| {
            drop(request);
            false
        }));
        cases.push(governor(situation));
        cases.push(flowgate(situation));
        if situation.has_fields {
            cases.push(flowgate_with(FLOWGATE_LEGACY, situation, legacy()));
        }
    }
    cases
}

fn legacy() -> Headers {
    Headers::legacy(Reset::Delay)
}

fn flowgate(situation: Situation) -> Case {
    let headers = match situation.has_fields {
        true => Headers::draft(),
        false => Headers::none(),
    };
    flowgate_with(FLOWGATE, situation, headers)
}

fn flowgate_with(name: &'static str, situation: Situation, headers: Headers) -> Case {
    let quota = situation.limit().quota();
    match situation.whose {
        Whose::Everybodys => {
            let layer = LimitLayer::new(TokenBucket::new(quota)).headers(headers);
            case(name, situation, layer.layer(Bare))
        }
        Whose::Addresses(count) => {
            // With room to spare, as nobody knows beforehand how many there will be.
            let limits = Keyed::token_bucket(quota).capacity(10 * count as usize);
            let limits = limits.expect("a token bucket's quota, and not many keys");
            let layer = LimitLayer::keyed(limits, by::peer_address()).headers(headers);
            case(name, situation, layer.layer(Bare))
        }
    }
}

fn governor(situation: Situation) -> Case {
    match situation.whose {
        Whose::Everybodys => governor_by(situation, GlobalKeyExtractor),
        Whose::Addresses(_) => governor_by(situation, PeerIpKeyExtractor),
    }
}

fn governor_by<K>(situation: Situation, by: K) -> Case
where
    K: KeyExtractor<Key: Send + Sync> + Send + Sync + 'static,
{
    let Limit { period, burst } = situation.limit();
    let mut config = GovernorConfigBuilder::default().key_extractor(by);
    config.period(period).burst_size(burst);
    // The two kinds of configuration are types.
    if situation.has_fields {
        let config = config.use_headers().finish();
        let config = config.expect("neither burst nor period is 0");
        case(GOVERNOR, situation, GovernorLayer::new(config).layer(Bare))
    } else {
        let config = config.finish().expect("neither burst nor period is 0");
        case(GOVERNOR, situation, GovernorLayer::new(config).layer(Bare))
    }
}

/// It never refuses, but is not ready; and it is not `Clone`, so that there is one for each connection, or a task between.
fn tower_rate_limit(situation: Situation) -> Case {
    // Its timer belongs to a runtime, which is never asked for the time while there is room.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a timer");
    let service = {
        let _entered = runtime.enter();
        let rate = Rate::new(1_000_000_000, Duration::from_secs(1));
        tower::limit::RateLimit::new(Bare, rate)
    };
    case_of(
        TOWER,
        situation,
        (service, runtime),
        |(service, _), request| call(service, request),
    )
}

fn case<S, B: 'static>(name: &'static str, situation: Situation, service: S) -> Case
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible> + Send + 'static,
{
    case_of(name, situation, service, call)
}

/// Readiness, the call and the response, as a server goes about it; without a task, since nothing here has to wait.
fn call<S, B>(service: &mut S, request: Request<Body>) -> bool
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible>,
{
    let mut context = Context::from_waker(Waker::noop());
    assert!(service.poll_ready(&mut context).is_ready(), "not ready");
    match pin!(service.call(request)).poll(&mut context) {
        Poll::Ready(Ok(response)) => black_box(response).status() != StatusCode::TOO_MANY_REQUESTS,
        Poll::Pending => panic!("the service answers at once"),
    }
}

/// A case in which `ask` gets request after request, each made as the server makes it.
fn case_of<S: Send + 'static>(
    name: &'static str,
    situation: Situation,
    service: S,
    ask: impl Fn(&mut S, Request<Body>) -> bool + Send + Sync + 'static,
) -> Case {
    let addresses = situation.addresses();
    // As one connection has it; nobody else wants it.
    let connection = Mutex::new((service, 0));
    let case = Case {
        subject: name,
        traffic: match situation.admits {
            true => Answer::Admit,
            false => Answer::RefuseFull,
        },
        batch: Box::new(move |operations| {
            let mut connection = connection.lock().expect("no batch panics");
            let (service, next) = &mut *connection;
            let mut admitted = 0;
            for _ in 0..operations {
                *next = (*next + 1) % addresses;
                admitted += u64::from(ask(black_box(service), request_from(*next)));
            }
            admitted
        }),
        prepare: None,
        bytes: None,
    };
    // Everybody is known; those who are to be refused have used up their limit.
    (case.batch)(2 * u64::from(addresses));
    case
}

/// As axum hands it on.
fn request_from(number: u32) -> Request<Body> {
    let address = Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 0).to_bits() + number);
    let mut request = Request::new(Body::empty());
    let peer = ConnectInfo(SocketAddr::from((address, 4711)));
    request.extensions_mut().insert(peer);
    request
}

/// The service inside all layers: it responds immediately.
#[derive(Clone, Copy)]
struct Bare;

impl Service<Request<Body>> for Bare {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        drop(request);
        let mut response = Response::new(Body::empty());
        let text = HeaderValue::from_static("text/plain");
        response.headers_mut().insert(CONTENT_TYPE, text);
        ready(Ok(response))
    }
}

/// The cost of two prepared headers of the draft's length.
struct FieldsAlone;

impl Service<Request<Body>> for FieldsAlone {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Bare.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let answer = Bare.call(request);
        let fields: [(HeaderName, &[u8]); 2] = [
            (
                const { HeaderName::from_static("ratelimit-policy") },
                b"\"default\";q=1000000000;w=1000000",
            ),
            (
                const { HeaderName::from_static("ratelimit") },
                b"\"default\";r=999999999;t=1",
            ),
        ];
        ready(answer.into_inner().map(|mut response| {
            for (name, text) in fields {
                let value = HeaderValue::from_bytes(black_box(text));
                let value = value.expect("visible ASCII");
                response.headers_mut().append(name, value);
            }
            response
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subject_answers_as_the_situation_says() {
        for situation in Situation::all() {
            for case in cases(situation) {
                let admitted = (case.batch)(3_000);
                let wanted = if situation.admits { 3_000 } else { 0 };
                let title = situation.title();
                assert_eq!(admitted, wanted, "{}, {title}", case.subject);
                assert!(NAMES.contains(&case.subject));
            }
        }
    }
}
