//! The text of a mail, in its language: as plain text, and the same as HTML without anything that a mail program would have to
//! load. A mail has no text of who asked for it, and of an organization only the name.

use crate::app::App;
use crate::pages::addresses;
use crate::web::json::rfc3339;
use identity::mail::decisions::Words;
use identity::mail::requests::CODE_LIFE;
use identity::mail::{Mail, Purpose};
use identity::organizations::{Organization, PLATFORM};
use identity::{Error, Result, Time};
use maud::{DOCTYPE, Markup, html};
use outgoing::Message;
use texts::Language;

/// A part of a mail.
enum Part {
    Text(String),
    Code(String),
    Link(String),
}

/// The message of a mail.
pub(super) fn of(app: &App, mail: &Mail) -> Result<Message> {
    let language = app.settings.languages.for_mail(None, Some(&mail.language));
    let words = mail.open(&app.secret_key)?.map(|words| serde_json::from_slice::<Words>(&words));
    let words =
        words.transpose().map_err(|error| Error::Internal(format!("the words of a mail: {error}")))?;
    let name = name_of(&mail.organization);
    let values = [("organization", name)];
    let (subject, parts) = match (mail.purpose, &words) {
        (Purpose::Reset, Some(words)) => (
            language.fill("mail.reset.subject", &values),
            secret_parts(app, language, mail, words, language.fill("mail.reset.asked", &values)),
        ),
        (Purpose::SignUp, Some(words)) => (
            language.fill("mail.sign_up.subject", &values),
            secret_parts(app, language, mail, words, language.fill("mail.sign_up.asked", &values)),
        ),
        (Purpose::Verify, Some(words)) => (
            language.fill("mail.verify.subject", &values),
            secret_parts(app, language, mail, words, language.fill("mail.verify.asked", &values)),
        ),
        (Purpose::HasAccount, _) => (
            language.fill("mail.has_account.subject", &values),
            vec![
                Part::Text(language.fill("mail.has_account.asked", &values)),
                Part::Link(app.url(&addresses::sign_in_form(&mail.organization.slug))),
                Part::Text(language.text("mail.common.ignore").to_owned()),
            ],
        ),
        (Purpose::PasswordChanged, _) => (
            language.fill("mail.password_changed.subject", &values),
            vec![
                Part::Text(language.fill(
                    "mail.password_changed.happened",
                    &[("organization", name), ("time", &minute_of(mail.created_at))],
                )),
                Part::Text(language.text("mail.password_changed.not_you").to_owned()),
                Part::Link(app.url(&addresses::forgot_form(&mail.organization.slug))),
            ],
        ),
        (Purpose::Reset | Purpose::SignUp | Purpose::Verify, None) => {
            return Err(Error::Internal(format!("the mail {} has lost its words", mail.id)));
        }
    };
    Ok(Message {
        id: mail.id.to_string(),
        to: mail.address.clone(),
        from_name: Some(name.to_owned()),
        reply_to: None,
        envelope_from: None,
        text: plain(&parts),
        html: Some(markup(language, &subject, &parts).into_string()),
        subject,
    })
}

/// The parts of a mail with a link and a code.
fn secret_parts(app: &App, language: &Language, mail: &Mail, words: &Words, asked: String) -> Vec<Part> {
    let minutes = CODE_LIFE.as_secs() / 60;
    let code = words.code.as_str();
    let (first, second) = code.split_at_checked(4).unwrap_or((code, ""));
    let mut parts = vec![
        Part::Text(asked),
        Part::Text(language.count("mail.common.code", minutes, &[])),
        Part::Code(format!("{first} {second}")),
        Part::Text(match mail.purpose {
            Purpose::SignUp => language.count("mail.common.link_same_browser", minutes, &[]),
            _ => language.count("mail.common.link", minutes, &[]),
        }),
        Part::Link(app.url(&format!("/o/{}/link?token={}", mail.organization.slug, words.link))),
    ];
    if mail.purpose == Purpose::Verify {
        parts.push(Part::Text(language.text("mail.verify.elsewhere").to_owned()));
    }
    parts.push(Part::Text(language.text("mail.common.ignore").to_owned()));
    parts
}

/// A time as people read it, to the minute.
fn minute_of(time: Time) -> String {
    jiff::Timestamp::from_millisecond(time.millis())
        .map_or_else(|_| rfc3339(time), |stamp| stamp.strftime("%Y-%m-%d, %H:%M").to_string())
}

/// What an organization is called in mails. Mail programs make links of what looks like an address, so a name with one is
/// replaced by the short name.
fn name_of(organization: &Organization) -> &str {
    let name = &organization.name;
    let is_address = |word: &str| {
        word.contains(['@', '/', ':']) || word.trim_matches(|letter| ".,;!?".contains(letter)).contains('.')
    };
    match organization.slug.as_str() {
        PLATFORM => "Sarsen",
        slug if name.split_whitespace().any(is_address) => slug,
        _ => name,
    }
}

fn plain(parts: &[Part]) -> String {
    let lines = parts.iter().map(|part| match part {
        Part::Text(text) => text.clone(),
        Part::Code(code) => format!("    {code}"),
        Part::Link(link) => link.clone(),
    });
    lines.collect::<Vec<_>>().join("\n\n") + "\n"
}

fn markup(language: &Language, subject: &str, parts: &[Part]) -> Markup {
    html! {
        (DOCTYPE)
        html lang=(language.tag()) dir=(language.direction()) {
            head {
                meta charset="utf-8";
                title { (subject) }
            }
            body style="font-family: sans-serif; line-height: 1.5; max-width: 36em; margin: 2em auto; padding: 0 1em" {
                @for part in parts {
                    @match part {
                        Part::Text(text) => { p { (text) } }
                        Part::Code(code) => {
                            p style="font-size: 1.8em; font-family: monospace; letter-spacing: .05em" dir="ltr" { (code) }
                        }
                        Part::Link(link) => { p { a href=(link) style="overflow-wrap: anywhere" { (link) } } }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use identity::Time;
    use identity::ids::OrganizationId;
    use identity::organizations::{DeviceFlow, Status};

    #[test]
    fn a_name_that_looks_like_an_address_is_no_link_in_a_mail() {
        let named = |name: &str| Organization {
            id: OrganizationId::from_uuid(1),
            slug: "acme".to_owned(),
            name: name.to_owned(),
            status: Status::Active,
            device_flow: DeviceFlow::Allowed,
            sign_up: None,
            created_at: Time::from_millis(0),
        };
        for plain in ["Acme", "Acme Inc.", "Müller & Söhne", "St. Mary's"] {
            assert_eq!(name_of(&named(plain)), plain);
        }
        for address in ["Win at evil.test", "https://evil.test", "a@evil.test", "evil.test!", "evil.test/win"]
        {
            assert_eq!(name_of(&named(address)), "acme", "{address}");
        }
    }
}
