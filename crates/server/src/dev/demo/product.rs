//! A sample product: a confidential client that signs users in with an authorization code and PKCE, and calls
//! `GET /api/subscription` for every page. It uses the routes of this server without the network. Its session is a sealed
//! cookie.

use super::{Credentials, DemoClient, DemoProduct, no_demo, shell_word};
use crate::app::App;
use crate::pages::addresses::encoded;
use crate::pages::browser::{Asked, cookies};
use crate::pages::respond::{PageError, PageResult, english_page, live_page, see_other};
use crate::pages::views::{Accent, Product, ProductUser};
use crate::web::path::Path;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::header::{AUTHORIZATION, CONTENT_TYPE, SET_COOKIE};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::BodyExt as _;
use identity::secrets;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use web::host::requested;

/// The content of the cookie: the session of a visitor.
#[derive(Serialize, Deserialize, Default)]
struct Visit {
    /// During a sign-in: `state` and the PKCE verifier.
    pending: Option<(String, String)>,
    access_token: Option<String>,
    refresh_token: Option<String>,
    id_token: Option<String>,
}

/// A product, its client and the other product.
struct Here<'a> {
    product: &'a DemoProduct,
    client: &'a DemoClient,
    other: &'a DemoProduct,
    accent: Accent,
    known: &'a Credentials,
    sarsen: &'a str,
}

fn here<'a>(app: &'a App, slug: &str) -> Option<Here<'a>> {
    let demo = app.demo.as_ref()?;
    let known = demo.credentials.get()?;
    let position = known.products.iter().position(|product| product.slug == slug)?;
    let other = known.products.iter().find(|product| product.slug != slug)?;
    let accent = if position == 0 { Accent::Sea } else { Accent::Clay };
    let (product, client) = (&known.products[position], known.clients.get(slug)?);
    Some(Here { product, client, other, accent, known, sarsen: &demo.sarsen })
}

pub(crate) async fn show(State(app): State<App>, Path(slug): Path<String>, headers: HeaderMap) -> PageResult {
    let Some(here) = here(&app, &slug) else { return Ok(no_demo(&slug)) };
    let mut visit = read_visit(&app, &slug, &headers);
    let mut cookies = Vec::new();
    // Requested for every page, because the plan can change at any time.
    let mut person = match &visit.access_token {
        Some(token) => about(&app, token).await,
        None => None,
    };
    if person.is_none() && visit.refresh_token.is_some() {
        match renew(&app, &here, &mut visit).await {
            Some(token) => person = about(&app, &token).await,
            None => visit = Visit::default(),
        }
        cookies.extend(visit_cookie(&app, &slug, &visit)?);
    }
    let features: Vec<String> = person.iter().flat_map(|(_, plan)| strings(plan, "features")).collect();
    let features: Vec<&str> = features.iter().map(String::as_str).collect();
    let user = person.as_ref().map(|(user, plan)| ProductUser {
        email: text(user, "email"),
        name: text(user, "name"),
        plan: text(plan, "plan"),
        features: &features,
    });
    let organization = &here.known.organization.slug;
    let email = user.as_ref().map_or("ada@acme.test", |user| user.email);
    let plan = if user.as_ref().is_some_and(|user| user.plan == "pro") { "starter" } else { "pro" };
    let other = if user.is_some() { "/login" } else { "" };
    let view = Product {
        product_name: &here.product.name,
        accent: here.accent,
        live_href: &format!("/demo/{slug}/live"),
        signin_href: &format!("/demo/{slug}/login"),
        signout_href: &format!("/demo/{slug}/logout"),
        other_name: &here.other.name,
        other_href: &format!("{}{other}", here.other.url),
        admin_email: &here.known.organization.admin.email,
        plan_command: &format!(
            "{} subscription change --org {organization} --user {} --plan {plan}",
            here.sarsen,
            shell_word(email)
        ),
        user,
    };
    Ok(match &view.user {
        Some(_) => live_page(view.markup(app.settings.languages.english()), cookies),
        None => english_page(view.markup(app.settings.languages.english()), cookies),
    })
}

/// What changes for the visitor, passed on from `GET /api/live`: the access token stays in the product's back end.
pub(crate) async fn live(State(app): State<App>, Path(slug): Path<String>, headers: HeaderMap) -> PageResult {
    let Some(here) = here(&app, &slug) else { return Ok(no_demo(&slug)) };
    let mut visit = read_visit(&app, &slug, &headers);
    let mut cookies = Vec::new();
    let mut stream = match &visit.access_token {
        Some(token) => stream_of(&app, token).await,
        None => None,
    };
    if stream.is_none()
        && let Some(token) = renew(&app, &here, &mut visit).await
    {
        cookies = visit_cookie(&app, &slug, &visit)?;
        stream = stream_of(&app, &token).await;
    }
    // A browser opens no further stream after 204.
    let Some(mut stream) = stream else { return Ok(StatusCode::NO_CONTENT.into_response()) };
    stream.headers_mut().extend(cookies.into_iter().map(|cookie| (SET_COOKIE, cookie)));
    Ok(stream)
}

pub(crate) async fn sign_in(
    State(app): State<App>,
    Path(slug): Path<String>,
    (uri, headers): (Uri, HeaderMap),
) -> PageResult {
    let Some(here) = here(&app, &slug) else { return Ok(no_demo(&slug)) };
    // At another name of this machine, such as 127.0.0.1, the callback would not get the cookie. At another port somebody
    // stands in between, who has a reason.
    let at = requested(&uri, &headers).and_then(|host| Authority::try_from(host).ok());
    let own = here.product.url.parse::<Uri>().ok().and_then(|url| url.into_parts().authority);
    let is_elsewhere =
        |(at, own): (Authority, Authority)| at.port_u16() == own.port_u16() && at.host() != own.host();
    if at.zip(own).is_some_and(is_elsewhere) {
        return Ok(see_other(&format!("{}/login", here.product.url), Vec::new()));
    }
    let (state, verifier) = (secrets::secret(app.random()), secrets::secret(app.random()));
    let challenge = URL_SAFE_NO_PAD.encode(secrets::hash(verifier.as_bytes()));
    let callback = here.client.redirect_uris.first().map(|uri| encoded(uri)).unwrap_or_default();
    let scope = encoded("openid profile email offline_access");
    let address = format!(
        "/auth/authorize?response_type=code&client_id={}&redirect_uri={callback}&scope={scope}&state={state}\
         &code_challenge={challenge}&code_challenge_method=S256",
        here.client.client_id
    );
    let visit = Visit { pending: Some((state, verifier)), ..Visit::default() };
    Ok(see_other(&address, visit_cookie(&app, &slug, &visit)?))
}

pub(crate) async fn callback(
    State(app): State<App>,
    Path(slug): Path<String>,
    headers: HeaderMap,
    Asked(asked): Asked,
) -> PageResult {
    let Some(here) = here(&app, &slug) else { return Ok(no_demo(&slug)) };
    let Some((state, verifier)) = read_visit(&app, &slug, &headers).pending else {
        return Ok(see_other(&format!("/demo/{slug}"), Vec::new()));
    };
    if asked.get("state") != Some(&state) || asked.get("iss") != Some(&app.settings.issuer) {
        return Err(PageError::bad("problem.request.not_begun"));
    }
    let Some(code) = asked.get("code") else {
        return Ok(see_other(&format!("/demo/{slug}"), visit_cookie(&app, &slug, &Visit::default())?));
    };
    let callback = here.client.redirect_uris.first().map(String::as_str).unwrap_or_default();
    let form = [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", callback),
        ("code_verifier", &verifier),
    ];
    let Some(tokens) = token(&app, &here, &form).await else {
        return Err(PageError::bad("problem.request.not_finished"));
    };
    let own = |name: &str| Some(text(&tokens, name).to_owned()).filter(|value| !value.is_empty());
    let visit = Visit {
        pending: None,
        access_token: own("access_token"),
        refresh_token: own("refresh_token"),
        id_token: own("id_token"),
    };
    Ok(see_other(&format!("/demo/{slug}"), visit_cookie(&app, &slug, &visit)?))
}

pub(crate) async fn sign_out(
    State(app): State<App>,
    Path(slug): Path<String>,
    headers: HeaderMap,
) -> PageResult {
    let Some(here) = here(&app, &slug) else { return Ok(no_demo(&slug)) };
    let visit = read_visit(&app, &slug, &headers);
    let cookies = visit_cookie(&app, &slug, &Visit::default())?;
    let Some(hint) = visit.id_token else { return Ok(see_other(&format!("/demo/{slug}"), cookies)) };
    let back = encoded(&here.product.url);
    Ok(see_other(&format!("/auth/logout?id_token_hint={hint}&post_logout_redirect_uri={back}"), cookies))
}

/// Gets a new access token, and the refresh token after it. `None` if the visit is over.
async fn renew(app: &App, here: &Here<'_>, visit: &mut Visit) -> Option<String> {
    let refresh_token = visit.refresh_token.clone()?;
    let form = [("grant_type", "refresh_token"), ("refresh_token", &*refresh_token)];
    let tokens = token(app, here, &form).await?;
    let access_token = text(&tokens, "access_token").to_owned();
    visit.access_token = Some(access_token.clone());
    visit.refresh_token = Some(text(&tokens, "refresh_token").to_owned());
    Some(access_token)
}

/// Calls the token endpoint, authenticated as the client of the product.
async fn token(app: &App, here: &Here<'_>, form: &[(&str, &str)]) -> Option<Value> {
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    let secret = here.client.client_secret.as_deref().unwrap_or_default();
    let basic = format!("Basic {}", STANDARD.encode(format!("{}:{secret}", here.client.client_id)));
    call(app, Method::POST, "/auth/token", &basic, body).await
}

/// The answers of the API about the visitor: user and subscription.
async fn about(app: &App, access_token: &str) -> Option<(Value, Value)> {
    let bearer = format!("Bearer {access_token}");
    let user = call(app, Method::GET, "/api/user", &bearer, String::new()).await?;
    let plan = call(app, Method::GET, "/api/subscription", &bearer, String::new()).await?;
    Some((user, plan))
}

/// The stream of the visitor's access token; `None` if it is refused.
async fn stream_of(app: &App, access_token: &str) -> Option<Response> {
    let response =
        send(app, Method::GET, "/api/live", &format!("Bearer {access_token}"), String::new()).await?;
    (response.status() == StatusCode::OK).then_some(response)
}

async fn call(app: &App, method: Method, path: &str, authorization: &str, body: String) -> Option<Value> {
    let response = send(app, method, path, authorization, body).await?;
    if response.status() != StatusCode::OK {
        return None;
    }
    let bytes = response.into_body().collect().await.ok()?.to_bytes();
    serde_json::from_slice(&bytes).ok()
}

async fn send(app: &App, method: Method, path: &str, authorization: &str, body: String) -> Option<Response> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(AUTHORIZATION, authorization)
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(Body::from(body))
        .ok()?;
    Some(crate::router::router().answer(app.clone(), request).0.await)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn strings(value: &Value, name: &str) -> Vec<String> {
    let list = value.get(name).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn cookie_name(slug: &str) -> String {
    format!("demo_{slug}")
}

fn read_visit(app: &App, slug: &str, headers: &HeaderMap) -> Visit {
    let name = cookie_name(slug);
    let mut own = cookies(headers, &name).into_iter();
    let sealed = own.find(|(known, _)| *known == name);
    let sealed = sealed.and_then(|(_, value)| URL_SAFE_NO_PAD.decode(value).ok());
    let opened = sealed.and_then(|sealed| app.secret_key.open(&name, &sealed).ok());
    opened.and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_default()
}

fn visit_cookie(app: &App, slug: &str, visit: &Visit) -> Result<Vec<HeaderValue>, PageError> {
    let name = cookie_name(slug);
    let json = serde_json::to_vec(visit).unwrap_or_default();
    let sealed = URL_SAFE_NO_PAD.encode(app.secret_key.seal(&name, &json, app.random())?);
    let cookie = format!("{name}={sealed}; Path=/demo/{slug}; HttpOnly; SameSite=Lax");
    Ok(HeaderValue::from_str(&cookie).into_iter().collect())
}
