//! How a user has proved who they are: when, by which methods, and at which level. Sessions, authorization codes, devices
//! and grants carry this one value to the tokens, whose claims `auth_time`, `acr` and `amr` it gives.
//!
//! It is stored as words in one column: the time, the level, the methods. Words of a newer release are kept as they are, and
//! never fail. The time is in the words because an instance of an earlier release moves `authenticated_at` without them: they
//! count only for the authentication that they were written for, so a weaker one never keeps the level of a stronger one.

use crate::Time;
use std::borrow::Cow;
use store::{Cells, Column, FromRow, ToRow, ToValue as _, Value};

/// A method of authentication: the values of `amr` (RFC 8176), and four of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `pwd`: a password.
    Password,
    /// `otp`: a one-time code of an app.
    Otp,
    /// `hwk`: a key that cannot leave its device.
    HardwareKey,
    /// `swk`: a key that is synchronized between devices.
    SoftwareKey,
    /// `user`: the key's device has verified its user.
    UserVerification,
    /// `email`: a mailed code or link.
    Email,
    /// `link`: a link that an administrator made.
    Link,
    /// `fed`: another identity provider.
    Federation,
    /// `recovery`: a recovery code.
    Recovery,
}

impl Method {
    /// Returns the word in `amr` and in the stored form.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Password => "pwd",
            Method::Otp => "otp",
            Method::HardwareKey => "hwk",
            Method::SoftwareKey => "swk",
            Method::UserVerification => "user",
            Method::Email => "email",
            Method::Link => "link",
            Method::Federation => "fed",
            Method::Recovery => "recovery",
        }
    }

    fn is_key(self) -> bool {
        matches!(self, Method::HardwareKey | Method::SoftwareKey)
    }

    /// What a thief would need for it. Methods with the same need are one factor; `None` proves nothing alone.
    fn factor(self) -> Option<Factor> {
        match self {
            Method::Password => Some(Factor::Secret),
            Method::Otp => Some(Factor::App),
            Method::HardwareKey | Method::SoftwareKey => Some(Factor::Key),
            Method::UserVerification => None,
            Method::Email | Method::Link => Some(Factor::Message),
            Method::Federation => Some(Factor::Provider),
            Method::Recovery => Some(Factor::Paper),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Factor {
    Secret,
    App,
    Key,
    Message,
    Provider,
    Paper,
}

/// The level of an authentication: the values of `acr`, weakest first. A stronger level counts as each weaker one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// `1`: one factor.
    One,
    /// `2`: two factors.
    Two,
    /// `phr`: a passkey with user verification, which resists phishing.
    Passkey,
}

impl Level {
    const ALL: [Level; 3] = [Level::One, Level::Two, Level::Passkey];

    /// Returns the value of `acr`.
    pub fn as_str(self) -> &'static str {
        match self {
            Level::One => "1",
            Level::Two => "2",
            Level::Passkey => "phr",
        }
    }

    /// Parses a value of `acr`; `None` if there is no such level.
    pub fn parse(word: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.as_str() == word)
    }

    /// The level that methods reach together.
    fn of(methods: &[Method]) -> Level {
        let is_verified = methods.contains(&Method::UserVerification);
        if is_verified && methods.iter().any(|method| method.is_key()) {
            return Level::Passkey;
        }
        let first = methods.iter().find_map(|method| method.factor());
        let has_another = methods.iter().any(|method| method.factor().is_some_and(|one| Some(one) != first));
        if has_another { Level::Two } else { Level::One }
    }
}

/// An authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authentication {
    /// When the user authenticated.
    pub at: Time,
    /// The words of the level and the methods. Empty if they are not known.
    words: Box<str>,
}

impl Authentication {
    /// An authentication by these methods.
    pub fn new(at: Time, methods: &[Method]) -> Authentication {
        let level = Level::of(methods).as_str();
        let words: Vec<&str> =
            std::iter::once(level).chain(methods.iter().map(|method| method.as_str())).collect();
        Authentication { at, words: words.join(" ").into() }
    }

    /// The level; `None` if it is not known: the row is from before levels were stored, or of a newer release.
    pub fn level(&self) -> Option<Level> {
        self.words.split(' ').next().and_then(Level::parse)
    }

    /// Whether it reaches a level.
    pub fn reaches(&self, wanted: Level) -> bool {
        self.level().is_some_and(|level| level >= wanted)
    }

    /// The value of `acr`; `None` if the level is not known.
    pub fn acr(&self) -> Option<Cow<'static, str>> {
        self.level().map(|level| level.as_str().into())
    }

    /// The value of `amr`; `None` if the methods are not known.
    pub fn amr(&self) -> Option<Vec<String>> {
        /// Beside the methods of a level of more than one factor.
        const SEVERAL: &str = "mfa";
        let methods = self.words.split(' ').skip(1).filter(|word| !word.is_empty());
        let several = self.reaches(Level::Two).then_some(SEVERAL);
        let amr: Vec<String> = methods.chain(several).map(str::to_owned).collect();
        (!amr.is_empty()).then_some(amr)
    }

    /// The words of a column `authentication`.
    pub(crate) fn stored(&self) -> Value<'static> {
        match &*self.words {
            "" => Value::Null,
            words => format!("{} {words}", self.at.millis()).into(),
        }
    }

    /// The authentication of a column that is the only place of the time; `None` if it says nothing.
    pub(crate) fn of_column(stored: Option<String>) -> Option<Authentication> {
        stored.and_then(|stored| Authentication::parse(&stored))
    }

    /// The authentication at a time by the words of a column `authentication`, if they are about this time.
    pub(crate) fn of_columns(at: Time, words: Option<&str>) -> Authentication {
        let stored = words.and_then(Authentication::parse).filter(|stored| stored.at == at);
        stored.unwrap_or(Authentication { at, words: Box::default() })
    }

    fn parse(stored: &str) -> Option<Authentication> {
        let (millis, words) = stored.split_once(' ')?;
        Some(Authentication { at: Time::from_millis(millis.parse().ok()?), words: words.into() })
    }
}

/// Where the time has a column of its own.
impl FromRow for Authentication {
    const COLUMNS: &'static [Column] = COLUMNS;

    fn from_cells(cells: &mut Cells<'_, '_>) -> Result<Authentication, store::Error> {
        let at = cells.next()?;
        Ok(Authentication::of_columns(at, cells.next::<Option<String>>()?.as_deref()))
    }
}

impl ToRow for Authentication {
    const COLUMNS: &'static [Column] = COLUMNS;

    fn push_values<'v>(&'v self, values: &mut Vec<Value<'v>>) {
        values.extend([self.at.to_value(), self.stored()]);
    }
}

const COLUMNS: &[Column] = &[Column::One("authenticated_at"), Column::One("authentication")];

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Time = Time::from_millis(1_800_000_000_123);

    #[test]
    fn methods_reach_the_level_of_their_factors() {
        use Method::*;
        let rows: [(&[Method], &str, &[&str]); 10] = [
            (&[Password], "1", &["pwd"]),
            (&[Link], "1", &["link"]),
            (&[Federation], "1", &["fed"]),
            (&[Email, Link], "1", &["email", "link"]),
            (&[HardwareKey], "1", &["hwk"]),
            (&[Password, Otp], "2", &["pwd", "otp", "mfa"]),
            (&[Password, HardwareKey], "2", &["pwd", "hwk", "mfa"]),
            (&[Password, Recovery], "2", &["pwd", "recovery", "mfa"]),
            (&[SoftwareKey, UserVerification], "phr", &["swk", "user", "mfa"]),
            (&[Password, UserVerification], "1", &["pwd", "user"]),
        ];
        for (methods, acr, amr) in rows {
            let made = Authentication::new(AT, methods);
            assert_eq!(made.level().map(Level::as_str), Some(acr), "{methods:?}");
            assert_eq!(made.amr().expect("methods"), amr, "{methods:?}");
        }
    }

    #[test]
    fn a_stronger_level_counts_as_each_weaker_one() {
        let passkey = Authentication::new(AT, &[Method::HardwareKey, Method::UserVerification]);
        let password = Authentication::new(AT, &[Method::Password]);
        assert!(Level::ALL.into_iter().all(|level| passkey.reaches(level)));
        assert!(password.reaches(Level::One) && !password.reaches(Level::Two));
    }

    #[test]
    fn the_stored_words_stay_what_they_are() {
        let value = Authentication::new(AT, &[Method::Password, Method::Otp]).stored();
        assert_eq!(value, Value::from("1800000000123 2 pwd otp"));
        for method in [
            (Method::HardwareKey, "hwk"),
            (Method::SoftwareKey, "swk"),
            (Method::UserVerification, "user"),
            (Method::Email, "email"),
            (Method::Link, "link"),
            (Method::Federation, "fed"),
            (Method::Recovery, "recovery"),
        ] {
            assert_eq!(method.0.as_str(), method.1);
        }
    }

    #[test]
    fn words_of_a_newer_release_are_kept_and_never_fail() {
        let methods = Authentication::parse("1800000000123 2 pwd face").expect("is read");
        assert_eq!((methods.level(), methods.at), (Some(Level::Two), AT));
        assert_eq!(methods.amr().expect("methods"), ["pwd", "face", "mfa"]);
        assert_eq!(methods.stored(), Value::from("1800000000123 2 pwd face"), "a grant gets them all");

        let level = Authentication::parse("1800000000123 quorum hwk").expect("is read");
        assert_eq!(level.level(), None, "a level that is not known is none");
        assert!(!level.reaches(Level::One));
        assert_eq!(level.stored(), Value::from("1800000000123 quorum hwk"));
        for other in ["", " ", "1", "now 1 pwd", "1800000000123"] {
            assert_eq!(Authentication::parse(other), None, "{other:?}");
        }
        let empty = Authentication::parse("1800000000123  ").expect("is read");
        assert_eq!((empty.level(), empty.amr()), (None, None));
    }
}
