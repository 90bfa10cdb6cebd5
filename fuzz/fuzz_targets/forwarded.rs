//! The header `Forwarded`: no value of a client hides or changes the address that its proxy appends.
#![no_main]

use http::header::FORWARDED;
use http::{HeaderMap, HeaderValue};
use libfuzzer_sys::fuzz_target;
use server::AddressHeader;
use server::testing::parsers::forwarded;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fuzz_target!(|input: (&[u8], &[u8], u32, u128)| {
    let (sent, inner, four, six) = input;
    let (Ok(_), Ok(whole)) = (HeaderValue::from_bytes(sent), HeaderValue::from_bytes(inner)) else { return };
    let (proxy, stranger) = (Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(192, 0, 2, 1).into());
    let read = |values: &[HeaderValue], peer: IpAddr| {
        let mut headers = HeaderMap::new();
        values.iter().for_each(|value| drop(headers.append(FORWARDED, value.clone())));
        forwarded(&headers, peer, &[proxy], AddressHeader::Forwarded)
    };
    assert_eq!(read(&[whole.clone()], stranger), stranger, "nobody is believed who is not trusted");
    let _ = read(&[whole.clone()], proxy);
    for client in [IpAddr::from(Ipv4Addr::from(four)), IpAddr::from(Ipv6Addr::from(six))] {
        let client = client.to_canonical();
        let node = if client.is_ipv4() { client.to_string() } else { format!("\"[{client}]:_x\"") };
        // As the Host of the client, which proxies write into a quoted string.
        let host: String = inner.iter().filter(|byte| byte.is_ascii_graphic()).map(|byte| char::from(*byte)).collect();
        let host = host.replace('\\', "\\\\").replace('"', "\\\"");
        let own = format!("host=\"{host}\";for={node}");
        let expected = if client == proxy { None } else { Some(client) };
        for appended in [[sent, b", ", own.as_bytes()].concat(), own.clone().into_bytes()] {
            let Ok(value) = HeaderValue::from_bytes(&appended) else { return };
            let seen = read(&[whole.clone(), value], proxy);
            assert!(expected.is_none_or(|client| seen == client), "{own}: {seen}");
        }
    }
});
