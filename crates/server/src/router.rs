//! Every route, in one table: the map of the product. An operation of the crate `api` has its path there.

use crate::app::App;
use crate::dev::{demo, mail};
use crate::operation::{health, metrics};
use crate::web::error::Problem;
use crate::web::handles::Serve as _;
use crate::{api, oauth, openapi, pages, webhooks};
use ::api::users;
use axum::response::{IntoResponse, Response};
use endpoint::routes::{Routes, acting_get, delete, get, patch, post, put};
use http::{Method, StatusCode, Uri};
use oauth::error::OAuthError;
use pages::respond::PageError;

/// The routes of a server.
pub fn router() -> Routes<App> {
    Routes::new(unknown, wrong_method)
        // OAuth 2.0 and OpenID Connect
        .route("/.well-known/openid-configuration", get(oauth::discovery::configuration))
        .route("/.well-known/oauth-authorization-server", get(oauth::discovery::configuration))
        .route("/.well-known/oauth-protected-resource", get(oauth::discovery::protected_origin))
        .route("/.well-known/oauth-protected-resource/api", get(oauth::discovery::protected_api))
        .route("/.well-known/jwks.json", get(oauth::discovery::jwks))
        .route("/auth/authorize", acting_get(oauth::authorize::get).post(oauth::authorize::post))
        .route("/auth/device/code", post(oauth::device_code::post))
        .route("/auth/token", post(oauth::token::post))
        .route("/auth/revoke", post(oauth::revoke::post))
        .route("/auth/introspect", post(oauth::introspect::post))
        .route("/auth/userinfo", get(oauth::userinfo::get).post(oauth::userinfo::post))
        .route("/auth/logout", acting_get(oauth::logout::get).post(oauth::logout::post))
        // What a service reads
        .route("/api/subscription", get(api::subscription::get))
        .route("/api/user", get(api::user::get))
        .route("/api/live", acting_get(api::live::get))
        // What the back end of a service reads
        .route("/api/service/users", get(api::service::users))
        .route("/api/service/check", post(api::service::check))
        .route("/api/service/state", get(api::service::state::get))
        // Administration
        .route("/api/organizations", get(api::organizations::list).post(api::organizations::create))
        .route(
            "/api/organizations/{org}",
            get(api::organizations::get).patch(api::organizations::change).delete(api::organizations::delete),
        )
        .route("/api/organizations/{org}/deletion", delete(api::organizations::restore))
        .route("/api/organizations/{org}/branding", get(api::branding::get).put(api::branding::put))
        .route("/api/organizations/{org}/administrators", get(api::administrators::list))
        .route(
            "/api/organizations/{org}/administrators/{user}",
            patch(api::administrators::change).delete(api::administrators::remove),
        )
        .route(
            "/api/organizations/{org}/invitations",
            get(api::invitations::list).post(api::invitations::create),
        )
        .route("/api/organizations/{org}/invitations/{invitation}", delete(api::invitations::revoke))
        .route("/api/organizations/{org}/services", get(api::services::list).post(api::services::create))
        .route(
            "/api/organizations/{org}/services/{service}",
            get(api::services::get).patch(api::services::change).delete(api::services::delete),
        )
        .route("/api/organizations/{org}/clients", get(api::clients::list).post(api::clients::create))
        .route(
            "/api/organizations/{org}/clients/{client}",
            get(api::clients::get).patch(api::clients::change).delete(api::clients::delete),
        )
        .route("/api/organizations/{org}/clients/{client}/problems", get(api::clients::problems::list))
        .route(
            "/api/organizations/{org}/clients/{client}/secrets",
            get(api::clients::secrets::list).post(api::clients::secrets::create),
        )
        .route(
            "/api/organizations/{org}/clients/{client}/secrets/{secret}",
            delete(api::clients::secrets::delete),
        )
        .route(
            "/api/organizations/{org}/clients/{client}/scopes",
            put(api::clients::scopes::put).delete(api::clients::scopes::delete),
        )
        .route("/api/organizations/{org}/plans", get(api::plans::list).post(api::plans::create))
        .route(
            "/api/organizations/{org}/plans/{plan}",
            get(api::plans::get).patch(api::plans::change).delete(api::plans::delete),
        )
        .route("/api/organizations/{org}/customers", get(api::customers::list))
        .route(
            "/api/organizations/{org}/subscriptions",
            get(api::subscriptions::list).post(api::subscriptions::create),
        )
        .route(
            "/api/organizations/{org}/subscriptions/{subscription}",
            get(api::subscriptions::get).patch(api::subscriptions::change).delete(api::subscriptions::delete),
        )
        .serve(users::ListUsers, api::users::list)
        .serve(users::CreateUser, api::users::create)
        .serve(users::GetUser, api::users::get)
        .serve(users::ChangeUser, api::users::change)
        .serve(users::DeleteUser, api::users::delete)
        .serve(users::SuspendUser, api::users::suspension::put)
        .serve(users::ActivateUser, api::users::suspension::delete)
        .serve(users::ListSessions, api::users::sessions::list)
        .serve(users::EndSessions, api::users::sessions::end_all)
        .serve(users::EndSession, api::users::sessions::end)
        .serve(users::CreateSignInLink, api::users::sign_in_link::create)
        .serve(users::CreatePasswordLink, api::users::password_link::create)
        .route("/api/organizations/{org}/keys", get(api::keys::list).post(api::keys::create))
        .route("/api/organizations/{org}/keys/{key}", get(api::keys::get).delete(api::keys::revoke))
        .route("/api/organizations/{org}/audit", get(api::audit::list))
        // Payment providers
        .route("/api/organizations/{org}/billing", get(api::billing::list).post(api::billing::create))
        .route(
            "/api/organizations/{org}/billing/{connection}",
            get(api::billing::get).patch(api::billing::change).delete(api::billing::delete),
        )
        .route("/api/organizations/{org}/billing/{connection}/prices", get(api::billing::prices::list))
        .route(
            "/api/organizations/{org}/billing/{connection}/prices/{price}",
            put(api::billing::prices::put).delete(api::billing::prices::delete),
        )
        .route("/api/organizations/{org}/billing/{connection}/customers", get(api::billing::customers::list))
        .route(
            "/api/organizations/{org}/billing/{connection}/customers/{billing_customer}",
            put(api::billing::customers::put).delete(api::billing::customers::delete),
        )
        .route(
            "/api/organizations/{org}/billing/{connection}/references",
            post(api::billing::customers::reference),
        )
        .route(
            "/api/organizations/{org}/billing/{connection}/subscriptions",
            get(api::billing::subscriptions::list),
        )
        .route(
            "/api/organizations/{org}/billing/{connection}/retry",
            post(api::billing::subscriptions::retry),
        )
        .route("/api/organizations/{org}/billing/{connection}/events", get(api::billing::events::list))
        .route("/webhooks/billing/{connection}", post(webhooks::billing::post))
        // The platform
        .route("/api/platform/organizations", get(api::platform::list))
        .route("/api/platform/organizations/{org}/review", post(api::platform::review))
        .route(
            "/api/platform/organizations/{org}/suspension",
            put(api::platform::suspend).delete(api::platform::activate),
        )
        .route("/api/platform/owners", get(api::platform::owners::list).post(api::platform::owners::invite))
        .route("/api/platform/owners/{user}", delete(api::platform::owners::remove))
        // The description of the API
        .route("/api/openapi.json", get(openapi::document))
        .route("/api/docs", get(openapi::docs))
        // Pages
        .route("/", get(demo::home))
        .route("/activate", get(pages::activate::get).post(pages::activate::post))
        .route("/consent", post(pages::consent::post))
        .route("/console", get(pages::console::get))
        .route("/invitation", get(pages::invitation::get).post(pages::invitation::post))
        .route("/login", get(pages::sign_in::get_platform).post(pages::sign_in::post_platform))
        .route("/password", get(pages::password::get).post(pages::password::post))
        .route("/setup", get(pages::set_up::get).post(pages::set_up::post))
        .route("/o/{slug}/login", get(pages::sign_in::get).post(pages::sign_in::post))
        .route("/o/{slug}/signup", get(pages::sign_up::get).post(pages::sign_up::post))
        .route("/o/{slug}/link", get(pages::link::get).post(pages::link::post))
        .route("/o/{slug}/forgot", get(pages::forgot::get).post(pages::forgot::post))
        .route("/o/{slug}/code", get(pages::code::get).post(pages::code::post))
        .route("/o/{slug}/reset", get(pages::reset::get).post(pages::reset::post))
        .route("/o/{slug}/verify", post(pages::verify::post))
        .route("/o/{slug}/confirm", get(pages::confirm::get).post(pages::confirm::post))
        .route("/o/{slug}/account", get(pages::account::get))
        .route("/o/{slug}/account/sessions", post(pages::account::sessions::post))
        .route("/o/{slug}/account/consents", post(pages::account::consents::post))
        .route(
            "/o/{slug}/account/password",
            get(pages::account::password::get).post(pages::account::password::post),
        )
        .route("/o/{slug}/logout", get(pages::account::ask_sign_out).post(pages::account::sign_out))
        .route("/assets/sarsen.css", get(pages::assets::stylesheet))
        .route("/assets/product.js", get(pages::assets::product_script))
        .route("/assets/logo.svg", get(pages::assets::logo))
        .route("/favicon.ico", get(pages::assets::logo))
        // The demo's sample products
        .route("/demo/{product}", acting_get(demo::show))
        .route("/demo/{product}/live", acting_get(demo::live))
        .route("/demo/{product}/login", get(demo::sign_in))
        .route("/demo/{product}/callback", acting_get(demo::callback))
        .route("/demo/{product}/logout", get(demo::sign_out))
        // The mails of `sarsen demo` and `sarsen dev`
        .route("/dev/mail", get(mail::list))
        .route("/dev/mail.json", get(mail::json))
        .route("/dev/mail/{number}", get(mail::show))
        .route("/dev/mail/{number}/html", get(mail::html))
        // The server of `sarsen dev`
        .route("/dev/sign-in", acting_get(pages::dev_sign_in::get))
        // Operation
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(metrics::get))
        .complete()
}

async fn unknown(uri: Uri) -> Response {
    if is_for_programs(uri.path()) {
        return Problem::not_found("route").into_response();
    }
    PageError::not_found(uri.path()).into_response()
}

async fn wrong_method(method: Method, uri: Uri) -> Response {
    let detail = format!("This address does not accept {method}; the Allow header lists what it accepts.");
    let status = StatusCode::METHOD_NOT_ALLOWED;
    if uri.path().starts_with("/auth/") {
        return OAuthError { status, ..OAuthError::invalid_request(detail) }.into_response();
    }
    if is_for_programs(uri.path()) {
        return Problem::new(status, "method_not_allowed", detail).into_response();
    }
    PageError::wrong_method(&method, uri.path()).into_response()
}

/// Programs get a problem document, people a page.
fn is_for_programs(path: &str) -> bool {
    path.starts_with("/api/")
        || path.starts_with("/webhooks/")
        || matches!(path, "/healthz" | "/readyz" | "/metrics")
}
