//! `/dev/mail`: the mails that this server would have sent, on the servers of `sarsen demo` and `sarsen dev`. A server with a relay,
//! or without mail, answers 404.
//!
//! What a mail has as HTML is a document of its own, in a sandbox: it runs no script, loads nothing and has no origin, so it reads and
//! changes nothing of this server.

use crate::app::App;
use crate::pages::browser::Asked;
use crate::pages::respond::{PageError, PageResult, english_page};
use crate::pages::views::{DevMail, DevMails, MailLine};
use crate::web::json::rfc3339;
use crate::web::path::Path;
use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse as _;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use identity::Time;
use outgoing::{KeptMail, Mailbox};
use serde::Serialize;

const PATH: &str = "/dev/mail";
/// No `allow-…`: no scripts, no forms, no origin. Links in it lead out of it.
const SANDBOX: &str = "sandbox; default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// A mail, for tests of products.
#[derive(Serialize)]
struct Sent {
    id: String,
    to: String,
    from: String,
    envelope_from: String,
    reply_to: Option<String>,
    subject: String,
    text: String,
    html: Option<String>,
    at: String,
}

/// The list, newest first.
pub(crate) async fn list(State(app): State<App>) -> PageResult {
    let mails = mailbox(&app, PATH)?.mails();
    let lines: Vec<MailLine<'_>> = mails
        .iter()
        .map(|mail| MailLine {
            href: format!("{PATH}/{}", mail.number),
            to: &mail.message.to,
            subject: &mail.message.subject,
            at: at(mail),
        })
        .collect();
    let view = DevMails { mails: &lines };
    Ok(english_page(view.markup(app.settings.languages.english()), Vec::new()))
}

/// One mail.
pub(crate) async fn show(State(app): State<App>, Path(number): Path<String>) -> PageResult {
    let mail = find(&app, &number)?;
    let html_href = mail.message.html.is_some().then(|| format!("{PATH}/{number}/html"));
    let view = DevMail {
        to: &mail.message.to,
        from: &mail.from,
        reply_to: mail.message.reply_to.as_deref(),
        subject: &mail.message.subject,
        at: &at(&mail),
        text: &mail.message.text,
        server: &app.settings.issuer,
        html_href: html_href.as_deref(),
        list_href: PATH,
    };
    Ok(english_page(view.markup(app.settings.languages.english()), Vec::new()))
}

/// Its HTML, as it is.
pub(crate) async fn html(State(app): State<App>, Path(number): Path<String>) -> PageResult {
    let html = find(&app, &number)?.message.html;
    let html = html.ok_or_else(|| PageError::not_found(PATH))?;
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, SANDBOX),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, html).into_response())
}

/// All mails, or with `?to=` those to an address, newest first.
pub(crate) async fn json(State(app): State<App>, Asked(asked): Asked) -> PageResult {
    let mailbox = mailbox(&app, "/dev/mail.json")?;
    let mails = match asked.get("to") {
        Some(to) => mailbox.sent_to(to),
        None => mailbox.mails(),
    };
    let sent: Vec<Sent> = mails.into_iter().map(sent).collect();
    let no_store = [(CACHE_CONTROL, "no-store")];
    Ok((no_store, Json(sent)).into_response())
}

fn mailbox<'a>(app: &'a App, path: &str) -> Result<&'a Mailbox, PageError> {
    app.relay().and_then(outgoing::Relay::mailbox).ok_or_else(|| PageError::not_found(path))
}

fn find(app: &App, number: &str) -> Result<KeptMail, PageError> {
    let path = format!("{PATH}/{number}");
    let mailbox = mailbox(app, &path)?;
    number.parse().ok().and_then(|number| mailbox.mail(number)).ok_or_else(|| PageError::not_found(&path))
}

fn at(mail: &KeptMail) -> String {
    rfc3339(Time::from_millis(mail.at_ms))
}

fn sent(mail: KeptMail) -> Sent {
    let at = at(&mail);
    let message = mail.message;
    Sent {
        id: message.id,
        to: message.to,
        from: mail.from,
        envelope_from: mail.envelope_from,
        reply_to: message.reply_to,
        subject: message.subject,
        text: message.text,
        html: message.html,
        at,
    }
}
