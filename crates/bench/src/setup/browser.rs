//! A browser without scripts: it opens addresses, follows redirects and submits forms.

use browser::{Cookies, Form, KnownValues, Request, Submission, forms, local_path, redirect};

use crate::error::Error;
use crate::http::RequestDraft;

use super::client::{Client, Reply};

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
        let page = self.visit(Request::get(local_path("/", url))).await?;
        self.follow(page).await
    }

    /// Submits a form of `page`. It does not follow a redirect.
    pub async fn submit(&mut self, page: &Page, submission: &Submission) -> Result<Page, Error> {
        self.visit(Request::submit(&page.path, &self.client.target().origin, submission)).await
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

    async fn visit(&mut self, request: Request) -> Result<Page, Error> {
        let path = request.path.clone();
        let reply = self.client.send(&RequestDraft::in_browser(request, self.cookies, self.address)).await?;
        self.cookies.take_from(reply.headers.iter().map(|(name, value)| (name.as_str(), value)));
        Ok(Page { path, reply })
    }

    async fn follow(&mut self, page: Page) -> Result<Page, Error> {
        let mut page = page;
        for _ in 0..REDIRECTS_MAX {
            let Some(path) = page.redirect() else { return Ok(page) };
            page = self.visit(Request::get(path)).await?;
        }
        Err(page.reply.unexpected("the redirects do not end"))
    }
}

impl Page {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.reply.body).into_owned()
    }

    /// Where it leads, if it redirects.
    pub fn redirect(&self) -> Option<String> {
        redirect(&self.path, self.reply.status, self.reply.header("location").as_deref())
    }
}
