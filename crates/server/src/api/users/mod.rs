//! `/api/organizations/{org}/users`: the accounts of an organization; `?q=` searches, `?sort=` sorts.

pub(crate) mod password_link;
pub(crate) mod sessions;
pub(crate) mod sign_in_link;
pub(crate) mod suspension;

use crate::openapi::words;
use crate::web::administration::{Admin, Administrator, Written};
use crate::web::error::Result;
use crate::web::fields::{FieldErrors, Rules as _, Validate};
use crate::web::json::{Body, Created, Encoded, Json, List, Page, Params, rfc3339, sent};
use crate::web::path::Path;
use http::StatusCode;
use identity::ids::UserId;
use identity::links;
use identity::names;
use identity::programs;
use identity::user_deletions;
use identity::user_search::{self, Place};
use identity::users::{self, NewUser, Order, Profile, User};
use identity::{Error, Time};
use serde::{Deserialize, Serialize};
use sign_in_link::LinkBody;
use std::str::FromStr;
use utoipa::{IntoParams, ToSchema};

/// The fields of an account that administrators and services see.
#[derive(Serialize, ToSchema)]
#[schema(as = Account)]
pub(crate) struct AccountBody {
    id: String,
    email: String,
    email_verified: bool,
    name: String,
    #[schema(format = DateTime)]
    created_at: String,
}

impl From<&User> for AccountBody {
    fn from(user: &User) -> AccountBody {
        AccountBody {
            id: user.id.to_string(),
            email: user.email.clone(),
            email_verified: user.email_verified_at.is_some(),
            name: user.profile.name.clone(),
            created_at: rfc3339(user.created_at),
        }
    }
}

#[derive(Serialize, ToSchema)]
#[schema(as = User)]
pub(crate) struct UserBody {
    #[serde(flatten)]
    account: AccountBody,
    #[schema(required, format = DateTime)]
    suspended_at: Option<String>,
}

fn show(user: User) -> UserBody {
    UserBody { account: AccountBody::from(&user), suspended_at: user.suspended_at.map(rfc3339) }
}

#[derive(Serialize, ToSchema)]
#[schema(as = UserDetail)]
pub(crate) struct SeenBody {
    #[serde(flatten)]
    user: UserBody,
    /// Up to five minutes late.
    #[schema(required, format = DateTime)]
    last_seen_at: Option<String>,
}

fn show_seen((user, last_seen): (User, Option<Time>)) -> SeenBody {
    SeenBody { user: show(user), last_seen_at: last_seen.map(rfc3339) }
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    limit: Option<i64>,
    cursor: Option<String>,
    /// The whole address of one account.
    #[param(schema_with = words::email)]
    email: Option<String>,
    /// The beginning of an e-mail address, of a name, or of a later word of a name.
    #[param(schema_with = words::search)]
    q: Option<String>,
    /// `created_at`, `-created_at` or `email`.
    #[param(schema_with = words::user_order)]
    sort: Option<String>,
}

/// What a list shows.
enum Shown {
    /// The accounts that a text finds, in the order of what was found.
    Found(String),
    /// All accounts, or the one with an address, in an order.
    Sorted(Order),
}

impl ListQuery {
    fn shown(&self) -> Result<Shown> {
        let mut errors = FieldErrors::default();
        errors.check_sent(self.email.as_deref(), names::known_email);
        let text = self.q.as_deref().and_then(|q| errors.check(user_search::text(q)));
        let order = self.sort.as_deref().and_then(|sort| errors.check(Order::parse(sort)));
        for (field, value) in [("email", &self.email), ("sort", &self.sort)] {
            if self.q.is_some() && value.is_some() {
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

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CreateUser)]
pub(crate) struct CreateBody {
    #[schema(schema_with = words::email)]
    email: String,
    #[serde(default)]
    email_verified: bool,
    #[schema(schema_with = words::user_name)]
    name: Option<String>,
    /// Whether the answer has a link with which the user sets a password. A program needs the scope `users:links` for it.
    #[serde(default)]
    password_link: bool,
}

impl Validate for CreateBody {
    fn validate(&self, errors: &mut FieldErrors) {
        errors.check(names::email(&self.email));
        let name = self.name.as_deref().filter(|name| !name.trim().is_empty());
        errors.check_sent(name, |name| names::display("name", name));
    }
}

#[derive(Serialize, ToSchema)]
#[schema(as = CreatedUser)]
pub(crate) struct CreatedBody {
    #[serde(flatten)]
    user: UserBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    password_link: Option<LinkBody>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ChangeUser)]
pub(crate) struct ChangeBody {
    #[serde(default, deserialize_with = "sent")]
    #[schema(schema_with = words::name)]
    name: Option<String>,
}

impl Validate for ChangeBody {
    fn validate(&self, errors: &mut FieldErrors) {
        errors.check_sent(self.name.as_deref(), |name| names::display("name", name));
    }
}

impl ChangeBody {
    /// The profile with what the request sets.
    fn over(&self, profile: Profile) -> Profile {
        Profile { name: self.name.clone().unwrap_or(profile.name) }
    }
}

pub(crate) async fn list(
    admin: Administrator,
    Params(query): Params<ListQuery>,
) -> Result<Json<List<UserBody>>> {
    match query.shown()? {
        Shown::Found(text) => search(admin, query, text).await,
        Shown::Sorted(Order::Email) => by_email(admin, query).await,
        Shown::Sorted(order) => by_id(admin, query, order).await,
    }
}

async fn by_id(admin: Administrator, query: ListQuery, order: Order) -> Result<Json<List<UserBody>>> {
    let sort = query.sort.as_deref().filter(|_| order != Order::default());
    let page = Page::<UserId>::filtered(query.limit, query.cursor, &[query.email.as_deref(), sort])?;
    let (organization, cursor, fetch) = (admin.organization.id.clone(), page.cursor.clone(), page.fetch());
    let found = admin.list(move |snapshot| {
        users::list(snapshot, &organization, query.email.as_deref(), order, cursor.as_deref(), fetch)
    });
    Ok(Json(List::new(found.await?, &page, |user| user.id.to_string(), show)))
}

async fn by_email(admin: Administrator, query: ListQuery) -> Result<Json<List<UserBody>>> {
    let parameters = [query.email.as_deref(), query.sort.as_deref()];
    let page = Page::<Encoded>::filtered(query.limit, query.cursor, &parameters)?;
    let (organization, fetch) = (admin.organization.id.clone(), page.fetch());
    let cursor = page.place().map(|Encoded(email)| email);
    let found = admin.list(move |snapshot| {
        users::list(snapshot, &organization, query.email.as_deref(), Order::Email, cursor.as_deref(), fetch)
    });
    Ok(Json(List::new(found.await?, &page, |user| Encoded::cursor(&user.email), show)))
}

async fn search(admin: Administrator, query: ListQuery, text: String) -> Result<Json<List<UserBody>>> {
    let page = Page::<PlaceCursor>::filtered(query.limit, query.cursor, &[Some(&text)])?;
    let (organization, fetch) = (admin.organization.id.clone(), page.fetch());
    let after = page.place().map(|PlaceCursor(place)| place);
    let found =
        admin.list(move |snapshot| user_search::find(snapshot, &organization, &text, after.as_ref(), fetch));
    Ok(Json(List::new(found.await?, &page, |(place, _)| PlaceCursor::cursor(place), |(_, user)| show(user))))
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

pub(crate) async fn create(admin: Admin, Body(body): Body<CreateBody>) -> Written<Created<CreatedBody>> {
    let admin = admin.with_scopes(if body.password_link { &[programs::USER_LINKS] } else { &[] })?;
    let now = admin.now();
    let new = NewUser {
        email_verified: body.email_verified,
        profile: ChangeBody { name: body.name }.over(Profile::default()),
        ..NewUser::new(body.email, now, admin.random())
    };
    let link = body.password_link.then(|| password_link::generate(&admin, &new.id));
    let url = link.as_ref().map(|link| password_link::url(&admin, link));
    let made = admin.write("user.create", move |tx, by| {
        let user = users::create(tx, &by.organization.id, &new, by.actor)?;
        let expires_at =
            link.as_ref().map(|link| links::create_for(tx, &user, link, by.actor)).transpose()?;
        let link = url.clone().zip(expires_at);
        let password_link = link.map(|(url, expires_at)| password_link::body(url, expires_at));
        Ok(Created(CreatedBody { user: show(user), password_link }))
    });
    made.await
}

pub(crate) async fn get(
    admin: Administrator,
    Path((_, user)): Path<(String, String)>,
) -> Result<Json<SeenBody>> {
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
    Body(body): Body<ChangeBody>,
) -> Written<Json<UserBody>> {
    let user = UserId::parse(&user)?;
    let changed = admin.write("user.change", move |tx, by| {
        Ok(Json(show(users::change(tx, &by.organization.id, &user, |profile| body.over(profile), by.actor)?)))
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
