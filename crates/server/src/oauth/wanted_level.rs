//! The level of authentication that an authorization request asks for. `acr_values` is a wish (OpenID Connect Core 3.1.2.1): the
//! user signs in again if that reaches it, and otherwise the token says what was reached. An essential `acr` of the ID token,
//! in `claims`, is met or the request fails (5.5.1.1). Everything else in `claims` is ignored.

use super::params::Params;
use crate::authentication::REACHABLE;
use identity::authentication::{Authentication, Level};
use serde::Deserialize;

/// What a request asks for.
pub(super) struct Wanted {
    /// One of these is enough. Values that are no levels of this server are not here.
    levels: Vec<Level>,
    is_essential: bool,
}

/// What has to happen, so that a request gets what it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing.
    None,
    /// The user signs in.
    SignIn,
    /// It cannot be reached, and the request fails.
    Unmet,
}

/// The parts of `claims` that are read.
#[derive(Default, Deserialize)]
struct Claims {
    #[serde(default)]
    id_token: Option<OfIdToken>,
}

#[derive(Default, Deserialize)]
struct OfIdToken {
    #[serde(default)]
    acr: Option<Acr>,
}

#[derive(Default, Deserialize)]
struct Acr {
    #[serde(default)]
    essential: bool,
    #[serde(default)]
    value: Option<String>,
    #[serde(default)]
    values: Option<Vec<String>>,
}

impl Acr {
    /// The levels among its values; all that can be reached where it names none.
    fn levels(&self) -> Vec<Level> {
        let values = self.value.iter().chain(self.values.iter().flatten());
        match (&self.value, &self.values) {
            (None, None) => REACHABLE.to_vec(),
            _ => values.filter_map(|value| Level::parse(value)).collect(),
        }
    }
}

impl Wanted {
    /// Reads the parameters of a request; `None` if it asks for nothing.
    pub fn read(params: &Params) -> Option<Wanted> {
        let claims = params.get("claims").and_then(|claims| serde_json::from_str::<Claims>(claims).ok());
        let acr = claims.and_then(|claims| claims.id_token?.acr);
        if let Some(acr) = acr.filter(|acr| acr.essential) {
            return Some(Wanted { levels: acr.levels(), is_essential: true });
        }
        // Where no page may be shown, a wish is worth what the session has.
        let values = params.get("acr_values").filter(|_| params.get("prompt") != Some("none"))?;
        Some(Wanted { levels: values.split(' ').filter_map(Level::parse).collect(), is_essential: false })
    }

    /// What has to happen for a user who is signed in like this, or not. `has_signed_in`: for this very request.
    pub fn step(&self, how: Option<&Authentication>, has_signed_in: bool) -> Step {
        if self.levels.iter().any(|level| how.is_some_and(|how| how.reaches(*level))) {
            return Step::None;
        }
        let can_reach = self.levels.iter().any(|level| REACHABLE.iter().any(|reached| reached >= level));
        match (can_reach && !has_signed_in, self.is_essential) {
            (true, _) => Step::SignIn,
            (false, true) => Step::Unmet,
            (false, false) => Step::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use identity::Time;
    use identity::authentication::Method;

    #[test]
    fn a_wish_shows_no_page_where_none_may_be_shown() {
        let silent = |name| Params::of([("prompt", "none".to_owned()), name]);
        assert!(Wanted::read(&silent(("acr_values", "1".to_owned()))).is_none());
        let essential = r#"{"id_token":{"acr":{"essential":true}}}"#.to_owned();
        assert!(Wanted::read(&silent(("claims", essential))).is_some());
    }

    fn wanted(name: &'static str, value: &str) -> Option<Wanted> {
        Wanted::read(&Params::of([(name, value.to_owned())]))
    }

    #[test]
    fn a_wish_asks_for_a_sign_in_only_if_that_reaches_it() {
        let at = Time::from_millis(1_800_000_000_000);
        let by = |methods: &[Method]| Authentication::new(at, methods);
        let (one, two) = (by(&[Method::Password]), by(&[Method::Password, Method::Otp]));
        for (values, how, step) in [
            ("1", Some(&one), Step::None),
            ("1", Some(&two), Step::None),
            ("2 1", Some(&one), Step::None),
            ("2", Some(&one), Step::None),
            ("phr", Some(&two), Step::None),
            ("urn:mace:incommon:iap:silver", Some(&one), Step::None),
            ("", Some(&one), Step::None),
            ("1", None, Step::SignIn),
            ("2", None, Step::None),
        ] {
            let wanted = wanted("acr_values", values).expect("a wish");
            assert_eq!(wanted.step(how, false), step, "{values:?} {how:?}");
        }
    }

    #[test]
    fn an_essential_level_is_met_or_fails() {
        let at = Time::from_millis(1_800_000_000_000);
        let one = Authentication::new(at, &[Method::Password]);
        for (acr, how, step) in [
            (r#"{"essential":true,"values":["2","phr"]}"#, Some(&one), Step::Unmet),
            (r#"{"essential":true,"values":["2","1"]}"#, Some(&one), Step::None),
            (r#"{"essential":true,"value":"1"}"#, None, Step::SignIn),
            (r#"{"essential":true,"value":"silver"}"#, None, Step::Unmet),
            (r#"{"essential":true,"values":[]}"#, Some(&one), Step::Unmet),
            (r#"{"essential":true}"#, Some(&one), Step::None),
        ] {
            let wanted = wanted("claims", &format!(r#"{{"id_token":{{"acr":{acr}}}}}"#)).expect("a demand");
            assert_eq!(wanted.step(how, false), step, "{acr}");
        }
    }

    #[test]
    fn a_sign_in_for_the_request_is_not_asked_for_twice() {
        let wish = wanted("acr_values", "1").expect("a wish");
        assert_eq!((wish.step(None, false), wish.step(None, true)), (Step::SignIn, Step::None));
        let demand = wanted("claims", r#"{"id_token":{"acr":{"essential":true}}}"#).expect("a demand");
        assert_eq!((demand.step(None, false), demand.step(None, true)), (Step::SignIn, Step::Unmet));
    }

    #[test]
    fn what_is_not_essential_or_cannot_be_read_asks_for_nothing() {
        for claims in [
            r#"{"id_token":{"acr":{"values":["2"]}}}"#,
            r#"{"id_token":{"acr":null,"auth_time":{"essential":true}}}"#,
            r#"{"userinfo":{"acr":{"essential":true,"value":"2"}}}"#,
            r#"{"id_token":{"acr":{"essential":"yes"}}}"#,
            r#"{"id_token":[]}"#,
            "[]",
            "acr",
            "",
        ] {
            assert!(wanted("claims", claims).is_none(), "{claims}");
        }
    }
}
