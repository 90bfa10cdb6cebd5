//! What the mix `auth` needs: organizations in which users may register, accounts with passwords, and users of the platform
//! who register organizations of their own.

use std::cell::Cell;
use std::rc::Rc;

use serde_json::json;

use super::admin::{Admin, CLIENT_ID, Credentials};
use super::client::Client;
use super::person::{Person, sign_in_with_password};
use super::populate::make_tenants;
use super::sign_ins::{PASSWORD, SignIn, set_password, sign_ins_in};
use super::tenants::Tenant;
use crate::error::Error;
use crate::http::{RequestDraft, Target};

/// The organization of those who administer.
const PLATFORM: &str = "platform";
/// The first number of its users.
const REGISTRANTS_FROM: usize = 5_000_000;
/// A user may have five organizations that wait for their review.
const REGISTRANTS: usize = 8;

/// All accounts of the mix.
pub struct Registrations {
    pub target: Target,
    /// Slugs of organizations with an open sign-up.
    pub organizations: Vec<String>,
    pub sign_ins: Vec<SignIn>,
    /// The `Authorization` of each user who registers organizations.
    pub registrants: Vec<String>,
    admin: Admin,
    next: Cell<usize>,
}

impl Registrations {
    /// The forms of the sign-ins.
    pub fn forms(&self) -> Rc<Vec<Vec<u8>>> {
        Rc::new(self.sign_ins.iter().map(|sign_in| sign_in.form.clone()).collect())
    }

    /// A number that no registration has yet.
    pub fn number(&self) -> usize {
        self.next.replace(self.next.get() + 1)
    }

    /// The `Authorization` of the owner of the server, with a new token.
    pub async fn owner(&self) -> Result<String, Error> {
        self.admin.refresh(&mut Client::new(self.target.clone(), 0)).await?;
        Ok(self.admin.bearer())
    }
}

/// Fills the server at `target`.
pub async fn create_registrations(
    target: &Target,
    credentials: &Credentials,
    tenants: usize,
    accounts: usize,
) -> Result<Registrations, Error> {
    let mut client = Client::new(target.clone(), 0);
    let admin = Admin::sign_in(&mut client, credentials).await?;
    let tenants = make_tenants(&admin, &mut client, tenants).await?;
    for tenant in &tenants {
        let path = format!("/api/organizations/{}", tenant.slug);
        admin.send(&mut client, RequestDraft::json("PATCH", &path, &json!({ "sign_up": true }))).await?;
    }
    let sign_ins = sign_ins_in(&admin, &mut client, &tenants, accounts).await?;
    let platform = Tenant { slug: PLATFORM.to_owned(), client_id: CLIENT_ID.to_owned() };
    let mut registrants = Vec::with_capacity(REGISTRANTS);
    for number in 0..REGISTRANTS {
        let person = Person::create(&admin, &mut client, &platform, REGISTRANTS_FROM + number).await?;
        set_password(&admin, &mut client, &person).await?;
        // The terminal's client asks for the password again, so a link is not enough.
        let own = Credentials { email: person.email, password: PASSWORD.to_owned() };
        let tokens = sign_in_with_password(&mut client, CLIENT_ID, "openid platform", &own).await?;
        registrants.push(format!("Bearer {}", tokens.access_token));
    }
    Ok(Registrations {
        target: target.clone(),
        organizations: tenants.into_iter().map(|tenant| tenant.slug).collect(),
        sign_ins,
        registrants,
        admin,
        next: Cell::new(0),
    })
}
