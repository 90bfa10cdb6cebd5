//! The headers that a page of another origin asks to send, in a preflight of CORS. Where no cookie counts, it may send any: the
//! list comes back as it was asked for.

use http::header::ACCESS_CONTROL_REQUEST_HEADERS;
use http::{HeaderMap, HeaderName, HeaderValue};

/// The most headers.
const NAMES_MAX: usize = 32;
/// The most bytes of all names.
const BYTES_MAX: usize = 1024;

/// The list of a preflight for its response. None if it asks for nothing, for too much, or for something that is no name.
pub fn asked_headers(preflight: &HeaderMap) -> Option<&HeaderValue> {
    let mut sent = preflight.get_all(ACCESS_CONTROL_REQUEST_HEADERS).iter();
    let (list, None) = (sent.next()?, sent.next()) else { return None };
    let mut names = list.to_str().ok().filter(|list| list.len() <= BYTES_MAX)?.split(',');
    let is_name = |name: &str| HeaderName::from_bytes(name.trim_matches([' ', '\t']).as_bytes()).is_ok();
    let few = names.clone().count() <= NAMES_MAX;
    (few && names.all(is_name)).then_some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_list_of_names_comes_back() {
        let asked = |lists: &[&str]| {
            let mut headers = HeaderMap::new();
            for list in lists {
                headers.append(ACCESS_CONTROL_REQUEST_HEADERS, list.parse().expect("a value"));
            }
            asked_headers(&headers).map(|list| list.to_str().unwrap_or_default().to_owned())
        };
        let many =
            |count: usize| (0..count).map(|number| format!("x-{number}")).collect::<Vec<_>>().join(",");
        for good in ["dpop", "authorization,traceparent", "Content-Type,\t X-Anything", &many(NAMES_MAX)] {
            assert_eq!(asked(&[good]).as_deref(), Some(good));
        }
        let long = format!("x{}", "y".repeat(BYTES_MAX));
        for wrong in ["", ",", "a,,b", "a b", "x:y", "(x)", &many(NAMES_MAX + 1), &long] {
            assert_eq!(asked(&[wrong]), None, "{wrong}");
        }
        assert_eq!((asked(&[]), asked(&["a", "b"])), (None, None));
    }
}
