//! The servers with limiters of others, and the expected results.
//!
//! What each limiter does is documented where its file in `../peers` says.

use crate::peer::Peer;
use crate::subject::{Expected, QUEUE, Server, Subject, TOKEN, subject};

const FIRST: &str = "fixed-window first-request";
const CLOCK: &str = "fixed-window clock";
const LOG: &str = "sliding-log";
const COUNTER: &str = "sliding-counter";
const COUNTS_REFUSED: &str = "counts-refused";
const COUNTER_COUNTS_REFUSED: &str = "counter-counts-refused";
const TWO: &str = "two-limits";
const BURST_POOL: &str = "burst-pool";
const DELAYS: &str = "delays";
const BLOCK_FIRST: &str = "blocks-after-limit first-refusal";
const BLOCK_LAST: &str = "blocks-after-limit last-refusal";

/// Expects this rate per second and this burst; of a block, its length in seconds and its limit.
const fn limit(kind: &'static str, rate: f64, burst: u32) -> Expected {
    Expected {
        kind,
        numbers: Some((rate, burst as f64)),
    }
}

const fn node(
    name: &'static str,
    file: &'static str,
    settings: &'static str,
    expected: Expected,
) -> Subject {
    subject(name, Server::Peer(Peer::Node(file, settings)), expected)
}

const fn python(
    name: &'static str,
    file: &'static str,
    settings: &'static str,
    expected: Expected,
) -> Subject {
    subject(name, Server::Peer(Peer::Python(file, settings)), expected)
}

const fn haproxy(
    name: &'static str,
    file: &'static str,
    period: &'static str,
    count: u32,
    expected: Expected,
) -> Subject {
    let server = Server::Peer(Peer::Haproxy(file, period, count));
    subject(name, server, expected)
}

const fn envoy(
    name: &'static str,
    (burst, fill, interval): (u32, u32, &'static str),
    expected: Expected,
) -> Subject {
    let server = Server::Peer(Peer::Envoy(burst, fill, interval));
    subject(name, server, expected)
}

pub static PEERS: [Subject; 55] = [
    node(
        "express-rate-limit, 100/s",
        "express_rate_limit.js",
        r#"{"windowMs":1000,"limit":100}"#,
        limit(FIRST, 100.0, 100),
    ),
    node(
        "express-rate-limit, 20/s",
        "express_rate_limit.js",
        r#"{"windowMs":1000,"limit":20}"#,
        limit(FIRST, 20.0, 20),
    ),
    node(
        "express-rate-limit, 10/s",
        "express_rate_limit.js",
        r#"{"windowMs":1000,"limit":10}"#,
        limit(FIRST, 10.0, 10),
    ),
    node(
        "express-rate-limit, 50/5s",
        "express_rate_limit.js",
        r#"{"windowMs":5000,"limit":50}"#,
        limit(FIRST, 10.0, 50),
    ),
    node(
        "express-rate-limit, 100/10s",
        "express_rate_limit.js",
        r#"{"windowMs":10000,"limit":100}"#,
        limit(FIRST, 10.0, 100),
    ),
    node(
        "express-slow-down, 20/s, then 100 ms",
        "express_slow_down.js",
        r#"{"windowMs":1000,"delayAfter":20,"delayMs":100}"#,
        limit(DELAYS, 20.0, 20),
    ),
    node(
        "express-slow-down, 50/5s, then 300 ms",
        "express_slow_down.js",
        r#"{"windowMs":5000,"delayAfter":50,"delayMs":300}"#,
        limit(DELAYS, 10.0, 50),
    ),
    node(
        "rate-limiter-flexible, 100/s",
        "rate_limiter_flexible.js",
        r#"{"points":100,"duration":1}"#,
        limit(FIRST, 100.0, 100),
    ),
    node(
        "rate-limiter-flexible, 20/2s",
        "rate_limiter_flexible.js",
        r#"{"points":20,"duration":2}"#,
        limit(FIRST, 10.0, 20),
    ),
    node(
        "rate-limiter-flexible, 300/3s",
        "rate_limiter_flexible.js",
        r#"{"points":300,"duration":3}"#,
        limit(FIRST, 100.0, 300),
    ),
    node(
        "rate-limiter-flexible, 10/s and 60/20s",
        "rate_limiter_flexible.js",
        r#"{"points":10,"duration":1,"union":{"points":60,"duration":20}}"#,
        limit(TWO, 10.0, 10),
    ),
    node(
        "rate-limiter-flexible, 10/s and 5/10s more",
        "rate_limiter_flexible.js",
        r#"{"points":10,"duration":1,"burst":{"points":5,"duration":10}}"#,
        limit(BURST_POOL, 10.0, 10),
    ),
    node(
        "rate-limiter-flexible, 10/s, blocked for 3 s",
        "rate_limiter_flexible.js",
        r#"{"points":10,"duration":1,"blockDuration":3}"#,
        limit(BLOCK_FIRST, 3.0, 10),
    ),
    node(
        "@fastify/rate-limit, 100/s",
        "fastify_rate_limit.js",
        r#"{"max":100,"timeWindow":1000}"#,
        limit(FIRST, 100.0, 100),
    ),
    node(
        "@fastify/rate-limit, 20/2s",
        "fastify_rate_limit.js",
        r#"{"max":20,"timeWindow":2000}"#,
        limit(FIRST, 10.0, 20),
    ),
    node(
        "@fastify/rate-limit, 20/2s, continueExceeding",
        "fastify_rate_limit.js",
        r#"{"max":20,"timeWindow":2000,"continueExceeding":true}"#,
        limit(BLOCK_LAST, 2.0, 20),
    )
    .with("collapse"),
    node(
        "koa-ratelimit, 100/s",
        "koa_ratelimit.js",
        r#"{"max":100,"duration":1000}"#,
        limit(FIRST, 100.0, 100),
    )
    .with("early-retry-after"),
    node(
        "koa-ratelimit, 30/3s",
        "koa_ratelimit.js",
        r#"{"max":30,"duration":3000}"#,
        limit(FIRST, 10.0, 30),
    )
    .with("early-retry-after"),
    node(
        "hono-rate-limiter, 100/s",
        "hono_rate_limiter.js",
        r#"{"limit":100,"windowMs":1000}"#,
        limit(FIRST, 100.0, 100),
    ),
    node(
        "hono-rate-limiter, 25/5s",
        "hono_rate_limiter.js",
        r#"{"limit":25,"windowMs":5000}"#,
        limit(FIRST, 5.0, 25),
    ),
    node(
        "limiter, 100/s burst 20",
        "limiter.js",
        r#"{"bucketSize":20,"tokensPerInterval":100,"interval":"second"}"#,
        limit(TOKEN, 100.0, 20),
    ),
    node(
        "limiter, 10/s burst 10",
        "limiter.js",
        r#"{"bucketSize":10,"tokensPerInterval":10,"interval":"second"}"#,
        limit(TOKEN, 10.0, 10),
    ),
    node(
        "limiter, 20/s burst 50",
        "limiter.js",
        r#"{"bucketSize":50,"tokensPerInterval":20,"interval":"second"}"#,
        limit(TOKEN, 20.0, 50),
    ),
    node(
        "rolling-rate-limiter, 20/s",
        "rolling_rate_limiter.js",
        r#"{"maxInInterval":20,"interval":1000}"#,
        limit(COUNTS_REFUSED, 20.0, 20),
    )
    .with("collapse"),
    node(
        "rolling-rate-limiter, 100/5s",
        "rolling_rate_limiter.js",
        r#"{"maxInInterval":100,"interval":5000}"#,
        limit(COUNTS_REFUSED, 20.0, 100),
    )
    .with("collapse"),
    node(
        "Bottleneck, reservoir 20/s",
        "bottleneck.js",
        r#"{"reservoir":20,"reservoirRefreshAmount":20,"reservoirRefreshInterval":1000,"highWater":0}"#,
        limit(CLOCK, 20.0, 20),
    ),
    python(
        "slowapi, 100/second, fixed-window",
        "slowapi_limits.py",
        r#"{"limit":"100/second","strategy":"fixed-window"}"#,
        limit(FIRST, 100.0, 100),
    ),
    python(
        "slowapi, 50/second, moving-window",
        "slowapi_limits.py",
        r#"{"limit":"50/second","strategy":"moving-window"}"#,
        limit(LOG, 50.0, 50),
    ),
    python(
        "slowapi, 50/second, sliding-window-counter",
        "slowapi_limits.py",
        r#"{"limit":"50/second","strategy":"sliding-window-counter"}"#,
        limit(COUNTER, 50.0, 50),
    ),
    python(
        "slowapi, 10/second;100/minute, fixed-window",
        "slowapi_limits.py",
        r#"{"limit":"10/second;100/minute","strategy":"fixed-window"}"#,
        limit(TWO, 10.0, 10),
    )
    .with("wrong-remaining"),
    python(
        "Flask-Limiter, 20/second, fixed-window",
        "flask_limiter_limits.py",
        r#"{"limit":"20/second","strategy":"fixed-window"}"#,
        limit(FIRST, 20.0, 20),
    )
    .with("early-retry-after"),
    python(
        "Flask-Limiter, 30/3 second, moving-window",
        "flask_limiter_limits.py",
        r#"{"limit":"30/3 second","strategy":"moving-window"}"#,
        limit(LOG, 10.0, 30),
    )
    .with("early-retry-after"),
    python(
        "Flask-Limiter, 100/second, sliding-window-counter",
        "flask_limiter_limits.py",
        r#"{"limit":"100/second","strategy":"sliding-window-counter"}"#,
        limit(COUNTER, 100.0, 100),
    )
    .with("early-retry-after"),
    python(
        "Flask-Limiter, 5/second;20/10 second, fixed-window",
        "flask_limiter_limits.py",
        r#"{"limit":"5/second;20/10 second","strategy":"fixed-window"}"#,
        limit(TWO, 5.0, 5),
    )
    .with("wrong-remaining"),
    python(
        "throttled-py, fixed window 100/s",
        "throttled_py.py",
        r#"{"using":"fixed_window","limit":100,"seconds":1}"#,
        limit(CLOCK, 100.0, 100),
    ),
    python(
        "throttled-py, sliding window 50/s",
        "throttled_py.py",
        r#"{"using":"sliding_window","limit":50,"seconds":1}"#,
        limit(COUNTER, 50.0, 50),
    ),
    python(
        "throttled-py, leaking bucket 20/s burst 20",
        "throttled_py.py",
        // On a clock of whole seconds, it drains all at once.
        r#"{"using":"leaking_bucket","limit":20,"seconds":1,"burst":20}"#,
        limit(CLOCK, 20.0, 20),
    ),
    python(
        "throttled-py, token bucket 5/s burst 20",
        "throttled_py.py",
        r#"{"using":"token_bucket","limit":5,"seconds":1,"burst":20}"#,
        limit(TOKEN, 5.0, 20),
    )
    .refilled_together(),
    python(
        "throttled-py, GCRA 100/s burst 20",
        "throttled_py.py",
        r#"{"using":"gcra","limit":100,"seconds":1,"burst":20}"#,
        limit(TOKEN, 100.0, 20),
    ),
    python(
        "django-ratelimit, 20/s",
        "django_limits.py",
        r#"{"ratelimit":"20/s"}"#,
        limit(CLOCK, 20.0, 20),
    ),
    python(
        "django-ratelimit, 50/5s",
        "django_limits.py",
        r#"{"ratelimit":"50/5s"}"#,
        limit(CLOCK, 10.0, 50),
    ),
    python(
        "Django REST framework, 20/s",
        "django_limits.py",
        r#"{"throttle":"20/s"}"#,
        limit(LOG, 20.0, 20),
    )
    // Its documentation says so: it reads and writes its cache in two steps.
    .with("race"),
    python(
        "aiolimiter, 20/s, refusing",
        "aiolimiter_bucket.py",
        r#"{"max_rate":20,"seconds":1,"refuse":true}"#,
        limit(TOKEN, 20.0, 20),
    ),
    python(
        "PyrateLimiter, 50/s",
        "pyrate_limits.py",
        r#"{"rates":[[50,1000]]}"#,
        limit(LOG, 50.0, 50),
    ),
    python(
        "PyrateLimiter, 10/s and 50/10s",
        "pyrate_limits.py",
        r#"{"rates":[[10,1000],[50,10000]]}"#,
        limit(TWO, 10.0, 10),
    ),
    haproxy(
        "HAProxy, http_req_rate(1s) 20",
        "requests.cfg",
        "1s",
        20,
        limit(COUNTER_COUNTS_REFUSED, 20.0, 20),
    )
    .with("collapse"),
    haproxy(
        "HAProxy, http_req_rate(10s) 100",
        "requests.cfg",
        "10s",
        100,
        limit(COUNTER_COUNTS_REFUSED, 10.0, 100),
    )
    .with("collapse"),
    haproxy(
        "HAProxy, gpc0_rate(1s) 50",
        "admitted.cfg",
        "1s",
        50,
        limit(COUNTER, 50.0, 50),
    ),
    haproxy(
        "HAProxy, gpc0_rate(2s) 20",
        "admitted.cfg",
        "2s",
        20,
        limit(COUNTER, 10.0, 20),
    ),
    envoy("Envoy, 100/s", (100, 100, "1s"), limit(TOKEN, 100.0, 100)),
    envoy(
        "Envoy, 10/0.1s burst 20",
        (20, 10, "0.1s"),
        limit(TOKEN, 100.0, 20),
    ),
    envoy(
        "Envoy, 5/0.5s burst 50",
        (50, 5, "0.5s"),
        limit(TOKEN, 10.0, 50),
    ),
    subject(
        "nginx 10r/s burst=5 nodelay",
        Server::Nginx(
            "limit_req_zone $binary_remote_addr zone=z:1m rate=10r/s;",
            "limit_req zone=z burst=5 nodelay;",
        ),
        limit(TOKEN, 10.0, 6),
    ),
    subject(
        "nginx 50r/s burst=10",
        Server::Nginx(
            "limit_req_zone $binary_remote_addr zone=z:1m rate=50r/s;",
            "limit_req zone=z burst=10;",
        ),
        limit(QUEUE, 50.0, 11),
    ),
    subject(
        "nginx 100r/s burst=20 and 10r/s burst=100",
        Server::Nginx(
            "limit_req_zone $binary_remote_addr zone=a:1m rate=100r/s; limit_req_zone $binary_remote_addr zone=b:1m rate=10r/s;",
            "limit_req zone=a burst=20 nodelay; limit_req zone=b burst=100 nodelay;",
        ),
        limit(TWO, 100.0, 21),
    ),
];
