//! The errors of forms with an account's name, address or password, as sentences for people.

use super::views::FormError;
use endpoint::words::sentence;
use identity::organizations::Organization;
use identity::{Error, names, passwords};

/// Checks the fields of a new account, before its password is hashed.
pub(crate) fn check_new_account(
    name: &str,
    email: &str,
    password: &str,
    organization: &Organization,
) -> Result<(), FormError> {
    // Without a name, the account gets one from its e-mail address. A browser's form requires a name, and takes blanks.
    if !name.is_empty() && name.trim().is_empty() {
        return Err(FormError { text: "Enter your name.".to_owned(), field: Some("name") });
    }
    let checked = names::email(email).and_then(|_| match name {
        "" => Ok(String::new()),
        name => names::display("name", name),
    });
    let own_names = [email, name, &organization.name, &organization.slug];
    checked.and_then(|_| passwords::check(password, &own_names)).map_err(|error| of(&error))
}

/// The sentence for an error, without the names that fields have in the API.
pub(crate) fn of(error: &Error) -> FormError {
    match error {
        Error::Taken { field: field @ "email", .. } => {
            let text = "There is an account with this e-mail address already.".to_owned();
            FormError { text, field: Some(*field) }
        }
        Error::Invalid { field, problem, .. } => {
            let label = if *field == "email" { "e-mail address" } else { field };
            let text = sentence(&format!("The {label} was not accepted: {problem}"));
            FormError { text, field: Some(*field) }
        }
        error => FormError::of_form(&error.to_string()),
    }
}
