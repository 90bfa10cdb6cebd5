//! Headers that handlers read: proxies are believed only as far as they are trusted, credentials read back.
#![no_main]

use http::{HeaderMap, HeaderName, HeaderValue};
use libfuzzer_sys::fuzz_target;
use server::AddressHeader;
use server::testing::parsers::{basic, bearer, cookies, forwarded, media_type, version};
use std::net::{IpAddr, Ipv4Addr};

fuzz_target!(|input: (&[u8], &[u8])| {
    let mut headers = HeaderMap::new();
    for bytes in [input.0, input.1] {
        let Ok(value) = HeaderValue::from_bytes(bytes) else { return };
        for name in ["authorization", "content-type", "cookie", "sarsen-version", "x-forwarded-for"] {
            headers.append(HeaderName::from_static(name), value.clone());
        }
    }
    let sent = String::from_utf8_lossy(input.1);
    let (proxy, stranger) = (Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(192, 0, 2, 1).into());
    assert_eq!(forwarded(&headers, stranger, &[proxy], AddressHeader::XForwardedFor), stranger, "nobody is believed who is not trusted");
    let last = sent.rsplit(',').next().and_then(|hop| hop.trim().parse::<IpAddr>().ok());
    let seen = forwarded(&headers, proxy, &[proxy], AddressHeader::XForwardedFor);
    match last.map(|address| address.to_canonical()) {
        Some(last) if last != proxy => assert_eq!(seen, last, "a trusted proxy says who it was"),
        _ => assert_eq!(seen, seen.to_canonical()),
    }
    for (name, value) in cookies(&headers, "") {
        assert!(!name.contains(['=', ';']) && !value.contains(';'));
    }
    assert!(!media_type(&headers).contains([';', 'A', 'Z']));
    assert!(basic(&headers).is_none(), "two of them");
    headers.remove("authorization");
    let Ok(value) = HeaderValue::from_bytes(input.0) else { return };
    headers.insert("authorization", value.clone());
    headers.insert("sarsen-version", value);
    let _ = (basic(&headers), version(&headers));
    if let Some(token) = bearer(&headers) {
        assert_eq!(token, token.trim_ascii());
    }
});
