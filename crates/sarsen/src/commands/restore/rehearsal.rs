//! A rehearsal of a restore: a server starts on a copy of the backup in a folder of its own, an account signs in with a
//! one-time link, and all of it is removed.

use super::Judge;
use crate::error::{Error, Result};
use crate::scratch::ScratchFolder;
use crate::{output, server_process};
use browser::{Cookies, Request, decode, forms, redirect};
use server::{App, Limits, Settings, backups};
use std::path::Path;
use std::time::{Duration, Instant};
use ureq::Agent;

const PATIENCE: Duration = Duration::from_secs(30);
const REDIRECTS_MAX: usize = 10;
/// The beginning of the names of the folders.
const FOLDER: &str = "rehearsal-";

/// Rehearses. The copy goes to `place`, where a restore would put it.
pub(super) fn run(backup: &Path, judge: &Judge, place: &Path) -> Result<()> {
    let began = Instant::now();
    let folder = ScratchFolder::create(place, FOLDER)?;
    let database = folder.path().join("sarsen.db");
    super::put(backup, &database, &folder.path().join("old.db"), judge)?;
    let bound = server_process::bind(&[([127, 0, 0, 1], 0).into()])?;
    let port = bound.addresses().first().map_or(0, std::net::SocketAddr::port);
    let issuer = format!("http://127.0.0.1:{port}");
    let options = server::store_options(format!("sqlite:{}", database.display()));
    let store = server::Store::open(options).map_err(|error| failed(&error))?;
    let settings = Settings { housekeeping: false, ..Settings::new(&issuer) };
    let app = server_process::app(store, settings, judge.keys.own().clone(), None)?;
    let email = server_process::runtime()?.block_on(async {
        let running = serve(&app, bound).await?;
        let signed_in = sign_in(&app, &issuer).await;
        running.stop().await;
        signed_in
    })?;
    let who = match email {
        Some(email) => format!("{} signed in with a one-time link", output::sanitize(&email)),
        None => "it has no account that can sign in, so nobody did".to_owned(),
    };
    output::print(&format!(
        "The backup and the secret key work together: a server started on {}, and {who}. That took {:.1} seconds; \
         nothing of it is left.\n",
        backup.display(),
        began.elapsed().as_secs_f64()
    ))
}

fn failed(error: &dyn std::fmt::Display) -> Error {
    Error::failed(format!("the rehearsal failed: {error}"))
}

async fn serve(app: &App, bound: server::Bound) -> Result<server::Running> {
    server::first_start::prepare(app).await.map_err(|error| failed(&error))?;
    Ok(server_process::start(app.clone(), bound, Limits::default()).await?)
}

/// Signs in an account, if there is one that can. Returns its e-mail address.
async fn sign_in(app: &App, issuer: &str) -> Result<Option<String>> {
    let Some((email, link)) = backups::sign_in_link(&app.store, app.system(), app.random())
        .await
        .map_err(|error| failed(&error))?
    else {
        return Ok(None);
    };
    let (shown, issuer) = (email.clone(), issuer.to_owned());
    let visit = tokio::task::spawn_blocking(move || Visitor::new(issuer).sign_in(&link, &shown)).await;
    visit.map_err(|error| failed(&error))??;
    Ok(Some(email))
}

/// A browser on this machine.
struct Visitor {
    agent: Agent,
    origin: String,
    cookies: Cookies,
}

impl Visitor {
    fn new(origin: String) -> Visitor {
        let config = Agent::config_builder().http_status_as_error(false).max_redirects(0).proxy(None);
        let agent = config.timeout_global(Some(PATIENCE)).build().new_agent();
        Visitor { agent, origin, cookies: Cookies::default() }
    }

    /// Opens the link, submits its form, and finds the e-mail address on the account page.
    fn sign_in(&mut self, link: &str, email: &str) -> Result<()> {
        let page = self.visit(Request::get(link))?;
        let form = forms(&page).into_iter().find(|form| form.is_post && form.action.ends_with("/link"));
        let form = form.ok_or_else(|| failed(&"the page of the one-time link has no form"))?;
        let account = self.visit(Request::submit(link, &self.origin, &form.with(&[])))?;
        if shows(&account, email) {
            Ok(())
        } else {
            Err(failed(&format!("after the sign-in, the account page does not show {email}")))
        }
    }

    /// Sends a request, follows redirects, and returns the page.
    fn visit(&mut self, mut request: Request) -> Result<String> {
        for _ in 0..REDIRECTS_MAX {
            let method = if request.is_post { "POST" } else { "GET" };
            let uri = format!("{}{}", self.origin, request.path);
            let mut draft = ureq::http::Request::builder().method(method).uri(uri);
            for (name, value) in &request.headers {
                draft = draft.header(*name, value);
            }
            if let Some(cookies) = self.cookies.header() {
                draft = draft.header("cookie", cookies);
            }
            let sent = draft.body(request.body.clone()).map_err(|error| failed(&error))?;
            let mut answer = self.agent.run(sent).map_err(|error| failed(&error))?;
            let headers = answer.headers().iter();
            self.cookies.take_from(headers.map(|(name, value)| (name.as_str(), value)));
            let status = answer.status().as_u16();
            let location = answer.headers().get("location").and_then(|value| value.to_str().ok());
            match redirect(&request.path, status, location) {
                Some(path) => request = Request::get(path),
                None if status == 200 => {
                    return answer.body_mut().read_to_string().map_err(|error| failed(&error));
                }
                None => return Err(failed(&format!("{} was answered with {status}", request.path))),
            }
        }
        Err(failed(&"the server redirects without end"))
    }
}

/// Whether a page shows a text.
fn shows(page: &str, text: &str) -> bool {
    decode(page).contains(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_as_a_page_writes_it() {
        assert!(shows("<p>r&amp;d@acme.test</p>", "r&d@acme.test"));
        assert!(!shows("<p>d@acme.test</p>", "r&d@acme.test"));
    }
}
