//! One account of a run: an administrator creates it, its browser signs in by a one-time link, and a device signs in. No
//! password is hashed.

use browser::{Cookies, Form, KnownValues, forms};
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use super::account::Tokens;
use super::admin::{Admin, Credentials};
use super::browser::Browser;
use super::client::Client;
use super::device_flow::sign_in;
use super::tenants::Tenant;
use crate::error::Error;

/// The scope of a product.
pub(crate) const SCOPE: &str = "openid profile email offline_access";

/// An account and its browser.
pub struct Person {
    /// Slug of the organization.
    pub organization: String,
    /// The id of its device client.
    pub client_id: String,
    pub user_id: String,
    pub email: String,
    /// Its own made-up IP address.
    pub address: String,
    pub cookies: Cookies,
}

#[derive(Deserialize)]
struct New {
    id: String,
}

#[derive(Deserialize)]
struct NewLink {
    url: String,
}

impl Person {
    /// Account number `number` of the run, in `tenant`.
    pub(super) async fn create(
        admin: &Admin,
        client: &mut Client,
        tenant: &Tenant,
        number: usize,
    ) -> Result<Person, Error> {
        let email = format!("user-{number}@{}.test", tenant.slug);
        let user = json!({ "email": &email, "name": format!("User {number}") });
        let path = format!("/api/organizations/{}/users", tenant.slug);
        let user: New = admin.post(client, &path, &user).await?.json()?;
        Ok(Person {
            organization: tenant.slug.clone(),
            client_id: tenant.client_id.clone(),
            user_id: user.id,
            email,
            address: address_of(number),
            cookies: Cookies::default(),
        })
    }

    /// Subscribes to `plan`, and returns the id of the subscription.
    pub(super) async fn subscribe(
        &self,
        admin: &Admin,
        client: &mut Client,
        plan: &str,
    ) -> Result<String, Error> {
        let path = format!("/api/organizations/{}/subscriptions", self.organization);
        let bought = json!({ "user": self.user_id, "plan": plan });
        let bought: New = admin.post(client, &path, &bought).await?.json()?;
        Ok(bought.id)
    }

    /// Signs the browser in by a one-time link.
    pub(crate) async fn sign_in_by_link(&mut self, admin: &Admin, client: &mut Client) -> Result<(), Error> {
        let path = format!("/api/organizations/{}/users/{}/sign-in-link", self.organization, self.user_id);
        let link: NewLink = admin.post(client, &path, &json!({})).await?.json()?;
        self.cookies = Cookies::default();
        use_link(&mut self.browser(client), &link.url).await
    }

    /// Signs a device in, approved by the browser.
    pub(crate) async fn sign_in(&mut self, client: &mut Client) -> Result<Tokens, Error> {
        let received = Instant::now();
        let client_id = self.client_id.clone();
        let answer = sign_in(&mut self.browser(client), &client_id, SCOPE, KnownValues::default()).await?;
        Ok(answer.into_tokens(received))
    }

    fn browser<'a>(&'a mut self, client: &'a mut Client) -> Browser<'a> {
        Browser { client, cookies: &mut self.cookies, address: &self.address }
    }
}

/// Signs a device in, approved with a password in a new browser.
pub(crate) async fn sign_in_with_password(
    client: &mut Client,
    client_id: &str,
    scope: &str,
    credentials: &Credentials,
) -> Result<Tokens, Error> {
    let (address, received) = (address_of(0), Instant::now());
    let mut browser = Browser { client, cookies: &mut Cookies::default(), address: &address };
    let known = KnownValues { email: &credentials.email, password: &credentials.password, user_code: "" };
    Ok(sign_in(&mut browser, client_id, scope, known).await?.into_tokens(received))
}

/// Opens a one-time link and confirms it. The answer has the cookie of the session.
async fn use_link(browser: &mut Browser<'_>, url: &str) -> Result<(), Error> {
    let page = browser.open(url).await?;
    let forms = forms(&page.text());
    let known = KnownValues::default();
    let Some(form) = Form::next(&forms, &known) else {
        return Err(Error::set_up("sign-in link", format!("{}: a page without a form", page.reply.status)));
    };
    let answer = browser.submit(&page, &form.fill(&known)).await?;
    if answer.redirect().is_none() && answer.reply.status != 200 {
        return Err(answer.reply.unexpected("the sign-in link was not accepted"));
    }
    if browser.cookies.header().is_none() {
        return Err(Error::set_up("sign-in link", "no cookie came with it"));
    }
    Ok(())
}

/// A made-up IP address for each number.
pub(crate) fn address_of(number: usize) -> String {
    let number = number + 1;
    format!("10.{}.{}.{}", (number >> 16) & 0x7f, (number >> 8) & 0xff, number & 0xff)
}
