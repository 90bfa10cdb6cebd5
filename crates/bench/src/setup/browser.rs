//! A browser without scripts: it opens addresses, follows redirects and submits forms.

use crate::error::Error;
use crate::http::RequestDraft;

use super::client::{Client, Reply};
use super::cookies::Cookies;
use super::html::{Form, KnownValues, Submission, forms};

const REDIRECTS_MAX: usize = 10;
/// The most forms of a flow.
const FORMS_MAX: usize = 8;

/// The page that is open.
#[derive(Debug, Clone)]
pub struct Page {
    /// With the query, without the origin.
    pub path: String,
    pub reply: Reply,
}

/// A browser for one flow.
pub struct Browser<'a> {
    pub client: &'a mut Client,
    pub cookies: &'a mut Cookies,
    /// Sent as `X-Forwarded-For`.
    pub address: &'a str,
}

impl Browser<'_> {
    /// Opens `url` and follows redirects.
    pub async fn open(&mut self, url: &str) -> Result<Page, Error> {
        let path = local_path("/", url);
        let page = self.visit(RequestDraft::get(path.clone()), path).await?;
        self.follow(page).await
    }

    /// Submits a form of `page`. It does not follow a redirect.
    pub async fn submit(&mut self, page: &Page, submission: &Submission) -> Result<Page, Error> {
        let path = local_path(&page.path, &submission.action);
        let draft = submission.draft(&path, &self.client.target().origin);
        self.visit(draft, path).await
    }

    /// Opens `url` and submits forms until `decision=allow` is accepted.
    pub async fn approve(&mut self, url: &str, known: &KnownValues<'_>) -> Result<(), Error> {
        let mut page = self.open(url).await?;
        let mut decided = false;
        for _ in 0..FORMS_MAX {
            let forms = forms(&page.text());
            let next = Form::next(&forms, known).map(|form| form.fill(known));
            match next {
                Some(submission) if !decided || submission.decides => {
                    let answer = self.submit(&page, &submission).await?;
                    decided = submission.decides;
                    page = self.follow(answer).await?;
                }
                _ if decided => {
                    page.reply.expect(&[200])?;
                    return Ok(());
                }
                _ => return Err(page.reply.unexpected("the page has no form to submit")),
            }
        }
        Err(page.reply.unexpected("the forms do not end"))
    }

    async fn visit(&mut self, draft: RequestDraft, path: String) -> Result<Page, Error> {
        let mut draft = draft.header("Accept", "text/html").header("X-Forwarded-For", self.address);
        if let Some(cookies) = self.cookies.header() {
            draft = draft.header("Cookie", cookies);
        }
        let reply = self.client.send(&draft).await?;
        self.cookies.take_from(reply.headers.iter().map(|(name, value)| (name.as_str(), &value[..])));
        Ok(Page { path, reply })
    }

    async fn follow(&mut self, page: Page) -> Result<Page, Error> {
        let mut page = page;
        for _ in 0..REDIRECTS_MAX {
            if !page.is_redirect() {
                return Ok(page);
            }
            let location = page.reply.header("location").unwrap_or_default();
            let path = local_path(&page.path, &location);
            page = self.visit(RequestDraft::get(path.clone()), path).await?;
        }
        Err(page.reply.unexpected("the redirects do not end"))
    }
}

impl Page {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.reply.body).into_owned()
    }

    pub fn is_redirect(&self) -> bool {
        matches!(self.reply.status, 301..=303 | 307 | 308) && self.reply.header("location").is_some()
    }
}

/// Resolves `reference` of the page `current` to a path with its query. It drops an origin, because the bench may reach the
/// server by another name.
pub(crate) fn local_path(current: &str, reference: &str) -> String {
    let reference = reference.split('#').next().unwrap_or_default();
    if let Some((_, after)) = reference.split_once("://").filter(|(scheme, _)| scheme.starts_with("http")) {
        let path = after.find(['/', '?']).map_or("", |at| &after[at..]);
        return if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    }
    if reference.starts_with('/') {
        return reference.to_owned();
    }
    let (path, _) = current.split_once('?').unwrap_or((current, ""));
    match reference {
        "" => current.to_owned(),
        query if query.starts_with('?') => format!("{path}{query}"),
        relative => format!("{}/{relative}", path.rsplit_once('/').map_or("", |(folder, _)| folder)),
    }
}
