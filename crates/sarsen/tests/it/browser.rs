//! A browser without scripts: it opens pages, submits forms and keeps cookies.

use crate::balancer::Balancer;
use std::collections::BTreeMap;
use ureq::http::{Request, Response};

pub struct Browser {
    balancer: Balancer,
    issuer: String,
    cookies: BTreeMap<String, String>,
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
        Browser { balancer, issuer: issuer.to_owned(), cookies: BTreeMap::new() }
    }

    /// Opens an address of the server.
    pub fn open(&mut self, path: &str) -> Page {
        let response = self.balancer.send(|instance| {
            let request = Request::get(self.url(instance, path)).header("cookie", self.cookie_line());
            request.body(()).expect("a request")
        });
        self.follow(response)
    }

    /// Submits the form of `page` with this `action`: hidden fields as they are, the others as given.
    pub fn submit(&mut self, page: &Page, action: &str, typed: &[(&str, &str)]) -> Page {
        let form = page.text.split("<form").find(|form| form.contains(&format!("action=\"{action}\"")));
        let form = form.unwrap_or_else(|| panic!("no form to {action} in:\n{}", page.text));
        let mut fields: Vec<(String, String)> = hidden_fields(form);
        fields.extend(typed.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let response = self.balancer.send(|instance| {
            let request = Request::post(self.url(instance, action))
                .header("cookie", self.cookie_line())
                .header("origin", &self.issuer)
                .header("content-type", "application/x-www-form-urlencoded");
            request.body(body.clone()).expect("a request")
        });
        self.follow(response)
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
        self.cookies.values().map(String::as_str)
    }

    fn follow(&mut self, response: Response<String>) -> Page {
        for cookie in response.headers().get_all("set-cookie") {
            let pair = cookie.to_str().expect("text").split(';').next().unwrap_or_default();
            let (name, value) = pair.split_once('=').expect("a pair");
            self.cookies.insert(name.to_owned(), value.to_owned());
        }
        let location =
            response.headers().get("location").map(|location| location.to_str().expect("text").to_owned());
        match location {
            Some(location) => self.open(&location),
            None => {
                let status = response.status().as_u16();
                Page { status, text: response.into_body() }
            }
        }
    }

    fn url(&self, instance: &str, path: &str) -> String {
        let path = path.strip_prefix(&self.issuer).unwrap_or(path);
        if path.starts_with('/') { format!("{instance}{path}") } else { path.to_owned() }
    }

    fn cookie_line(&self) -> String {
        self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ")
    }
}

/// The hidden fields of the first form in `html`.
fn hidden_fields(html: &str) -> Vec<(String, String)> {
    let form = html.split("</form>").next().unwrap_or_default();
    let inputs = form.split("<input").skip(1).filter(|input| input.contains("type=\"hidden\""));
    let attribute = |input: &str, name: &str| {
        let (_, rest) = input.split_once(&format!(" {name}=\""))?;
        Some(rest.split_once('"')?.0.replace("&amp;", "&"))
    };
    inputs
        .filter_map(|input| Some((attribute(input, "name")?, attribute(input, "value").unwrap_or_default())))
        .collect()
}
