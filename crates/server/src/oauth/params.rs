//! The parameters of an OAuth request: a form as the RFCs say, or a JSON object of strings. A repeated
//! parameter is an error (RFC 6749 section 3.1), and so is one in the query of a POST. Only `resource` may repeat in a form
//! (RFC 8707 section 2).

use super::error::{OAuthError, Result};
use super::resource::RESOURCE;
use crate::web::json::{self, PARAMETERS_MAX};
use axum::extract::{FromRequest, Request};
use http::HeaderMap;
use web::percent::{self, Broken};

/// Parameters by name, in the order in which they came.
#[derive(Debug, Default, Clone)]
pub(crate) struct Params(Vec<(String, String)>);

/// The most bytes of a form or a JSON object.
const LENGTH_MAX: usize = 32 * 1024;
/// The most characters that a value of a parameter may have.
const VALUE_MAX: usize = 8192;

impl Params {
    /// Parameters whose names differ.
    pub(crate) fn of(pairs: impl IntoIterator<Item = (&'static str, String)>) -> Params {
        Params(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// Reads `a=b&c=d`. Bytes that are not UTF-8 after decoding are refused.
    pub(crate) fn from_form(bytes: &[u8]) -> Result<Params> {
        check_length(bytes)?;
        let mut params = Params::default();
        for (count, pair) in bytes.split(|byte| *byte == b'&').enumerate() {
            allow_another(count)?;
            if pair.is_empty() {
                continue;
            }
            let equals = pair.iter().position(|byte| *byte == b'=');
            let (name, value) = equals.map_or((pair, &[][..]), |at| (&pair[..at], &pair[at + 1..]));
            // Each byte has three at most.
            if pair.len() > 3 * VALUE_MAX {
                return Err(OAuthError::invalid_request("A parameter is too long."));
            }
            params.add_of_form(decoded(name)?, decoded(value)?)?;
        }
        Ok(params)
    }

    pub(crate) fn from_json(bytes: &[u8]) -> Result<Params> {
        struct Pairs(Params);
        impl<'de> serde::Deserialize<'de> for Pairs {
            fn deserialize<D: serde::Deserializer<'de>>(
                deserializer: D,
            ) -> std::result::Result<Pairs, D::Error> {
                struct Visitor;
                impl<'de> serde::de::Visitor<'de> for Visitor {
                    type Value = Pairs;
                    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        out.write_str("an object of strings")
                    }
                    fn visit_map<A: serde::de::MapAccess<'de>>(
                        self,
                        mut map: A,
                    ) -> std::result::Result<Pairs, A::Error> {
                        let mut params = Params::default();
                        let custom = |error: OAuthError| serde::de::Error::custom(error.description);
                        let mut count = 0;
                        while let Some((name, value)) = map.next_entry::<String, String>()? {
                            allow_another(count).map_err(custom)?;
                            params.add(name, value).map_err(custom)?;
                            count += 1;
                        }
                        Ok(Pairs(params))
                    }
                }
                deserializer.deserialize_map(Visitor)
            }
        }
        check_length(bytes)?;
        let pairs: std::result::Result<Pairs, _> = serde_json::from_slice(bytes);
        pairs.map(|pairs| pairs.0).map_err(|error| {
            OAuthError::invalid_request(format!("The body is not a JSON object of strings: {error}."))
        })
    }

    fn add(&mut self, name: String, value: String) -> Result<()> {
        self.check_is_first(&name)?;
        self.push(name, value)
    }

    fn add_of_form(&mut self, name: String, value: String) -> Result<()> {
        if name != RESOURCE {
            self.check_is_first(&name)?;
        }
        self.push(name, value)
    }

    fn check_is_first(&self, name: &str) -> Result<()> {
        if self.0.iter().any(|(known, _)| known == name) {
            return Err(OAuthError::invalid_request(format!("The parameter {} comes twice.", shown(name))));
        }
        Ok(())
    }

    fn push(&mut self, name: String, value: String) -> Result<()> {
        if value.len() > VALUE_MAX {
            return Err(OAuthError::invalid_request(format!("The parameter {} is too long.", shown(&name))));
        }
        // Not text to every database, and never meant.
        if value.contains('\0') {
            return Err(OAuthError::invalid_request(format!("The parameter {} holds a NUL.", shown(&name))));
        }
        // An empty value counts as left out (RFC 6749 section 3.1). A resource without a name is a wrong one.
        if !value.is_empty() || name == RESOURCE {
            self.0.push((name, value));
        }
        Ok(())
    }

    /// The value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The values of a parameter that may repeat.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The value of a parameter that must be there.
    pub(crate) fn need(&self, name: &'static str) -> Result<&str> {
        self.get(name).ok_or_else(|| OAuthError::invalid_request(format!("The parameter {name} is missing.")))
    }

    /// All of them as a form again.
    pub(crate) fn to_form(&self) -> String {
        let mut form = String::new();
        for (name, value) in &self.0 {
            if !form.is_empty() {
                form.push('&');
            }
            percent::encode_form(name, &mut form);
            form.push('=');
            percent::encode_form(value, &mut form);
        }
        form
    }
}

fn check_length(bytes: &[u8]) -> Result<()> {
    if bytes.len() <= LENGTH_MAX {
        return Ok(());
    }
    let text = format!("The parameters have more than {LENGTH_MAX} bytes.");
    Err(OAuthError::invalid_request(text))
}

/// Fails when a request that has `count` parameters may not have another one: each is compared with those before it.
fn allow_another(count: usize) -> Result<()> {
    if count < PARAMETERS_MAX {
        return Ok(());
    }
    let text = format!("The request has more than {PARAMETERS_MAX} parameters.");
    Err(OAuthError::invalid_request(text))
}

/// A name or value of a form. Stricter than [`form_urlencoded::parse`], which takes anything.
fn decoded(written: &[u8]) -> Result<String> {
    percent::decode_form(written).map_err(|broken| {
        OAuthError::invalid_request(match broken {
            Broken::Percent => "A % is not followed by two hexadecimal digits.",
            Broken::NotUtf8 => "A parameter is not UTF-8.",
        })
    })
}

/// What came from outside, short and plain enough for an error.
fn shown(name: &str) -> String {
    name.chars().filter(|letter| letter.is_ascii_graphic()).take(40).collect()
}

/// The parameters of a POST and the headers that came with them.
pub(crate) struct Posted {
    pub params: Params,
    pub headers: HeaderMap,
}

impl<S: Send + Sync> FromRequest<S> for Posted {
    type Rejection = OAuthError;
    async fn from_request(mut request: Request, _: &S) -> Result<Posted> {
        if request.uri().query().is_some_and(|query| !query.is_empty()) {
            return Err(OAuthError::invalid_request(
                "Parameters belong into the body, not into the address.",
            ));
        }
        let headers = std::mem::take(request.headers_mut());
        let media_type = json::media_type(&headers);
        let bytes = json::read_body(request).await?;
        let params = match media_type.as_str() {
            "application/x-www-form-urlencoded" => Params::from_form(&bytes)?,
            "application/json" => Params::from_json(&bytes)?,
            "" if bytes.is_empty() => Params::default(),
            _ => {
                let text =
                    "Send a form (application/x-www-form-urlencoded) or a JSON object (application/json).";
                return Err(OAuthError::invalid_request(text));
            }
        };
        Ok(Posted { params, headers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_and_json_give_the_same() {
        let form = Params::from_form(b"client_id=a%20b&scope=openid+email&empty=").expect("a form");
        let json =
            Params::from_json(br#"{"client_id":"a b","scope":"openid email","empty":""}"#).expect("JSON");
        for params in [form, json] {
            assert_eq!(params.get("client_id"), Some("a b"));
            assert_eq!(params.get("scope"), Some("openid email"));
            assert_eq!(params.get("empty"), None);
        }
    }

    #[test]
    fn a_form_is_decoded_as_anywhere_else() {
        let form: &[u8] = b"a=%41+%2B%c3%a4&b%3D=1=2&&c&=e&d=\xc3\xa4%EF%BF%BD%26";
        let params = Params::from_form(form).expect("a form");
        let elsewhere = form_urlencoded::parse(form).into_owned().filter(|(_, value)| !value.is_empty());
        assert_eq!(params.0, elsewhere.collect::<Vec<_>>());
        let all = Params::of([
            ("a", (1..128_u8).map(char::from).chain("äö€".chars()).collect()),
            ("b", "c".into()),
        ]);
        let elsewhere = form_urlencoded::Serializer::new(String::new()).extend_pairs(&all.0).finish();
        assert_eq!(all.to_form(), elsewhere);
    }

    #[test]
    fn the_number_of_parameters_is_limited_empty_ones_included() {
        let form = |count: usize, value: &str| {
            (0..count).map(|number| format!("p{number}={value}")).collect::<Vec<_>>().join("&")
        };
        let json = |count: usize| {
            let fields: Vec<String> = (0..count).map(|number| format!("\"p{number}\":\"\"")).collect();
            format!("{{{}}}", fields.join(","))
        };
        for value in ["x", ""] {
            assert!(Params::from_form(form(PARAMETERS_MAX, value).as_bytes()).is_ok());
            let refused = Params::from_form(form(PARAMETERS_MAX + 1, value).as_bytes());
            assert!(refused.is_err_and(|error| error.description.contains("64 parameters")));
        }
        assert!(Params::from_form("&".repeat(PARAMETERS_MAX).as_bytes()).is_err());
        assert!(Params::from_json(json(PARAMETERS_MAX).as_bytes()).is_ok());
        assert!(Params::from_json(json(PARAMETERS_MAX + 1).as_bytes()).is_err());
    }

    #[test]
    fn repeated_wrong_and_foreign_bytes_are_refused() {
        assert!(Params::from_form(b"a=1&a=2").is_err());
        let resources = Params::from_form(b"resource=a&resource=&resource=a").expect("may repeat");
        assert_eq!(resources.all("resource").collect::<Vec<_>>(), ["a", "", "a"]);
        assert!(Params::from_json(br#"{"resource":"a","resource":"b"}"#).is_err());
        for wrong in [&b"a=%ff"[..], b"a=\xff", b"a=%", b"a=%f", b"%zz=1", b"a=%%20"] {
            assert!(Params::from_form(wrong).is_err(), "{wrong:?}");
        }
        for wrong in [&b"{\"a\":1}"[..], b"[]", b"{\"a\":\"1\",\"a\":\"2\"}", b"{", b"null", b"\xff"] {
            assert!(Params::from_json(wrong).is_err(), "{wrong:?}");
        }
    }
}
