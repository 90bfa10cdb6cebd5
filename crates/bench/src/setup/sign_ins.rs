//! Accounts with passwords, each with the request that signs it in.

use std::rc::Rc;

use browser::{Cookies, Form, KnownValues, Request, forms};
use serde::Deserialize;
use serde_json::json;

use super::admin::{Admin, Credentials};
use super::browser::Browser;
use super::client::Client;
use super::person::Person;
use super::populate::make_tenants;
use super::tenants::Tenant;
use crate::error::Error;
use crate::http::{RequestDraft, Target};
use crate::report::{progress, thousands};

pub(crate) const PASSWORD: &str = "measured with a long password";
const WRONG_PASSWORD: &str = "not the long password";
/// More than any server lets pass.
const WRONG_MAX: usize = 200;
/// The first number of these accounts.
const FIRST: usize = 3_000_000;
/// Every account is in a network of its own.
pub(crate) const ADDRESSES_APART: usize = 256;

/// The requests of a browser that the server does not know.
#[derive(Debug, Clone)]
pub struct SignIn {
    pub page: Vec<u8>,
    /// The filled form, ready to be sent.
    pub form: Vec<u8>,
}

#[derive(Deserialize)]
struct NewLink {
    url: String,
}

/// Creates `count` accounts in `tenants` organizations, sets their passwords, and returns the form of each that is ready to
/// be sent: the one of a browser that the server does not know.
pub async fn create_sign_ins(
    target: &Target,
    credentials: &Credentials,
    tenants: usize,
    count: usize,
) -> Result<Rc<Vec<Vec<u8>>>, Error> {
    let mut client = Client::new(target.clone(), 0);
    let admin = Admin::sign_in(&mut client, credentials).await?;
    let tenants = make_tenants(&admin, &mut client, tenants).await?;
    let sign_ins = sign_ins_in(&admin, &mut client, &tenants, count).await?;
    Ok(Rc::new(sign_ins.into_iter().map(|sign_in| sign_in.form).collect()))
}

/// The same in organizations that exist, with the page of each form.
pub(super) async fn sign_ins_in(
    admin: &Admin,
    client: &mut Client,
    tenants: &[Tenant],
    count: usize,
) -> Result<Vec<SignIn>, Error> {
    let mut requests = Vec::with_capacity(count);
    for number in 0..count {
        let tenant = &tenants[number % tenants.len()];
        let person = Person::create(admin, client, tenant, FIRST + number * ADDRESSES_APART).await?;
        set_password(admin, client, &person).await?;
        let page = RequestDraft::in_browser(
            Request::get(sign_in_path(&person)),
            &Cookies::default(),
            &person.address,
        );
        let form = sign_in_draft(client, &person, PASSWORD).await?;
        let host = &client.target().host;
        requests.push(SignIn { page: page.encode(host), form: form.encode(host) });
        if number % 25 == 24 {
            let (done, of) = (thousands(number as u64 + 1), thousands(count as u64));
            progress(&format!("set-up: {done} of {of} passwords set"));
        }
    }
    Ok(requests)
}

/// Creates an account and fails its sign-in until the server refuses it at once. Returns the form. Its refusals hash nothing and
/// take the same reads as those of a full lane; now and then, with growing pauses, one attempt is hashed again.
pub async fn create_throttled_sign_in(target: &Target, credentials: &Credentials) -> Result<Vec<u8>, Error> {
    let mut client = Client::new(target.clone(), 0);
    let admin = Admin::sign_in(&mut client, credentials).await?;
    let tenants = make_tenants(&admin, &mut client, 1).await?;
    let person = Person::create(&admin, &mut client, &tenants[0], FIRST - ADDRESSES_APART).await?;
    set_password(&admin, &mut client, &person).await?;
    let draft = sign_in_draft(&mut client, &person, WRONG_PASSWORD).await?;
    for _ in 0..WRONG_MAX {
        let reply = client.send_without_patience(&draft).await?;
        if reply.status == 429 {
            return Ok(draft.encode(&client.target().host));
        }
    }
    Err(Error::set_up("wrong passwords", format!("{WRONG_MAX} in a row were not refused")))
}

pub(super) async fn set_password(admin: &Admin, client: &mut Client, person: &Person) -> Result<(), Error> {
    let path = format!("/api/organizations/{}/users/{}/password-link", person.organization, person.user_id);
    let link: NewLink = admin.post(client, &path, &json!({})).await?.json()?;
    let known = known(person);
    let mut browser = Browser { client, cookies: &mut Cookies::default(), address: &person.address };
    let page = browser.open(&link.url).await?;
    let found = forms(&page.text());
    let Some(form) = Form::next(&found, &known) else {
        return Err(page.reply.unexpected("the password link shows no form"));
    };
    // A button of the form is "Not now".
    let answer = browser.submit(&page, &form.with(&[("password", PASSWORD)])).await?;
    match answer.redirect() {
        Some(_) => Ok(()),
        None => Err(answer.reply.unexpected("the password was not accepted")),
    }
}

fn sign_in_path(person: &Person) -> String {
    format!("/o/{}/login", person.organization)
}

/// The filled form of the page on which the account signs in.
async fn sign_in_draft(client: &mut Client, person: &Person, password: &str) -> Result<RequestDraft, Error> {
    let known = KnownValues { password, ..known(person) };
    let origin = client.target().origin.clone();
    let mut cookies = Cookies::default();
    let mut browser = Browser { client, cookies: &mut cookies, address: &person.address };
    let page = browser.open(&sign_in_path(person)).await?;
    let found = forms(&page.text());
    let Some(form) = Form::next(&found, &known) else {
        return Err(page.reply.unexpected("the sign-in page has no form"));
    };
    let request = Request::submit(&page.path, &origin, &form.fill(&known));
    Ok(RequestDraft::in_browser(request, &cookies, &person.address))
}

fn known(person: &Person) -> KnownValues<'_> {
    KnownValues { email: &person.email, password: PASSWORD, user_code: "" }
}
