//! What a user's browser does beside sending: follows redirects, and keeps cookies. Each place is one user.

use std::cell::RefCell;

use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HeaderMap, LOCATION, SET_COOKIE};
use hyper::http::uri::PathAndQuery;
use hyper::{Method, Request, StatusCode, Uri};

use crate::connection::{Answer, Connection, Message, Stamp, Trunk};
use crate::failure::Failure;
use crate::target::Target;

/// Maximum number of cookies of one user, and of bytes of one.
const MAX_COOKIES: usize = 100;
const MAX_COOKIE_BYTES: usize = 4_096;

/// State of one user.
#[derive(Debug)]
pub(crate) struct Session {
    follow: u32,
    cookies: Option<RefCell<Vec<Cookie>>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Cookie {
    name: String,
    value: String,
    path: String,
}

impl Session {
    /// Creates the state of a user, if anything is to be followed or kept.
    pub(crate) fn new(follow: u32, cookies: bool) -> Option<Session> {
        (follow > 0 || cookies).then(|| Session {
            follow,
            cookies: cookies.then(RefCell::default),
        })
    }

    /// Sends a request, and follows its redirects on the same server. Returns the last response.
    pub(crate) async fn visit(
        &self,
        open: &mut Connection,
        trunk: &Trunk,
        message: &Message,
        stamp: &Stamp,
        server: &Target,
    ) -> Result<Answer, Failure> {
        let mut request = message.request().clone();
        let mut followed = 0;
        loop {
            if followed > 0 {
                // The time of the request is that of its first write.
                stamp.again();
                if !open.is_open().await {
                    *open = trunk.connect().await?;
                }
            }
            let path = path(request.uri());
            let sent = match self.cookie_header(&path) {
                // The first message is as it was built.
                None if followed == 0 => open.ask(message, stamp).await,
                None => open.ask(&Message::new(request.clone()), stamp).await,
                Some(cookies) => {
                    let mut request = request.clone();
                    add(request.headers_mut(), &cookies);
                    open.ask(&Message::new(request), stamp).await
                }
            };
            let (answer, head) = sent?;
            self.keep(&head.headers, &path);
            let next = match followed < self.follow {
                true => redirected(&request, answer.status, &head.headers, server),
                false => None,
            };
            match next {
                Some(next) => (request, followed) = (next, followed + 1),
                None => return Ok(answer),
            }
        }
    }

    /// Returns the cookies for this path, as a header.
    fn cookie_header(&self, path: &str) -> Option<String> {
        let cookies = self.cookies.as_ref()?.borrow();
        let matching = cookies.iter().filter(|cookie| matches(path, &cookie.path));
        let pairs: Vec<_> = matching
            .map(|cookie| format!("{}={}", cookie.name, cookie.value))
            .collect();
        (!pairs.is_empty()).then(|| pairs.join("; "))
    }

    /// Keeps the cookies of a response (RFC 6265, section 5.3). They are only sent to this server.
    fn keep(&self, headers: &HeaderMap, path: &str) {
        let Some(cookies) = &self.cookies else {
            return;
        };
        let mut cookies = cookies.borrow_mut();
        for set in headers.get_all(SET_COOKIE) {
            let Some((cookie, is_kept)) = set.to_str().ok().and_then(|text| parse(text, path))
            else {
                continue;
            };
            cookies.retain(|other| (&other.name, &other.path) != (&cookie.name, &cookie.path));
            if is_kept && cookies.len() < MAX_COOKIES {
                cookies.push(cookie);
            }
        }
    }
}

fn path(uri: &Uri) -> String {
    match uri.path() {
        "" => "/".to_owned(),
        path => path.to_owned(),
    }
}

/// Adds cookies to those that the request has.
fn add(headers: &mut HeaderMap, cookies: &str) {
    let own = headers.get(COOKIE).and_then(|own| own.to_str().ok());
    let all = match own {
        Some(own) => format!("{own}; {cookies}"),
        None => cookies.to_owned(),
    };
    // They came in a header.
    if let Ok(all) = all.parse() {
        headers.insert(COOKIE, all);
    }
}

/// Parses `Set-Cookie`. Also returns whether the cookie is kept, or removed.
fn parse(text: &str, path: &str) -> Option<(Cookie, bool)> {
    if text.len() > MAX_COOKIE_BYTES {
        return None;
    }
    let mut parts = text.split(';').map(str::trim);
    let (name, value) = parts.next()?.split_once('=')?;
    if name.trim().is_empty() {
        return None;
    }
    let folder = path
        .rfind('/')
        .filter(|end| *end > 0)
        .map_or("/", |end| &path[..end]);
    let mut cookie = Cookie {
        name: name.trim().to_owned(),
        value: value.trim().to_owned(),
        path: folder.to_owned(),
    };
    let mut is_kept = true;
    for part in parts {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        match name.trim().to_ascii_lowercase().as_str() {
            "path" if value.trim().starts_with('/') => cookie.path = value.trim().to_owned(),
            "max-age" => is_kept = value.trim().parse::<i64>().is_ok_and(|seconds| seconds > 0),
            // How servers remove a cookie. Runs are too short for other dates.
            "expires" if value.contains("1970") => is_kept = false,
            _ => {}
        }
    }
    Some((cookie, is_kept))
}

/// Returns whether a cookie of `cookie` is sent to `path` (RFC 6265, section 5.1.4).
fn matches(path: &str, cookie: &str) -> bool {
    path.strip_prefix(cookie)
        .is_some_and(|rest| rest.is_empty() || cookie.ends_with('/') || rest.starts_with('/'))
}

/// Returns the request that a redirect asks for, if it is on the same server (RFC 9110, section 15.4).
fn redirected(
    request: &Request<hyper::body::Bytes>,
    status: StatusCode,
    headers: &HeaderMap,
    server: &Target,
) -> Option<Request<hyper::body::Bytes>> {
    let becomes_get = match status.as_u16() {
        301 | 302 => *request.method() == Method::POST,
        303 => *request.method() != Method::HEAD,
        307 | 308 => false,
        _ => return None,
    };
    let location = headers.get(LOCATION)?.to_str().ok()?;
    let location = location.split('#').next().unwrap_or_default();
    let is_absolute =
        (location.split_once("://")).is_some_and(|(scheme, _)| !scheme.contains(['/', '?']));
    let place = if is_absolute {
        let target = Target::parse(location)
            .ok()
            .filter(|target| target.is_at(server))?;
        target.path().clone()
    } else if location.starts_with("//") {
        let scheme = if server.is_tls() { "https" } else { "http" };
        let target = Target::parse(&format!("{scheme}:{location}")).ok();
        target.filter(|target| target.is_at(server))?.path().clone()
    } else if location.starts_with('/') {
        location.parse::<PathAndQuery>().ok()?
    } else {
        let path = path(request.uri());
        let base = match location.starts_with('?') {
            true => &path[..],
            false => path.rfind('/').map_or("/", |end| &path[..=end]),
        };
        format!("{base}{location}").parse::<PathAndQuery>().ok()?
    };
    let mut next = request.clone();
    let mut parts = next.uri().clone().into_parts();
    parts.path_and_query = Some(place);
    *next.uri_mut() = Uri::from_parts(parts).ok()?;
    if becomes_get {
        *next.method_mut() = Method::GET;
        *next.body_mut() = hyper::body::Bytes::new();
        next.headers_mut().remove(CONTENT_TYPE);
        next.headers_mut().remove(CONTENT_LENGTH);
    }
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(method: Method, status: u16, location: &str) -> Option<String> {
        let request = Request::builder()
            .method(method)
            .uri("/a/b?c=d")
            .body("body".into())
            .unwrap();
        let headers = [(LOCATION, location.parse().unwrap())]
            .into_iter()
            .collect();
        let server = Target::parse("http://127.0.0.1:8080/").unwrap();
        let status = StatusCode::from_u16(status).unwrap();
        let next = redirected(&request, status, &headers, &server)?;
        Some(format!(
            "{} {} {}",
            next.method(),
            next.uri(),
            next.body().len()
        ))
    }

    #[test]
    fn redirects_on_the_same_server_are_followed() {
        for (method, status, location, expected) in [
            (Method::GET, 301, "/x?y=z", Some("GET /x?y=z 4")),
            (Method::POST, 302, "/x", Some("GET /x 0")),
            (Method::PUT, 302, "/x", Some("PUT /x 4")),
            (Method::PUT, 303, "/x", Some("GET /x 0")),
            (Method::POST, 307, "/x", Some("POST /x 4")),
            (
                Method::POST,
                308,
                "http://127.0.0.1:8080/x#f",
                Some("POST /x 4"),
            ),
            (Method::GET, 302, "//127.0.0.1:8080/x", Some("GET /x 4")),
            (Method::GET, 302, "x", Some("GET /a/x 4")),
            (Method::GET, 302, "?e=f", Some("GET /a/b?e=f 4")),
            (
                Method::GET,
                302,
                "/x?to=http://h/",
                Some("GET /x?to=http://h/ 4"),
            ),
            (
                Method::GET,
                302,
                "x?to=http://h/",
                Some("GET /a/x?to=http://h/ 4"),
            ),
            (Method::GET, 302, "http://127.0.0.1:8081/x", None),
            (Method::GET, 302, "https://127.0.0.1:8080/x", None),
            (Method::GET, 302, "//example.org/x", None),
            (Method::GET, 302, "/a b", None),
            (Method::GET, 304, "/x", None),
            (Method::GET, 200, "/x", None),
        ] {
            let found = follow(method, status, location);
            assert_eq!(found.as_deref(), expected, "{status} {location}");
        }
    }

    #[test]
    fn cookies_are_kept_by_name_and_path() {
        let session = Session::new(0, true).unwrap();
        let keep = |path: &str, set: &[&str]| {
            let headers = set
                .iter()
                .map(|set| (SET_COOKIE, set.parse().unwrap()))
                .collect();
            session.keep(&headers, path);
        };
        let sent = |path: &str| session.cookie_header(path).unwrap_or_default();
        keep(
            "/shop/login",
            &["a=1; Path=/", "b=2; HttpOnly", "c = 3 ; path=/shop/"],
        );
        assert_eq!(sent("/shop/x"), "a=1; b=2; c=3");
        assert_eq!(sent("/shopping"), "a=1");
        keep("/", &["a=9; Path=/; Max-Age=60", "=x", "nonsense"]);
        assert_eq!(sent("/"), "a=9");
        keep(
            "/shop/out",
            &[
                "a=; Path=/; Max-Age=0",
                "b=; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
            ],
        );
        assert_eq!((sent("/").as_str(), sent("/shop/x").as_str()), ("", "c=3"));
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, "own=1".parse().unwrap());
        add(&mut headers, "c=3");
        assert_eq!(headers[COOKIE], "own=1; c=3");
        assert!(Session::new(0, false).is_none());
    }
}
