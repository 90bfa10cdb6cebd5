//! A person at a browser without scripts: opens pages, fills in the one form that is there, keeps cookies.

use std::collections::BTreeMap;
use ureq::Agent;
use ureq::http::{Request, Response};

pub struct Browser {
    agent: Agent,
    issuer: String,
    cookies: BTreeMap<String, String>,
}

pub struct Page {
    pub status: u16,
    pub text: String,
}

impl Browser {
    pub fn new(issuer: &str) -> Browser {
        let config = Agent::config_builder().http_status_as_error(false).max_redirects(0).proxy(None).build();
        Browser { agent: config.new_agent(), issuer: issuer.to_owned(), cookies: BTreeMap::new() }
    }

    /// Opens an address of the server.
    pub fn open(&mut self, path: &str) -> Page {
        let request = Request::get(self.url(path)).header("cookie", self.cookie_line()).body(());
        let response = self.agent.run(request.expect("a request")).expect("an answer");
        self.follow(response)
    }

    /// Fills in the form of `page` that goes to `action`: hidden fields as they are, the others as given.
    pub fn submit(&mut self, page: &Page, action: &str, typed: &[(&str, &str)]) -> Page {
        let form = page.text.split("<form").find(|form| form.contains(&format!("action=\"{action}\"")));
        let form = form.unwrap_or_else(|| panic!("no form to {action} in:\n{}", page.text));
        let mut fields: Vec<(String, String)> = hidden_fields(form);
        fields.extend(typed.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = Request::post(self.url(action))
            .header("cookie", self.cookie_line())
            .header("origin", &self.issuer)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(body);
        let response = self.agent.run(request.expect("a request")).expect("an answer");
        self.follow(response)
    }

    /// Signs in, types the code, looks, and allows it with the password once more.
    pub fn approve(&mut self, email: &str, password: &str, user_code: &str) -> Page {
        let page = self.open("/login");
        let page = self.submit(&page, "/login", &[("email", email), ("password", password)]);
        assert_eq!(page.status, 200, "{}", page.text);
        let page = self.open("/activate");
        let page = self.submit(&page, "/activate", &[("user_code", user_code)]);
        assert!(page.text.contains(user_code), "{}", page.text);
        self.submit(&page, "/activate", &[("decision", "allow"), ("password", password)])
    }

    fn follow(&mut self, response: Response<ureq::Body>) -> Page {
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
                Page { status, text: response.into_body().read_to_string().expect("text") }
            }
        }
    }

    fn url(&self, path: &str) -> String {
        if path.starts_with('/') { format!("{}{path}", self.issuer) } else { path.to_owned() }
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
