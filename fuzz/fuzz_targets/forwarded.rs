//! Whatever a client writes into a forwarding header, the walk from the right ends at the address that the trusted proxy has
//! added, or nowhere.
//!
//! `cargo +nightly fuzz run forwarded -- -dict=fuzz_targets/forwarded.dict -max_len=512`
#![no_main]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use flowgate_tower::RequestHead;
use flowgate_tower::by::{AddressSource, TrustedProxies, client_address};
use http::{HeaderName, HeaderValue, Request};
use libfuzzer_sys::fuzz_target;

const PROXY: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);

fuzz_target!(|written: &[u8]| {
    let trusted = || ["10.0.0.0/8".parse().expect("a range")];
    ask(
        TrustedProxies::x_forwarded_for(trusted()),
        "x-forwarded-for",
        written,
        b"192.0.2.7",
    );
    ask(
        TrustedProxies::forwarded(trusted()),
        "forwarded",
        written,
        b"for=192.0.2.7",
    );
});

/// The client has `written` the field, and the proxy has appended `added`: to the line that is there, or in a line of its own.
fn ask(proxies: TrustedProxies, field: &'static str, written: &[u8], added: &'static [u8]) {
    let source = client_address(proxies);
    let name = HeaderName::from_static(field);
    let appended = [written, b", ", added].concat();
    let lines = [vec![&appended[..]], vec![written, added]];
    for lines in lines {
        let mut request = Request::new(());
        request
            .extensions_mut()
            .insert(SocketAddr::from((PROXY, 4711)));
        for line in lines {
            // Others do not come through a server.
            let Ok(value) = HeaderValue::from_bytes(line) else {
                return;
            };
            request.headers_mut().append(&name, value);
        }
        if let Ok(address) = source.address(&RequestHead::of(&request)) {
            assert_eq!(address, IpAddr::from(CLIENT), "{written:?}");
        }
    }
}
