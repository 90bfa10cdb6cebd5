//! Signs tokens, after the commit of their grant. The claims are read before that commit: if reading them fails, the
//! code is not consumed.

use crate::app::App;
use crate::oauth::error::{OAuthError, Result};
use crate::web::json::Json;
use axum::response::{IntoResponse, Response};
use http::header::CACHE_CONTROL;
use identity::administrators::{self, Role};
use identity::authentication::Authentication;
use identity::clients::Client;
use identity::ids::{AuditId, GrantId, SessionId, UserId};
use identity::keys::{Algorithm, Ring};
use identity::organizations::PLATFORM;
use identity::scopes::{self, Scope};
use identity::tokens::{self, ACCESS_LIFE, AccessClaims, Audience, IdClaims};
use identity::{Error, Time};
use serde::Serialize;

/// The maximum number of organizations in a token, which must fit into a header of any proxy.
const NAMED_MAX: usize = 32;

/// The input for an answer with tokens.
pub(crate) struct Issue {
    pub user: UserId,
    pub session: SessionId,
    pub grant: GrantId,
    pub scope: Scope,
    pub refresh_token: Option<String>,
    pub nonce: Option<String>,
    pub authentication: Authentication,
}

/// The claims for the tokens of a user, and the keys that sign them.
pub(crate) struct Prepared {
    audiences: Vec<String>,
    scope: String,
    customer: Option<String>,
    /// For the ID token, if the scope requests one.
    subject: Option<SubjectClaims>,
    ring: Ring,
}

#[derive(Serialize)]
struct TokenBody {
    access_token: String,
    token_type: &'static str,
    expires_in: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    refresh_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id_token: Option<String>,
    /// A scope has at least one word (RFC 6749 section 3.3).
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
}

/// Reads the claims for the tokens of a user within a scope. A user who was deleted since the code or token was issued
/// has no grant.
pub(crate) async fn prepare(app: &App, client: &Client, user: &UserId, scope: &Scope) -> Result<Prepared> {
    read_claims(app, client, user, scope).await.map_err(|error| match error {
        Error::NotFound { .. } => OAuthError::invalid_grant(),
        error => error.into(),
    })
}

async fn read_claims(app: &App, client: &Client, user: &UserId, scope: &Scope) -> identity::Result<Prepared> {
    let now = app.now();
    let (audiences, named) = audiences(app, client, user, scope).await?;
    let customer = match &client.service {
        Some(service) => Some(app.lookups.entitlement(user, service, now).await?.customer.to_string()),
        None => None,
    };
    let wants_id_token = scope.contains("openid");
    let subject = if wants_id_token { Some(subject_claims(app, user, scope).await?) } else { None };
    let ring = ring(app, wants_id_token, now).await?;
    Ok(Prepared { audiences, scope: named, customer, subject, ring })
}

/// Signs the tokens of a grant of a user and returns them.
pub(crate) async fn answer(app: &App, client: &Client, issue: Issue, prepared: Prepared) -> Result<Response> {
    let now = app.now();
    let Prepared { audiences, scope, customer, subject, ring } = prepared;
    // The random half of an id; the other half is that of the grant.
    let unique = AuditId::new(now, app.random());
    let claims = AccessClaims {
        iss: app.settings.issuer.clone(),
        sub: issue.user.to_string(),
        aud: Audience::of(audiences),
        client_id: client.id.to_string(),
        exp: (now + ACCESS_LIFE).seconds(),
        iat: now.seconds(),
        jti: format!("{}.{}", issue.grant, tokens::jti_of(&unique)),
        scope: scope.clone(),
        sid: Some(issue.session.to_string()),
        org: Some(client.organization_slug.clone()),
        service: client.service.as_ref().map(|_| client.service_slug.clone()),
        customer,
        azp: Some(client.id.to_string()),
        auth_time: Some(issue.authentication.at.seconds()),
        acr: issue.authentication.acr(),
        amr: issue.authentication.amr(),
    };
    let access_token = sign_access(app, &ring, &claims, client, now)?;
    let id_token = match subject {
        Some(subject) => {
            let claims = id_claims(app, client, &issue, subject, now);
            Some(sign_id(ring, claims, client.id_token_alg, now).await?)
        }
        None => None,
    };
    // An empty one says that the user has lost every role since. Without it, the scope would count as granted.
    Ok(respond(access_token, issue.refresh_token, id_token, Some(scope)))
}

/// Signs an access token of a client that acts for itself, and returns it. Its audience is the client's service, or with
/// a scope the organization that it administers: no service that receives the one can use it as the other.
pub(crate) async fn answer_machine(app: &App, client: &Client, scope: &Scope) -> Result<Response> {
    let now = app.now();
    let administers = !scope.is_empty();
    let audience = match administers {
        true => format!("org:{}", client.organization_slug),
        false => client.service_audience(),
    };
    let claims = AccessClaims {
        iss: app.settings.issuer.clone(),
        sub: client.id.to_string(),
        aud: Audience::One(audience),
        client_id: client.id.to_string(),
        exp: (now + ACCESS_LIFE).seconds(),
        iat: now.seconds(),
        jti: tokens::jti_of(&AuditId::new(now, app.random())).to_owned(),
        scope: scope.to_string(),
        sid: None,
        org: Some(client.organization_slug.clone()),
        service: (!administers).then(|| client.service_slug.clone()),
        customer: None,
        azp: None,
        auth_time: None,
        acr: None,
        amr: None,
    };
    let ring = app.lookups.ring(now).await?;
    let access_token = sign_access(app, &ring, &claims, client, now)?;
    Ok(respond(access_token, None, None, administers.then(|| scope.to_string())))
}

/// Signs an access token, and notes that its signature is right.
fn sign_access(
    app: &App,
    ring: &Ring,
    claims: &AccessClaims,
    client: &Client,
    now: Time,
) -> identity::Result<String> {
    let (token, key) = tokens::sign_access(ring, claims, client.access_token_typ, now)?;
    app.lookups.note_signed(&token, &key, claims.exp, now);
    Ok(token)
}

fn respond(
    access_token: String,
    refresh_token: Option<String>,
    id_token: Option<String>,
    scope: Option<String>,
) -> Response {
    let body = TokenBody {
        access_token,
        token_type: "Bearer",
        expires_in: ACCESS_LIFE.as_secs(),
        refresh_token,
        id_token,
        scope,
    };
    ([(CACHE_CONTROL, "no-store")], Json(body)).into_response()
}

/// The audience and the scope of a token. For a client of a service, the audience is the service. For a client of
/// `platform`, it is the granted organizations that the user still administers, because a grant can outlive a role. A
/// user who administers more than [`NAMED_MAX`] organizations and requested all keeps [`scopes::ANY_ORGANIZATION`]; beside
/// it, `org:platform` still names an owner of the server.
async fn audiences(
    app: &App,
    client: &Client,
    user: &UserId,
    scope: &Scope,
) -> identity::Result<(Vec<String>, String)> {
    if !client.is_first_party() {
        return Ok((vec![client.service_audience()], scope.to_string()));
    }
    let wanted = user.clone();
    let roles: Vec<(String, Role)> =
        app.store.read(move |snapshot| administrators::slugs_of_user(snapshot, &wanted)).await?;
    let mut audiences = vec!["account".to_owned()];
    let mut granted: Vec<String> = Vec::new();
    for word in scope.iter() {
        match scopes::organization_of(word) {
            None => {
                if word == scopes::PLATFORM {
                    audiences.push(word.to_owned());
                }
                granted.push(word.to_owned());
            }
            Some("*") if roles.len() > NAMED_MAX => {
                let owns_server =
                    roles.iter().any(|(own, _)| own == PLATFORM).then(|| format!("org:{PLATFORM}"));
                for audience in [Some(word.to_owned()), owns_server].into_iter().flatten() {
                    if !audiences.contains(&audience) {
                        audiences.push(audience.clone());
                        granted.push(audience);
                    }
                }
            }
            Some(slug) => {
                let own = roles.iter().map(|(own, _)| own).filter(|own| slug == "*" || slug == own.as_str());
                for own in own {
                    let audience = format!("org:{own}");
                    if !audiences.contains(&audience) {
                        audiences.push(audience.clone());
                        granted.push(audience);
                    }
                }
            }
        }
    }
    Ok((audiences, granted.join(" ")))
}

/// The signing keys. Creates the RSA key of a new installation if it does not exist yet.
async fn ring(app: &App, for_id_token: bool, now: Time) -> identity::Result<Ring> {
    let ring = app.lookups.ring(now).await?;
    if !for_id_token || ring.signer(Algorithm::Rs256, now).is_some() {
        return Ok(ring);
    }
    app.key_maker().renew(Algorithm::Rs256).await?;
    app.lookups.ring(now).await
}

/// Signs on a blocking thread, because RS256 takes most of a millisecond.
async fn sign_id(ring: Ring, claims: IdClaims, algorithm: Algorithm, now: Time) -> Result<String> {
    let signed = tokio::task::spawn_blocking(move || tokens::sign_id(&ring, &claims, algorithm, now));
    Ok(signed.await.map_err(|error| Error::Internal(format!("signing: {error}")))??)
}

fn id_claims(app: &App, client: &Client, issue: &Issue, subject: SubjectClaims, now: Time) -> IdClaims {
    IdClaims {
        iss: app.settings.issuer.clone(),
        sub: issue.user.to_string(),
        aud: client.id.to_string(),
        exp: (now + tokens::ID_LIFE).seconds(),
        iat: now.seconds(),
        auth_time: issue.authentication.at.seconds(),
        acr: issue.authentication.acr(),
        amr: issue.authentication.amr(),
        azp: Some(client.id.to_string()),
        sid: issue.session.to_string(),
        nonce: issue.nonce.clone(),
        email: subject.email,
        email_verified: subject.email_verified,
        name: subject.name,
    }
}

/// The claims about a user that a scope allows (OpenID Connect Core 5.4).
#[derive(Serialize)]
pub(crate) struct SubjectClaims {
    sub: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    email_verified: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

/// The claims about a user within a scope.
pub(crate) async fn subject_claims(
    app: &App,
    user: &UserId,
    scope: &Scope,
) -> identity::Result<SubjectClaims> {
    let user = app.lookups.user(user, app.now()).await?;
    let (email, profile) = (scope.contains("email"), scope.contains("profile"));
    Ok(SubjectClaims {
        sub: user.id.to_string(),
        email: email.then(|| user.email.clone()),
        email_verified: email.then(|| user.email_verified_at.is_some()),
        name: profile.then(|| user.profile.name.clone()),
    })
}
