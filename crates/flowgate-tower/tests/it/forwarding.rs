//! Who the client is, behind proxies: tables, and anything at all.

use flowgate::AddressPrefixes;
use flowgate_tower::RequestHead;
use flowgate_tower::by::{self, AddressSource, KeySource, NoKey, TrustedProxies};
use http::Request;
use proptest::prelude::*;
use std::net::{IpAddr, SocketAddr};

const PROXIES: [&str; 2] = ["10.0.0.0/8", "2001:db8:f::/48"];

fn x_forwarded_for() -> TrustedProxies {
    TrustedProxies::x_forwarded_for(PROXIES.map(|range| range.parse().expect("a range")))
}

fn forwarded() -> TrustedProxies {
    TrustedProxies::forwarded(PROXIES.map(|range| range.parse().expect("a range")))
}

fn request(peer: Option<&str>, name: &str, lines: &[&[u8]]) -> Request<()> {
    let mut request = http::Request::builder();
    for line in lines {
        request = request.header(name, *line);
    }
    let mut request = request.body(()).expect("a request");
    if let Some(peer) = peer {
        let peer: SocketAddr = peer.parse().expect("a socket address");
        request.extensions_mut().insert(peer);
    }
    request
}

fn client(
    proxies: TrustedProxies,
    peer: Option<&str>,
    name: &str,
    lines: &[&str],
) -> Result<String, NoKey> {
    let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
    let request = request(peer, name, &lines);
    let address = by::client_address(proxies).address(&RequestHead::of(&request))?;
    Ok(address.to_string())
}

const PROXY: &str = "10.0.0.9:1234";

#[test]
fn x_forwarded_for_is_read_from_the_right_as_far_as_proxies_are_trusted() {
    let table: &[(&str, &[&str], Result<&str, NoKey>)] = &[
        // One hop.
        (PROXY, &["192.0.2.7"], Ok("192.0.2.7")),
        // What the client invented is to the left.
        (PROXY, &["1.1.1.1, 192.0.2.7"], Ok("192.0.2.7")),
        (PROXY, &["10.0.0.1, 192.0.2.7"], Ok("192.0.2.7")),
        (PROXY, &["garbage, \"\\, 192.0.2.7"], Ok("192.0.2.7")),
        // Two hops, and three.
        (PROXY, &["1.1.1.1, 192.0.2.7, 10.3.2.1"], Ok("192.0.2.7")),
        (
            PROXY,
            &["192.0.2.7,2001:db8:f::1,10.3.2.1"],
            Ok("192.0.2.7"),
        ),
        // Several lines are one list.
        (
            PROXY,
            &["1.1.1.1", "192.0.2.7", "10.1.1.1"],
            Ok("192.0.2.7"),
        ),
        (PROXY, &["192.0.2.7", "10.2.2.2, 10.1.1.1"], Ok("192.0.2.7")),
        // Empty entries are none.
        (
            PROXY,
            &["192.0.2.7, ,", "", " , 10.1.1.1,"],
            Ok("192.0.2.7"),
        ),
        // All trusted: from within; the farthest one.
        (PROXY, &["10.0.0.1, 10.0.0.2"], Ok("10.0.0.1")),
        (PROXY, &["", ","], Ok("10.0.0.9")),
        (PROXY, &[], Ok("10.0.0.9")),
        // Ports and brackets.
        (PROXY, &["192.0.2.7:4711"], Ok("192.0.2.7")),
        (PROXY, &["[2001:db8::7]:4711"], Ok("2001:db8::7")),
        (PROXY, &["[2001:db8::7]"], Ok("2001:db8::7")),
        (PROXY, &["2001:DB8::7"], Ok("2001:db8::7")),
        (PROXY, &["\t192.0.2.7 "], Ok("192.0.2.7")),
        // Mapped addresses are the same as unmapped ones, on either side.
        (PROXY, &["192.0.2.7, ::ffff:10.1.1.1"], Ok("192.0.2.7")),
        ("[::ffff:10.0.0.9]:1", &["192.0.2.7"], Ok("192.0.2.7")),
        (PROXY, &["::ffff:192.0.2.7"], Ok("192.0.2.7")),
        // Not an address, where one is needed.
        (PROXY, &["unknown"], Err(NoKey::Malformed)),
        (
            PROXY,
            &["192.0.2.7, unknown, 10.1.1.1"],
            Err(NoKey::Malformed),
        ),
        (PROXY, &["192.0.2.256"], Err(NoKey::Malformed)),
        (PROXY, &["192.0.2.7:port"], Err(NoKey::Malformed)),
        (PROXY, &["192.0.2.7:99999"], Err(NoKey::Malformed)),
        (PROXY, &["[192.0.2.7]"], Err(NoKey::Malformed)),
        (PROXY, &["[2001:db8::7"], Err(NoKey::Malformed)),
        (PROXY, &["[2001:db8::7]x"], Err(NoKey::Malformed)),
        (PROXY, &["fe80::1%eth0"], Err(NoKey::Malformed)),
        (PROXY, &["010.1.1.1"], Err(NoKey::Malformed)),
        (PROXY, &["\"192.0.2.7\""], Err(NoKey::Malformed)),
        (PROXY, &["192.0.2.7 10.1.1.1"], Err(NoKey::Malformed)),
        // A peer that is not trusted is the client, whatever it sends.
        ("198.51.100.1:1", &["192.0.2.7"], Ok("198.51.100.1")),
        ("198.51.100.1:1", &["unknown"], Ok("198.51.100.1")),
    ];
    for (peer, lines, expected) in table {
        let found = client(x_forwarded_for(), Some(peer), "x-forwarded-for", lines);
        assert_eq!(found.as_deref(), expected.as_deref(), "{peer} {lines:?}");
    }
}

#[test]
fn forwarded_is_read_from_the_right_as_far_as_proxies_are_trusted() {
    let table: &[(&[&str], Result<&str, NoKey>)] = &[
        (&["for=192.0.2.7"], Ok("192.0.2.7")),
        (&["For=192.0.2.7;proto=https;by=10.0.0.9"], Ok("192.0.2.7")),
        (&["by=10.0.0.9 ; for=192.0.2.7"], Ok("192.0.2.7")),
        (
            &["for=1.1.1.1, for=192.0.2.7, for=10.1.1.1"],
            Ok("192.0.2.7"),
        ),
        (&["for=192.0.2.7", "for=10.1.1.1"], Ok("192.0.2.7")),
        (&["for=\"[2001:db8::7]:4711\""], Ok("2001:db8::7")),
        (&["for=\"[2001:db8::7]\""], Ok("2001:db8::7")),
        (&["for=\"192.0.2.7:4711\""], Ok("192.0.2.7")),
        (&["for=\"192.0.2.7:_hidden\""], Ok("192.0.2.7")),
        (&["for=\"[2001:db8::7]:_x.y-z\""], Ok("2001:db8::7")),
        // A quoted pair is its second character.
        (&["for=\"192\\.0.2.7\""], Ok("192.0.2.7")),
        // A comma and a semicolon between quotes separate nothing.
        (
            &["for=192.0.2.7;ext=\"a, for=10.1.1.1; b\""],
            Ok("192.0.2.7"),
        ),
        // Often written without the quotes that it needs.
        (&["for=192.0.2.7:4711"], Ok("192.0.2.7")),
        (&["for=[2001:db8::7]:4711"], Ok("2001:db8::7")),
        (&["for=10.0.0.1, for=10.0.0.2"], Ok("10.0.0.1")),
        (&[", for=192.0.2.7 ,, "], Ok("192.0.2.7")),
        (&[], Ok("10.0.0.9")),
        // Whom it is for is hidden.
        (&["for=unknown"], Err(NoKey::Malformed)),
        (&["for=_hidden"], Err(NoKey::Malformed)),
        (&["for=\"_gazonk\", for=10.1.1.1"], Err(NoKey::Malformed)),
        (&["proto=https"], Err(NoKey::Malformed)),
        (&["for=\"\""], Err(NoKey::Malformed)),
        (&["for="], Err(NoKey::Malformed)),
        (&["for"], Err(NoKey::Malformed)),
        (&["for=1.1.1.1;for=192.0.2.7"], Err(NoKey::Malformed)),
        (&["for = 192.0.2.7"], Err(NoKey::Malformed)),
        (&["=192.0.2.7"], Err(NoKey::Malformed)),
        (&["for=192.0.2.7;"], Err(NoKey::Malformed)),
        (&["192.0.2.7"], Err(NoKey::Malformed)),
        // A client's quotes that do not match, and what a proxy appended: its own request is what it spoils.
        (&["for=\"1.1.1.1, for=192.0.2.7"], Err(NoKey::Malformed)),
        (&["for=1.1.1.1;x=\", for=192.0.2.7"], Err(NoKey::Malformed)),
        (&["for=1.1.1.1,\", for=192.0.2.7"], Err(NoKey::Malformed)),
        (
            &["for=\"1.1.1.1, for=\"[2001:db8::7]\""],
            Err(NoKey::Malformed),
        ),
        (
            &["for=\"1.1.1.1\\, for=\"[2001:db8::7]\""],
            Err(NoKey::Malformed),
        ),
        (
            &["x=\", for=\"[2001:db8::7]\";by=\"[2001:db8:f::1]\""],
            Err(NoKey::Malformed),
        ),
        // On a line of its own, what a client wrote is never looked at.
        (&["for=\"1.1.1.1", "for=192.0.2.7"], Ok("192.0.2.7")),
    ];
    for (lines, expected) in table {
        let found = client(forwarded(), Some(PROXY), "forwarded", lines);
        assert_eq!(found.as_deref(), expected.as_deref(), "{lines:?}");
    }
}

/// A proxy that writes one of the fields passes on what clients send as the other.
#[test]
fn the_field_that_was_not_chosen_is_not_looked_at() {
    let spoofed = ["for=1.1.1.1"];
    let found = client(x_forwarded_for(), Some(PROXY), "forwarded", &spoofed);
    assert_eq!(found.as_deref(), Ok("10.0.0.9"));
    let found = client(forwarded(), Some(PROXY), "x-forwarded-for", &["1.1.1.1"]);
    assert_eq!(found.as_deref(), Ok("10.0.0.9"));
}

#[test]
fn without_a_peer_nobody_is_believed_unless_the_peer_is_trusted_whoever_it_is() {
    let lines = ["1.1.1.1, 192.0.2.7"];
    let found = client(x_forwarded_for(), None, "x-forwarded-for", &lines);
    assert_eq!(found, Err(NoKey::NoPeerAddress));
    let through_a_socket = x_forwarded_for().trust_peer();
    let found = client(through_a_socket.clone(), None, "x-forwarded-for", &lines);
    assert_eq!(found.as_deref(), Ok("192.0.2.7"));
    let found = client(through_a_socket, None, "x-forwarded-for", &[]);
    assert_eq!(found, Err(NoKey::Missing));
}

#[test]
fn the_key_is_the_addresses_prefix() {
    let request = request(Some(PROXY), "x-forwarded-for", &[b"2001:db8:1:2:3::4"]);
    let source = by::client_address(x_forwarded_for());
    let key = source.key(&RequestHead::of(&request)).expect("an address");
    assert_eq!(key.to_string(), "2001:db8:1:2::/64");
    let sites = AddressPrefixes::new(24, 48).expect("within range");
    let key = source
        .prefixes(sites)
        .key(&RequestHead::of(&request))
        .expect("an address");
    assert_eq!(key.to_string(), "2001:db8:1::/48");
}

#[test]
fn how_much_is_read_is_bounded() {
    let long = format!("{}192.0.2.7", ",".repeat(9000));
    for lines in [
        vec![long.as_str()],
        vec!["192.0.2.7", &long[..8000], &long[..8000]],
    ] {
        let found = client(x_forwarded_for(), Some(PROXY), "x-forwarded-for", &lines);
        assert_eq!(found, Err(NoKey::Malformed));
    }
    // What is to the left of the client costs nothing.
    let found = client(
        x_forwarded_for(),
        Some(PROXY),
        "x-forwarded-for",
        &[&long, "192.0.2.7"],
    );
    assert_eq!(found.as_deref(), Ok("192.0.2.7"));
}

#[test]
fn a_range_says_what_is_wrong_with_it() {
    let table = [
        (
            "10.0.0.0/33",
            "`10.0.0.0/33`: a prefix length of 33 is out of range: 0 to 32",
        ),
        (
            "::/129",
            "`::/129`: a prefix length of 129 is out of range: 0 to 128",
        ),
        (
            "::ffff:10.0.0.0/95",
            "`::ffff:10.0.0.0/95`: a prefix length of 95 is out of range: 96 to 128",
        ),
        (
            "10.0.0.0/",
            "`10.0.0.0/`: what follows the `/` is not a number of bits",
        ),
        (
            "10.0.0.0/+8",
            "`10.0.0.0/+8`: what follows the `/` is not a number of bits",
        ),
        (
            "10.0.0.0/8/8",
            "`10.0.0.0/8/8`: what follows the `/` is not a number of bits",
        ),
        (
            "10.0.0/8",
            "`10.0.0/8`: not an address, such as 10.0.0.0/8 or 2001:db8::/32",
        ),
        (
            "",
            "``: not an address, such as 10.0.0.0/8 or 2001:db8::/32",
        ),
    ];
    for (text, expected) in table {
        let error = text.parse::<by::AddressRange>().expect_err(text);
        assert_eq!(error.to_string(), expected);
    }
    let mapped: by::AddressRange = "::ffff:10.0.0.0/104".parse().expect("a range");
    assert_eq!(mapped.to_string(), "10.0.0.0/8");
    let all: by::AddressRange = "0.0.0.0/0".parse().expect("a range");
    assert!(all.contains(IpAddr::from([255, 0, 0, 1])) && !all.contains("::1".parse().unwrap()));
}

fn an_address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<[u8; 4]>().prop_map(IpAddr::from),
        any::<[u16; 8]>().prop_map(IpAddr::from),
        any::<[u8; 3]>().prop_map(|[a, b, c]| IpAddr::from([10, a, b, c])),
    ]
}

/// What may be in a header field, and much of what matters here.
fn a_line() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        3 => "[ -~\t]{0,6}".prop_map(String::into_bytes),
        1 => prop::collection::vec(0x80u8.., 0..3),
        3 => prop::sample::select(vec!["\"", "\\", ",", ";", "=", "for=", "[", "]", ":", "_x", "unknown", "for=1.1.1.1;x=\""])
            .prop_map(|text| text.as_bytes().to_vec()),
        2 => an_address().prop_map(|address| address.to_string().into_bytes()),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn is_trusted(address: IpAddr) -> bool {
    let ranges = PROXIES.map(|range| range.parse::<by::AddressRange>().expect("a range"));
    ranges.iter().any(|range| range.contains(address))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// Whatever a client sends, on lines of its own: what proxies write after it is what counts.
    #[test]
    fn spoofed_fields_change_nothing(
        spoofed in prop::collection::vec(a_line(), 0..4),
        true_client in an_address().prop_filter("a client", |address| !is_trusted(*address)),
        proxies in prop::collection::vec(any::<[u8; 3]>(), 0..3),
    ) {
        let hops = std::iter::once(true_client).chain(proxies.iter().map(|[a, b, c]| IpAddr::from([10, *a, *b, *c])));
        let hops: Vec<IpAddr> = hops.collect();
        let expected = Ok(true_client.to_canonical());

        let plain: Vec<String> = hops.iter().map(IpAddr::to_string).collect();
        let written = plain.join(", ");
        let mut lines: Vec<&[u8]> = spoofed.iter().map(Vec::as_slice).collect();
        lines.push(written.as_bytes());
        let seen = request(Some(PROXY), "x-forwarded-for", &lines);
        prop_assert_eq!(by::client_address(x_forwarded_for()).address(&RequestHead::of(&seen)), expected);

        // On the same line.
        let mut one_line = spoofed.concat();
        one_line.extend_from_slice(b", ");
        one_line.extend_from_slice(written.as_bytes());
        let seen = request(Some(PROXY), "x-forwarded-for", &[&one_line]);
        prop_assert_eq!(by::client_address(x_forwarded_for()).address(&RequestHead::of(&seen)), expected);

        let quoted: Vec<String> = hops.iter().map(|hop| match hop {
            IpAddr::V4(hop) => format!("for={hop};proto=https"),
            IpAddr::V6(hop) => format!("for=\"[{hop}]:80\""),
        }).collect();
        let written = quoted.join(", ");
        let mut lines: Vec<&[u8]> = spoofed.iter().map(Vec::as_slice).collect();
        lines.push(written.as_bytes());
        let seen = request(Some(PROXY), "forwarded", &lines);
        prop_assert_eq!(by::client_address(forwarded()).address(&RequestHead::of(&seen)), expected);

        // On the same line a client can spoil its own request, and nothing else.
        let mut one_line = spoofed.concat();
        one_line.extend_from_slice(b", ");
        one_line.extend_from_slice(written.as_bytes());
        let seen = request(Some(PROXY), "forwarded", &[&one_line]);
        let found = by::client_address(forwarded()).address(&RequestHead::of(&seen));
        prop_assert!(found == expected || found == Err(NoKey::Malformed), "{:?}", found);
    }

    #[test]
    fn nothing_that_is_sent_panics(lines in prop::collection::vec(a_line(), 0..5), peer in an_address()) {
        let peer = SocketAddr::new(peer, 1).to_string();
        let lines: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
        for (name, proxies) in [("forwarded", forwarded()), ("x-forwarded-for", x_forwarded_for())] {
            let seen = request(Some(&peer), name, &lines);
            let _ = by::client_address(proxies.clone()).address(&RequestHead::of(&seen));
            let _ = by::client_address(proxies.trust_peer()).address(&RequestHead::of(&seen));
            let _ = by::header_name(name.parse().expect("a name")).key(&RequestHead::of(&seen));
        }
    }

    #[test]
    fn a_range_contains_what_agrees_in_its_first_bits(a in any::<u32>(), b in any::<u32>(), length in 0u32..=32) {
        let range: by::AddressRange = format!("{}/{length}", std::net::Ipv4Addr::from_bits(a)).parse().expect("a range");
        let agrees = length == 0 || a >> (32 - length) == b >> (32 - length);
        prop_assert_eq!(range.contains(IpAddr::from(b.to_be_bytes())), agrees);
    }
}
