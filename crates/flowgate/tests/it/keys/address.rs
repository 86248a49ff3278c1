//! Which addresses share a key, by tables.

use flowgate::{AddressKey, AddressPrefixes};
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn prefixes(v4: u8, v6: u8) -> AddressPrefixes {
    AddressPrefixes::new(v4, v6).expect("within range")
}

/// Each of these, by `prefixes`, is written so, and so is its key again.
#[track_caller]
fn assert_written(prefixes: AddressPrefixes, table: &[(&str, &str)]) {
    for &(address, written) in table {
        let key = prefixes.key(ip(address));
        assert_eq!(key.to_string(), written, "{address}");
        assert_eq!(format!("{key:?}"), format!("AddressKey({written})"));
        assert_eq!(
            prefixes.key(key.network()),
            key,
            "{address}: the key of a key's network is itself"
        );
    }
}

#[test]
fn an_ipv4_address_is_a_key_and_so_are_64_bits_of_an_ipv6_one() {
    let table = [
        ("192.0.2.7", "192.0.2.7"),
        ("0.0.0.0", "0.0.0.0"),
        ("255.255.255.255", "255.255.255.255"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("2001:db8::1", "2001:db8::/64"),
        ("::1", "::/64"),
        ("::", "::/64"),
        ("fe80::1", "fe80::/64"),
        (
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "ffff:ffff:ffff:ffff::/64",
        ),
    ];
    assert_written(AddressPrefixes::default(), &table);
    for (address, written) in table {
        assert_eq!(AddressKey::new(ip(address)).to_string(), written);
    }
}

/// The examples of RFC 5952, §2 to §5, by their whole length.
#[test]
fn whole_ipv6_addresses_are_written_as_rfc_5952_says() {
    let whole = prefixes(32, 128);
    let same = [
        "2001:db8:0:0:1:0:0:1",
        "2001:0db8:0:0:1:0:0:1",
        "2001:db8::1:0:0:1",
        "2001:db8::0:1:0:0:1",
        "2001:0db8::1:0:0:1",
        "2001:db8:0:0:1::1",
        "2001:db8:0000:0:1::1",
        "2001:DB8:0:0:1::1",
    ];
    for address in same {
        assert_written(whole, &[(address, "2001:db8::1:0:0:1")]);
    }
    let table = [
        // §4.1: no leading zeros.
        ("2001:0db8::0001", "2001:db8::1"),
        // §4.2.1: as much as possible is left out.
        ("2001:db8::0:1", "2001:db8::1"),
        ("2001:db8:0:0:0:0:2:1", "2001:db8::2:1"),
        // §4.2.2: but not a single field.
        ("2001:db8::1:1:1:1:1", "2001:db8:0:1:1:1:1:1"),
        ("2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"),
        // §4.2.3: the longest run, the first of equal ones.
        ("2001:0:0:1:0:0:0:1", "2001:0:0:1::1"),
        ("2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"),
        // §4.3: lower case.
        (
            "2001:DB8:AAAA:BBBB:CCCC:DDDD:EEEE:AAAA",
            "2001:db8:aaaa:bbbb:cccc:dddd:eeee:aaaa",
        ),
        ("2001:db8::AbCd:0:0:0:1", "2001:db8:0:abcd::1"),
        ("::", "::"),
        ("::1", "::1"),
        // §5: what is mapped is an IPv4 address.
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("::FFFF:c000:201", "192.0.2.1"),
    ];
    assert_written(whole, &table);
}

#[test]
fn lengths_of_every_kind() {
    let table = [
        (0, 0, "198.51.100.217", "0.0.0.0/0"),
        (1, 0, "198.51.100.217", "128.0.0.0/1"),
        (8, 0, "198.51.100.217", "198.0.0.0/8"),
        (20, 0, "198.51.100.217", "198.51.96.0/20"),
        (24, 0, "198.51.100.217", "198.51.100.0/24"),
        (31, 0, "198.51.100.217", "198.51.100.216/31"),
        (32, 0, "198.51.100.217", "198.51.100.217"),
        (32, 0, "2001:db8:a:bcd:1:2:3:4", "::/0"),
        (32, 1, "fe80::1", "8000::/1"),
        (32, 32, "2001:db8:a:bcd:1:2:3:4", "2001:db8::/32"),
        (32, 48, "2001:db8:a:bcd:1:2:3:4", "2001:db8:a::/48"),
        (32, 56, "2001:db8:a:bcd:1:2:3:4", "2001:db8:a:b00::/56"),
        (32, 60, "2001:db8:a:bcd:1:2:3:4", "2001:db8:a:bc0::/60"),
        (32, 64, "2001:db8:a:bcd:1:2:3:4", "2001:db8:a:bcd::/64"),
        (32, 96, "2001:db8:a:bcd:1:2:3:4", "2001:db8:a:bcd:1:2::/96"),
        (
            32,
            127,
            "2001:db8:a:bcd:1:2:3:5",
            "2001:db8:a:bcd:1:2:3:4/127",
        ),
        (32, 128, "2001:db8:a:bcd:1:2:3:5", "2001:db8:a:bcd:1:2:3:5"),
    ];
    for (v4, v6, address, written) in table {
        let prefixes = prefixes(v4, v6);
        assert_written(prefixes, &[(address, written)]);
        let key = prefixes.key(ip(address));
        let length = if ip(address).is_ipv4() { v4 } else { v6 };
        assert_eq!(key.prefix_length(), length, "{address}");
        assert_eq!(key.network().is_ipv4(), ip(address).is_ipv4());
    }
}

#[test]
fn a_mapped_address_is_the_ipv4_address_whatever_the_lengths() {
    for v4 in 0..=32 {
        for v6 in 0..=128 {
            let prefixes = prefixes(v4, v6);
            let (plain, mapped) = (ip("203.0.113.129"), ip("::ffff:203.0.113.129"));
            assert_eq!(prefixes.key(plain), prefixes.key(mapped));
        }
    }
}

/// No key of one kind is also one of the other, also beside the mapped addresses.
#[test]
fn kinds_do_not_meet() {
    let v6 = [
        "::",
        "::1",
        "::192.0.2.7",
        "::fffe:ffff:ffff",
        "::fffe:c000:207",
        "::1:0:0:0",
        "::1:ffff:c000:207",
        "ffff::ffff:c000:207",
        "64:ff9b::192.0.2.7",
        "2002:c000:207::",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    ];
    let v4 = ["0.0.0.0", "192.0.2.7", "255.255.255.255"];
    for bits in 0..=128 {
        for v4_bits in 0..=32 {
            let prefixes = prefixes(v4_bits, bits);
            for v4 in v4 {
                let v4 = prefixes.key(ip(v4));
                assert!(v4.network().is_ipv4() && v4.prefix_length() == v4_bits);
                for v6 in v6 {
                    let v6 = prefixes.key(ip(v6));
                    assert!(v6.network().is_ipv6(), "{v6}");
                    assert_ne!(v4, v6);
                }
            }
        }
    }
}

/// Two addresses have one key exactly if all bits that count agree.
#[test]
fn each_bit_that_counts_makes_another_key() {
    let address = 0x2001_0db8_000a_0bcd_0001_0002_0003_0004_u128;
    for length in [0, 1, 47, 48, 63, 64, 65, 127, 128] {
        let prefixes = prefixes(32, length);
        let key = |bits: u128| prefixes.key(IpAddr::V6(bits.into()));
        for bit in 0..128 {
            let other = key(address ^ 1 << 127 >> bit);
            assert_eq!(other != key(address), bit < length, "bit {bit} of {length}");
        }
    }
    let address = 0xc633_64d9_u32;
    for length in [0, 1, 23, 24, 25, 31, 32] {
        let prefixes = prefixes(length, 64);
        let key = |bits: u32| prefixes.key(IpAddr::V4(bits.into()));
        for bit in 0..32 {
            let other = key(address ^ 1 << 31 >> bit);
            assert_eq!(other != key(address), bit < length, "bit {bit} of {length}");
        }
    }
}

/// Lengths are part of the key: a network is not the address that it begins with.
#[test]
fn a_network_is_not_its_first_address() {
    let (wide, narrow) = (prefixes(24, 56), prefixes(32, 128));
    for address in ["192.0.2.0", "2001:db8::"] {
        assert_ne!(wide.key(ip(address)), narrow.key(ip(address)));
    }
}

#[test]
fn ports_and_scopes_are_left_behind() {
    let keys: HashSet<AddressKey> = ["[fe80::1%1]:80", "[fe80::1%2]:443", "[fe80::2]:80"]
        .into_iter()
        .map(|peer| AddressKey::new(peer.parse::<SocketAddr>().expect("a socket's address").ip()))
        .collect();
    assert_eq!(keys.len(), 1);
}

#[test]
fn what_is_written_inside_an_address_is_not_looked_at() {
    // Translated (RFC 6052): all in one network.
    let key = |text| AddressKey::new(ip(text));
    assert_eq!(key("64:ff9b::192.0.2.7"), key("64:ff9b::198.51.100.1"));
    // 6to4 (RFC 3056): 65,536 networks for one.
    assert_ne!(key("2002:c000:207:1::1"), key("2002:c000:207:2::1"));
    // IPv4-compatible, which nobody uses any more.
    assert_ne!(key("::192.0.2.7"), key("192.0.2.7"));
}

#[test]
fn keys_are_in_the_order_of_their_networks() {
    let mut keys = ["2001:db8:2::1", "2001:db8:1::1", "192.0.2.8", "192.0.2.7"]
        .map(|a| AddressKey::new(ip(a)));
    keys.sort();
    let written = keys.map(|key| key.to_string());
    assert_eq!(
        written,
        [
            "192.0.2.7",
            "192.0.2.8",
            "2001:db8:1::/64",
            "2001:db8:2::/64"
        ]
    );
}

#[test]
fn a_key_is_small_and_made_in_a_constant() {
    const KEY: AddressKey = AddressKey::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));
    assert_eq!(KEY.to_string(), "127.0.0.1");
    assert!(size_of::<AddressKey>() <= 32);
}

#[test]
fn lengths_out_of_range_are_refused() {
    let table = [
        (
            33,
            64,
            "an IPv4 prefix length of 33 is out of range: 0 to 32",
        ),
        (
            255,
            255,
            "an IPv4 prefix length of 255 is out of range: 0 to 32",
        ),
        (
            32,
            129,
            "an IPv6 prefix length of 129 is out of range: 0 to 128",
        ),
        (
            0,
            255,
            "an IPv6 prefix length of 255 is out of range: 0 to 128",
        ),
    ];
    for (v4, v6, message) in table {
        let error = AddressPrefixes::new(v4, v6).expect_err("out of range");
        assert_eq!(error.to_string(), message);
    }
}
