//! The errors of forms with an account's name, address or password. The domain says which field is wrong and why, by a code;
//! the sentence about it is a text of the page.

use super::sentence::Sentence;
use super::views::FormError;
use identity::organizations::Organization;
use identity::{Error, Reason, names, passwords};

/// Checks the fields of a new account, before its password is hashed.
pub(crate) fn check_new_account(
    name: &str,
    email: &str,
    password: &str,
    organization: &Organization,
) -> Result<(), FormError> {
    // Without a name, the account gets one from its e-mail address. A browser's form requires a name, and takes blanks.
    if !name.is_empty() && name.trim().is_empty() {
        return Err(FormError::of_field("name", "form.name_missing"));
    }
    let checked = names::email(email).and_then(|_| match name {
        "" => Ok(String::new()),
        name => names::display("name", name),
    });
    let own_names = [email, name, &organization.name, &organization.slug];
    checked.and_then(|_| passwords::check(password, &own_names)).map_err(|error| of(&error))
}

/// The sentence for an error of the domain.
pub(crate) fn of(error: &Error) -> FormError {
    match error {
        Error::Taken { field: field @ "email", .. } => FormError::of_field(field, "form.email_taken"),
        Error::Invalid { field, reason, .. } => {
            FormError { sentence: invalid(field, reason), field: Some(*field) }
        }
        _ => FormError::of_form("form.not_accepted"),
    }
}

fn invalid(field: &str, reason: &Reason) -> Sentence {
    let key = match (field, reason.code) {
        ("name", "line" | "too_long") => "form.name_line",
        ("name", "hidden") => "form.name_hidden",
        ("email", "too_long") => "form.email_too_long",
        ("email", _) => "form.email_wrong",
        ("password", "too_short") => "form.password_too_short",
        ("password", "too_long") => "form.password_too_long",
        ("password", "nul") => "form.password_nul",
        ("password", "common") => "form.password_common",
        ("password", "own_name") => "form.password_own_name",
        ("organization", _) => "form.organization_slug",
        _ => "form.not_accepted",
    };
    reason.values.iter().fold(Sentence::new(key), |sentence, (name, value)| sentence.value(name, value))
}
