//! `/api/organizations/{org}/users`: the accounts of an organization; `?q=` searches, `?sort=` sorts.

pub(crate) mod password_link;
pub(crate) mod sessions;
pub(crate) mod sign_in_link;
pub(crate) mod suspension;

use crate::web::administration::{Admin, Administrator, Written};
use crate::web::error::Result;
use crate::web::fields::{FieldErrors, Rules as _, Validate};
use crate::web::json::{Body, Created, Encoded, Json, List, Page, Params, rfc3339};
use crate::web::path::Path;
use api::users::{Account, CreatedUser, NewUser, User, UserChange, UserDetail, UserFilter};
use http::StatusCode;
use identity::ids::UserId;
use identity::links;
use identity::names;
use identity::programs;
use identity::user_deletions;
use identity::user_search::{self, Place};
use identity::users::{self, Order, Profile};
use identity::{Error, Time};
use std::str::FromStr;

pub(crate) fn account(user: &users::User) -> Account {
    Account {
        id: user.id.to_string(),
        email: user.email.clone(),
        email_verified: user.email_verified_at.is_some(),
        name: user.profile.name.clone(),
        created_at: rfc3339(user.created_at),
    }
}

fn show(user: users::User) -> User {
    User { account: account(&user), suspended_at: user.suspended_at.map(rfc3339) }
}

fn show_seen((user, last_seen): (users::User, Option<Time>)) -> UserDetail {
    UserDetail { user: show(user), last_seen_at: last_seen.map(rfc3339) }
}

/// What a list shows.
enum Shown {
    /// The accounts that a text finds, in the order of what was found.
    Found(String),
    /// All accounts, or the one with an address, in an order.
    Sorted(Order),
}

impl Shown {
    fn of(query: &UserFilter) -> Result<Shown> {
        let mut errors = FieldErrors::default();
        errors.check_sent(query.email.as_deref(), names::known_email);
        let text = query.q.as_deref().and_then(|q| errors.check(user_search::text(q)));
        let order = query.sort.as_deref().and_then(|sort| errors.check(Order::parse(sort)));
        for (field, value) in [("email", &query.email), ("sort", &query.sort)] {
            if query.q.is_some() && value.is_some() {
                errors.note(
                    "not_allowed",
                    field.to_owned(),
                    &format!("q cannot be combined with {field}; send one"),
                );
            }
        }
        errors.finish_query()?;
        Ok(text.map_or(Shown::Sorted(order.unwrap_or_default()), Shown::Found))
    }
}

impl Validate for NewUser {
    fn validate(&self, errors: &mut FieldErrors) {
        errors.check(names::email(&self.email));
        settings(self).validate(errors);
    }
}

impl Validate for UserChange {
    fn validate(&self, errors: &mut FieldErrors) {
        errors.check_sent(self.name.as_deref(), |name| names::display("name", name));
    }
}

/// What a new account has of that which a change may set. A blank name is none.
fn settings(new: &NewUser) -> UserChange {
    UserChange { name: new.name.clone().filter(|name| !name.trim().is_empty()) }
}

/// The profile with what the request sets.
fn profile_with(change: &UserChange, profile: Profile) -> Profile {
    Profile { name: change.name.clone().unwrap_or(profile.name) }
}

pub(crate) async fn list(
    admin: Administrator,
    Params(query): Params<UserFilter>,
) -> Result<Json<List<User>>> {
    match Shown::of(&query)? {
        Shown::Found(text) => search(admin, query, text).await,
        Shown::Sorted(Order::Email) => by_email(admin, query).await,
        Shown::Sorted(order) => by_id(admin, query, order).await,
    }
}

async fn by_id(admin: Administrator, query: UserFilter, order: Order) -> Result<Json<List<User>>> {
    let sort = query.sort.as_deref().filter(|_| order != Order::default());
    let page = Page::<UserId>::filtered(query.limit, query.cursor, &[query.email.as_deref(), sort])?;
    let (organization, cursor, fetch) = (admin.organization.id.clone(), page.cursor.clone(), page.fetch());
    let found = admin.list(move |snapshot| {
        users::list(snapshot, &organization, query.email.as_deref(), order, cursor.as_deref(), fetch)
    });
    Ok(Json(page.list(found.await?, |user| user.id.to_string(), show)))
}

async fn by_email(admin: Administrator, query: UserFilter) -> Result<Json<List<User>>> {
    let parameters = [query.email.as_deref(), query.sort.as_deref()];
    let page = Page::<Encoded>::filtered(query.limit, query.cursor, &parameters)?;
    let (organization, fetch) = (admin.organization.id.clone(), page.fetch());
    let cursor = page.place().map(|Encoded(email)| email);
    let found = admin.list(move |snapshot| {
        users::list(snapshot, &organization, query.email.as_deref(), Order::Email, cursor.as_deref(), fetch)
    });
    Ok(Json(page.list(found.await?, |user| Encoded::cursor(&user.email), show)))
}

async fn search(admin: Administrator, query: UserFilter, text: String) -> Result<Json<List<User>>> {
    let page = Page::<PlaceCursor>::filtered(query.limit, query.cursor, &[Some(&text)])?;
    let (organization, fetch) = (admin.organization.id.clone(), page.fetch());
    let after = page.place().map(|PlaceCursor(place)| place);
    let found =
        admin.list(move |snapshot| user_search::find(snapshot, &organization, &text, after.as_ref(), fetch));
    Ok(Json(page.list(found.await?, |(place, _)| PlaceCursor::cursor(place), |(_, user)| show(user))))
}

/// The cursor of a search.
struct PlaceCursor(Place);

impl PlaceCursor {
    fn cursor(place: &Place) -> String {
        Encoded::cursor(&format!("{} {}", place.user, place.term))
    }
}

impl FromStr for PlaceCursor {
    type Err = Error;
    fn from_str(cursor: &str) -> identity::Result<PlaceCursor> {
        let Encoded(text) = cursor.parse()?;
        let (user, term) = text.split_once(' ').unwrap_or_default();
        Ok(PlaceCursor(Place { user: UserId::parse(user)?, term: term.to_owned() }))
    }
}

pub(crate) async fn create(admin: Admin, Body(body): Body<NewUser>) -> Written<Created<CreatedUser>> {
    let admin = admin.with_scopes(if body.password_link { &[programs::USER_LINKS] } else { &[] })?;
    let now = admin.now();
    let new = users::NewUser {
        email_verified: body.email_verified,
        profile: profile_with(&settings(&body), Profile::default()),
        ..users::NewUser::new(body.email, now, admin.random())
    };
    let link = body.password_link.then(|| password_link::generate(&admin, &new.id));
    let url = link.as_ref().map(|link| password_link::url(&admin, link));
    let made = admin.write("user.create", move |tx, by| {
        let user = users::create(tx, &by.organization.id, &new, by.actor)?;
        let expires_at =
            link.as_ref().map(|link| links::create_for(tx, &user, link, by.actor)).transpose()?;
        let link = url.clone().zip(expires_at);
        let password_link = link.map(|(url, expires_at)| password_link::body(url, expires_at));
        Ok(Created(CreatedUser { user: show(user), password_link }))
    });
    made.await
}

pub(crate) async fn get(
    admin: Administrator,
    Path((_, user)): Path<(String, String)>,
) -> Result<Json<UserDetail>> {
    let (organization, user) = (admin.organization.id.clone(), UserId::parse(&user)?);
    let found = admin.point(move |snapshot| {
        let user = users::in_organization(snapshot, &organization, &user)?;
        let last_seen = users::last_seen(snapshot, &user.id)?;
        Ok::<_, Error>((user, last_seen))
    });
    Ok(Json(show_seen(found.await?)))
}

pub(crate) async fn change(
    admin: Admin,
    Path((_, user)): Path<(String, String)>,
    Body(body): Body<UserChange>,
) -> Written<Json<User>> {
    let user = UserId::parse(&user)?;
    let changed = admin.write("user.change", move |tx, by| {
        Ok(Json(show(users::change(
            tx,
            &by.organization.id,
            &user,
            |profile| profile_with(&body, profile),
            by.actor,
        )?)))
    });
    changed.await
}

pub(crate) async fn delete(admin: Admin, Path((_, user)): Path<(String, String)>) -> Written<StatusCode> {
    let user = UserId::parse(&user)?;
    let deleted = admin.write("user.delete", move |tx, by| {
        let user = users::in_organization(tx.snapshot(), &by.organization.id, &user)?;
        user_deletions::delete(tx, &user, by.actor)?;
        Ok(StatusCode::NO_CONTENT)
    });
    deleted.await
}
