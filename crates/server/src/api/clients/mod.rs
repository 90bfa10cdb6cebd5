//! `/api/organizations/{org}/clients`: the OAuth clients of an organization's services.

pub(crate) mod problems;
pub(crate) mod scopes;
pub(crate) mod secrets;

use crate::openapi::words;
use crate::web::administration::{Admin, AdminOrProgram, Administrator, Written};
use crate::web::error::Result;
use crate::web::fields::{FieldErrors, Rules as _, Validate};
use crate::web::json::{Body, Created, Json, List, Page, Params, rfc3339, sent};
use crate::web::path::Path;
use http::StatusCode;
use identity::clients::{
    self, Client, ClientPatch, DEVICE_GRANT, Kind, NewClient, NewSecret, Pkce, Purpose, parse_id_token_alg,
};
use identity::ids::ClientId;
use identity::names;
use identity::programs;
use identity::services;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

#[derive(Serialize, ToSchema)]
#[schema(as = Client)]
pub(crate) struct ClientBody {
    client_id: String,
    /// Only in the answer to the request that created the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_secret: Option<String>,
    /// The slug of its service.
    service: String,
    #[schema(schema_with = words::client_kind)]
    kind: &'static str,
    name: String,
    grants: Vec<String>,
    redirect_uris: Vec<String>,
    post_logout_redirect_uris: Vec<String>,
    /// Whether a user is asked before the client gets its first code; `true` while `needs_review` is.
    consent_required: bool,
    /// Whether a program made the client or changed its redirect addresses, and no owner has set `consent_required` since.
    /// Users are asked at each request until then.
    needs_review: bool,
    #[schema(schema_with = words::pkce)]
    pkce: &'static str,
    /// When it last sent a challenge, to within an hour; null if it never did.
    #[schema(required, format = DateTime)]
    pkce_used_at: Option<String>,
    #[schema(schema_with = words::id_token_alg)]
    id_token_alg: &'static str,
    /// Only for kinds that may use the device flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    device_flow: Option<bool>,
    /// Only of machine clients: what the client may do in its organization.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::scopes)]
    scopes: Option<Vec<String>>,
    #[schema(format = DateTime)]
    created_at: String,
}

fn show(client: Client) -> ClientBody {
    let scopes = (client.kind == Kind::Machine).then(|| client.scope.iter().map(str::to_owned).collect());
    let device_flow = client.kind.has_device_flow().then(|| client.may(DEVICE_GRANT));
    ClientBody {
        client_id: client.id.to_string(),
        client_secret: None,
        service: client.service_slug,
        kind: client.kind.as_str(),
        name: client.name,
        grants: client.grants,
        redirect_uris: client.redirect_uris,
        post_logout_redirect_uris: client.post_logout_redirect_uris,
        consent_required: client.consent_required,
        needs_review: client.needs_review,
        pkce: client.pkce.as_str(),
        pkce_used_at: client.pkce_used_at.map(rfc3339),
        id_token_alg: client.id_token_alg.as_str(),
        device_flow,
        scopes,
        created_at: rfc3339(client.created_at),
    }
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    limit: Option<i64>,
    cursor: Option<String>,
    /// Only those of the service with this slug.
    #[param(schema_with = words::service_slug)]
    service: Option<String>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CreateClient)]
pub(crate) struct CreateBody {
    #[schema(schema_with = words::service_slug)]
    pub(crate) service: String,
    #[schema(schema_with = words::client_kind)]
    pub(crate) kind: String,
    #[schema(schema_with = words::name)]
    name: String,
    #[serde(default)]
    #[schema(schema_with = words::uris)]
    redirect_uris: Vec<String>,
    #[serde(default)]
    #[schema(schema_with = words::uris)]
    post_logout_redirect_uris: Vec<String>,
    consent_required: Option<bool>,
    #[schema(schema_with = words::pkce)]
    pkce: Option<String>,
    #[schema(schema_with = words::id_token_alg)]
    id_token_alg: Option<String>,
}

impl CreateBody {
    /// The client that it describes: what it leaves out is the default of its kind.
    pub(crate) fn new_client(&self, id: ClientId) -> identity::Result<NewClient> {
        let kind = Kind::parse(&self.kind)?;
        let default = NewClient::new(id, kind, &self.name, self.redirect_uris.clone());
        Ok(NewClient {
            post_logout_redirect_uris: self.post_logout_redirect_uris.clone(),
            consent_required: self.consent_required.unwrap_or(default.consent_required),
            pkce: parsed(self.pkce.as_deref(), Pkce::parse)?.unwrap_or(default.pkce),
            id_token_alg: parsed(self.id_token_alg.as_deref(), parse_id_token_alg)?
                .unwrap_or(default.id_token_alg),
            ..default
        })
    }
}

/// The change that gives a client everything that the new one would have.
pub(crate) fn patch_to(new: NewClient) -> ClientPatch {
    ClientPatch {
        name: Some(new.name),
        redirect_uris: Some(new.redirect_uris),
        post_logout_redirect_uris: Some(new.post_logout_redirect_uris),
        consent_required: Some(new.consent_required),
        pkce: Some(new.pkce),
        id_token_alg: Some(new.id_token_alg),
        device_flow: None,
    }
}

impl Validate for CreateBody {
    fn validate(&self, errors: &mut FieldErrors) {
        errors.check(names::display("name", &self.name));
        check_uris(Purpose::Redirect, Some(&self.redirect_uris), errors);
        check_uris(Purpose::PostLogout, Some(&self.post_logout_redirect_uris), errors);
        errors.check_sent(self.id_token_alg.as_deref(), parse_id_token_alg);
        let pkce = self.pkce.as_deref().and_then(|pkce| errors.check(Pkce::parse(pkce)));
        if let Some(kind) = errors.check(Kind::parse(&self.kind)) {
            errors.check(clients::check_redirect_uris(kind, &self.redirect_uris));
            errors.check(clients::check_pkce(kind, pkce.unwrap_or(Pkce::default_of(kind))));
        }
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ChangeClient)]
pub(crate) struct ChangeBody {
    #[serde(default, deserialize_with = "sent")]
    #[schema(schema_with = words::name)]
    name: Option<String>,
    #[serde(default, deserialize_with = "sent")]
    #[schema(schema_with = words::uris)]
    redirect_uris: Option<Vec<String>>,
    #[serde(default, deserialize_with = "sent")]
    #[schema(schema_with = words::uris)]
    post_logout_redirect_uris: Option<Vec<String>>,
    #[serde(default, deserialize_with = "sent")]
    #[schema(nullable = false)]
    consent_required: Option<bool>,
    #[serde(default, deserialize_with = "sent")]
    #[schema(schema_with = words::pkce)]
    pkce: Option<String>,
    #[serde(default, deserialize_with = "sent")]
    #[schema(schema_with = words::id_token_alg)]
    id_token_alg: Option<String>,
    #[serde(default, deserialize_with = "sent")]
    #[schema(nullable = false)]
    device_flow: Option<bool>,
}

impl Validate for ChangeBody {
    fn validate(&self, errors: &mut FieldErrors) {
        errors.check_sent(self.name.as_deref(), |name| names::display("name", name));
        check_uris(Purpose::Redirect, self.redirect_uris.as_deref(), errors);
        check_uris(Purpose::PostLogout, self.post_logout_redirect_uris.as_deref(), errors);
        errors.check_sent(self.pkce.as_deref(), Pkce::parse);
        errors.check_sent(self.id_token_alg.as_deref(), parse_id_token_alg);
    }
}

impl ChangeBody {
    /// What a program needs for these changes: addresses have a scope of their own.
    fn scopes(&self) -> Vec<&'static str> {
        let ChangeBody { name, redirect_uris, post_logout_redirect_uris, .. } = self;
        let moves = redirect_uris.is_some() || post_logout_redirect_uris.is_some();
        let ChangeBody { consent_required, pkce, id_token_alg, device_flow, .. } = self;
        let rest = [name.is_some(), consent_required.is_some(), pkce.is_some(), id_token_alg.is_some()];
        let changes = device_flow.is_some() || rest.contains(&true);
        let addresses = moves.then_some(programs::CLIENT_REDIRECTS);
        addresses.into_iter().chain((changes || !moves).then_some("clients:write")).collect()
    }
}

fn check_uris(purpose: Purpose, uris: Option<&[String]>, errors: &mut FieldErrors) {
    let uris = uris.unwrap_or_default();
    errors.check_each(purpose.field(), uris, |uri| clients::check_uri(purpose, uri));
    errors.check(clients::check_uri_list(purpose, uris));
}

/// A named value that may be left out.
fn parsed<T>(name: Option<&str>, parse: fn(&str) -> identity::Result<T>) -> identity::Result<Option<T>> {
    name.map(parse).transpose()
}

pub(crate) async fn list(
    admin: Administrator,
    Params(query): Params<ListQuery>,
) -> Result<Json<List<ClientBody>>> {
    let page = Page::<ClientId>::filtered(query.limit, query.cursor, &[query.service.as_deref()])?;
    let (organization, cursor, fetch) = (admin.organization.id.clone(), page.cursor.clone(), page.fetch());
    let found = admin.list(move |snapshot| {
        let service = match &query.service {
            Some(slug) => Some(services::named(snapshot, &organization, slug)?.id),
            None => None,
        };
        clients::list(snapshot, &organization, service.as_ref(), cursor.as_deref(), fetch)
    });
    Ok(Json(page.list(found.await?, |client| client.id.to_string(), show)))
}

/// The addresses and the secret of a new client need a scope each, beside `clients:write`.
fn beside_write(kind: Kind, body: &CreateBody) -> Vec<&'static str> {
    let has_addresses = !body.redirect_uris.is_empty() || !body.post_logout_redirect_uris.is_empty();
    let addresses = has_addresses.then_some(programs::CLIENT_REDIRECTS);
    let secret = kind.is_confidential().then_some(programs::CLIENT_SECRETS);
    addresses.into_iter().chain(secret).collect()
}

pub(crate) async fn create(admin: Admin, Body(body): Body<CreateBody>) -> Written<Created<ClientBody>> {
    let kind = Kind::parse(&body.kind)?;
    let admin = admin.with_scopes(&beside_write(kind, &body))?;
    let now = admin.now();
    let new = body.new_client(ClientId::new(now, admin.random()))?;
    let secret = kind.is_confidential().then(|| NewSecret::generate(now, admin.random()));
    let client_secret = secret.as_ref().map(|secret| secret.secret.clone());
    let made = admin.write("client.create", move |tx, by| {
        let service = services::named(tx.snapshot(), &by.organization.id, &body.service)?;
        clients::create(tx, &by.organization.id, Some(&service.id), &new, by.actor)?;
        if let Some(secret) = &secret {
            clients::add_secret(tx, &by.organization.id, &new.id, secret, by.role, by.actor)?;
        }
        let shown = show(clients::get(tx.snapshot(), &new.id)?);
        Ok(Created(ClientBody { client_secret: client_secret.clone(), ..shown }))
    });
    made.await
}

pub(crate) async fn get(
    admin: Administrator,
    Path((_, client)): Path<(String, String)>,
) -> Result<Json<ClientBody>> {
    let (organization, client) = (admin.organization.id.clone(), ClientId::parse(&client)?);
    let found = admin.read(move |snapshot| clients::in_organization(snapshot, &organization, &client));
    Ok(Json(show(found.await?)))
}

pub(crate) async fn change(
    caller: AdminOrProgram,
    Path((_, client)): Path<(String, String)>,
    Body(body): Body<ChangeBody>,
) -> Written<Json<ClientBody>> {
    let admin = caller.with_scopes(&body.scopes())?;
    let client = ClientId::parse(&client)?;
    let patch = ClientPatch {
        name: body.name,
        redirect_uris: body.redirect_uris,
        post_logout_redirect_uris: body.post_logout_redirect_uris,
        consent_required: body.consent_required,
        pkce: parsed(body.pkce.as_deref(), Pkce::parse)?,
        id_token_alg: parsed(body.id_token_alg.as_deref(), parse_id_token_alg)?,
        device_flow: body.device_flow,
    };
    let changed = admin.write("client.change", move |tx, by| {
        let client = clients::in_organization(tx.snapshot(), &by.organization.id, &client)?;
        Ok(Json(show(clients::patch(tx, &client, &patch, by.role, by.actor)?)))
    });
    changed.await
}

pub(crate) async fn delete(admin: Admin, Path((_, client)): Path<(String, String)>) -> Written<StatusCode> {
    let client = ClientId::parse(&client)?;
    let deleted = admin.write("client.delete", move |tx, by| {
        let client = clients::in_organization(tx.snapshot(), &by.organization.id, &client)?;
        clients::delete(tx, &client, by.actor)?;
        Ok(StatusCode::NO_CONTENT)
    });
    deleted.await
}
