//! A browser without scripts: it opens pages, submits forms and keeps cookies.

use crate::balancer::Balancer;
use browser::{Cookies, Request, forms};
use ureq::http::Response;

pub struct Browser {
    balancer: Balancer,
    issuer: String,
    cookies: Cookies,
}

pub struct Page {
    pub status: u16,
    pub text: String,
}

impl Browser {
    pub fn new(issuer: &str) -> Browser {
        Browser::behind(Balancer::new(&[issuer.to_owned()]), issuer)
    }

    /// A browser that reaches the issuer through a balancer.
    pub fn behind(balancer: Balancer, issuer: &str) -> Browser {
        Browser { balancer, issuer: issuer.to_owned(), cookies: Cookies::default() }
    }

    /// Opens an address of the server.
    pub fn open(&mut self, path: &str) -> Page {
        self.send(&Request::get(path))
    }

    /// Submits the form of `page` with this `action`: the fields as they are but for the given ones.
    pub fn submit(&mut self, page: &Page, action: &str, typed: &[(&str, &str)]) -> Page {
        let forms = forms(&page.text);
        let form = forms.iter().find(|form| form.action == action);
        let form = form.unwrap_or_else(|| panic!("no form to {action} in:\n{}", page.text));
        self.send(&Request::submit(action, &self.issuer, &form.with(typed)))
    }

    /// Signs in, types the code, and allows it with the password again.
    pub fn approve(&mut self, email: &str, password: &str, user_code: &str) -> Page {
        let page = self.open("/login");
        let page = self.submit(&page, "/login", &[("email", email), ("password", password)]);
        assert_eq!(page.status, 200, "{}", page.text);
        let page = self.open("/activate");
        let page = self.submit(&page, "/activate", &[("user_code", user_code)]);
        assert!(page.text.contains(user_code), "{}", page.text);
        self.submit(&page, "/activate", &[("decision", "allow"), ("password", password)])
    }

    /// The values of its cookies.
    pub fn cookies(&self) -> impl Iterator<Item = &str> {
        self.cookies.iter().map(|(_, value)| value)
    }

    /// Its cookies, as it sends them.
    pub fn cookie_header(&self) -> String {
        self.cookies.header().unwrap_or_default()
    }

    /// Sends a request and follows redirects.
    fn send(&mut self, request: &Request) -> Page {
        let response = self.balancer.send(|instance| {
            let method = if request.is_post { "POST" } else { "GET" };
            let mut draft =
                ureq::http::Request::builder().method(method).uri(self.url(instance, &request.path));
            for (name, value) in &request.headers {
                draft = draft.header(*name, value);
            }
            draft = draft.header("cookie", self.cookies.header().unwrap_or_default());
            draft.body(request.body.clone()).expect("a request")
        });
        let headers = response.headers().iter();
        self.cookies.take_from(headers.map(|(name, value)| (name.as_str(), value)));
        match location(&response) {
            Some(location) => self.open(&location),
            None => Page { status: response.status().as_u16(), text: response.into_body() },
        }
    }

    fn url(&self, instance: &str, path: &str) -> String {
        let path = path.strip_prefix(&self.issuer).unwrap_or(path);
        if path.starts_with('/') { format!("{instance}{path}") } else { path.to_owned() }
    }
}

fn location(response: &Response<String>) -> Option<String> {
    response.headers().get("location").map(|location| location.to_str().expect("text").to_owned())
}
