//! A form's field: input, label, hint, and the link to the form's error.

use maud::{Markup, html};
use texts::Language;

use crate::pages::sentence::Sentence;

/// Fewest characters of a password that a person may choose.
const PASSWORD_LENGTH_MIN: u32 = 8;
/// Most characters of a name.
const NAME_LENGTH_MAX: u32 = 100;

/// The id of the notice with the form's error.
pub(super) const ERROR_ID: &str = "form-error";

/// The error of a form.
pub struct FormError {
    /// What is wrong.
    pub sentence: Sentence,
    /// The name of the field that is wrong, if it is one.
    pub field: Option<&'static str>,
}

impl FormError {
    /// An error that no field is to blame for.
    pub fn of_form(key: &'static str) -> FormError {
        Sentence::new(key).into()
    }

    /// An error of the field with this name.
    pub fn of_field(field: &'static str, key: &'static str) -> FormError {
        FormError { sentence: Sentence::new(key), field: Some(field) }
    }
}

impl From<Sentence> for FormError {
    fn from(sentence: Sentence) -> FormError {
        FormError { sentence, field: None }
    }
}

/// The fields of a form. The wrong one is marked and has the focus; without a wrong one, the first empty one has it.
pub(super) fn fields(language: &Language, fields: Vec<Field<'_>>, error: Option<&FormError>) -> Markup {
    let wrong = error.and_then(|error| error.field);
    let at = |is_it: &dyn Fn(&Field<'_>) -> bool| fields.iter().position(is_it);
    let wrong = at(&|field| Some(field.name) == wrong);
    let focused = wrong.or_else(|| at(&|field| field.value.is_empty()));
    html! {
        @for (index, field) in fields.into_iter().enumerate() {
            (Field { autofocus: focused == Some(index), in_error: wrong == Some(index), ..field }.markup(language))
        }
    }
}

pub(super) struct Field<'a> {
    pub name: &'a str,
    /// The key of its label.
    pub label: &'static str,
    /// The input's `type`: `email`, `password`, `text`.
    pub kind: &'a str,
    pub autocomplete: &'a str,
    /// Its value; empty for a password.
    pub value: &'a str,
    /// The key of its hint.
    pub hint: Option<&'static str>,
    /// The minimum length.
    pub length_min: Option<u32>,
    /// The maximum length.
    pub length_max: Option<u32>,
    pub autofocus: bool,
    /// Its value cannot be changed.
    pub read_only: bool,
    /// The form's error concerns this field.
    pub in_error: bool,
}

impl Field<'_> {
    pub const NAME: Field<'static> = Field {
        name: "name",
        label: "field.name",
        kind: "text",
        autocomplete: "name",
        value: "",
        hint: None,
        length_min: None,
        length_max: Some(NAME_LENGTH_MAX),
        autofocus: false,
        read_only: false,
        in_error: false,
    };
    pub const EMAIL: Field<'static> = Field {
        name: "email",
        label: "field.email",
        kind: "email",
        autocomplete: "username",
        length_max: None,
        ..Field::NAME
    };
    pub const PASSWORD: Field<'static> = Field {
        name: "password",
        label: "field.password",
        kind: "password",
        autocomplete: "current-password",
        length_max: None,
        ..Field::NAME
    };

    pub const MAILED_CODE: Field<'static> = Field {
        name: "code",
        label: "field.mailed_code",
        kind: "text",
        autocomplete: "one-time-code",
        hint: Some("field.mailed_code_hint"),
        length_max: None,
        ..Field::NAME
    };

    pub fn markup(&self, language: &Language) -> Markup {
        let hint_id = self.hint.map(|_| format!("{}-hint", self.name));
        let described_by = described_by(hint_id.as_deref(), self.in_error);
        html! {
            div {
                label for=(self.name) { (language.text(self.label)) }
                @if let Some(hint) = self.hint {
                    p.hint id=[hint_id] { (language.text(hint)) }
                }
                input id=(self.name) name=(self.name) type=(self.kind) required
                    value=[Some(self.value).filter(|value| !value.is_empty())]
                    autocomplete=(self.autocomplete) autocapitalize=[self.autocapitalize()]
                    spellcheck="false" minlength=[self.length_min] maxlength=[self.length_max] autofocus[self.autofocus] readonly[self.read_only]
                    aria-describedby=[described_by] aria-invalid=[self.in_error.then_some("true")];
            }
        }
    }

    fn autocapitalize(&self) -> Option<&'static str> {
        (self.kind != "text").then_some("none")
    }
}

/// A field for a password that the user chooses.
pub(super) fn new_password<'a>(name: &'a str, label: &'static str) -> Field<'a> {
    Field {
        name,
        label,
        autocomplete: "new-password",
        hint: Some("field.password_hint"),
        length_min: Some(PASSWORD_LENGTH_MIN),
        ..Field::PASSWORD
    }
}

/// An invisible field that names the account of a new password for password managers.
pub(super) fn username(email: &str) -> Markup {
    html! { input name="username" type="text" value=(email) autocomplete="username" readonly hidden; }
}

pub(super) fn described_by(hint_id: Option<&str>, in_error: bool) -> Option<String> {
    let ids: Vec<&str> = in_error.then_some(ERROR_ID).into_iter().chain(hint_id).collect();
    (!ids.is_empty()).then(|| ids.join(" "))
}
