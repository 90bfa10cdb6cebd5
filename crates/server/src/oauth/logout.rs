//! `/auth/logout` (OpenID Connect RP-Initiated Logout): a client asks to sign its user out. With a good
//! hint and a registered address it happens at once; otherwise the user is asked.

use crate::app::App;
use crate::pages::account;
use crate::pages::browser::{Asked, Browser, Form, encoded};
use crate::pages::flash::Flash;
use crate::pages::respond::{PageError, PageResult, see_other};
use crate::pages::sign_in;
use crate::web::path::Path;
use axum::extract::State;
use identity::tokens;

pub(crate) async fn get(State(app): State<App>, browser: Browser, Asked(asked): Asked) -> PageResult {
    sign_out(&app, browser, |name| asked.get(name).map(str::to_owned)).await
}

pub(crate) async fn post(State(app): State<App>, browser: Browser, form: Form) -> PageResult {
    sign_out(&app, browser, |name| form.get(name).map(str::to_owned)).await
}

async fn sign_out(app: &App, browser: Browser, param: impl Fn(&str) -> Option<String>) -> PageResult {
    let now = app.now();
    let ring = app.lookups.ring(now).await?;
    let hint = param("id_token_hint");
    let claims = hint.and_then(|hint| tokens::verify_id_hint(&ring, &app.settings.issuer, &hint, now));
    let Some(claims) = claims else {
        return Err(PageError::bad(
            "id_token_hint is missing or not one of ours; without it we do not know whom to sign out.",
        ));
    };
    let client = app.lookups.client(&claims.aud, now).await?;
    let slug = client.organization_slug.clone();
    let session = browser.session(app, &slug).await?;
    let own = session
        .is_some_and(|session| session.id.as_str() == claims.sid && session.user.as_str() == claims.sub);
    let target = param("post_logout_redirect_uri");
    let own_origin = |uri: &str, known: &str| origin(known).is_some_and(|known| Some(known) == origin(uri));
    if let Some(uri) = &target
        && !client.redirect_uris.iter().any(|known| known == uri || own_origin(uri, known))
    {
        return Err(PageError::bad(
            "post_logout_redirect_uri is not at an address that was registered for this product.",
        ));
    }
    if !own {
        let asked = Asked(crate::oauth::params::Params::default());
        return account::ask_sign_out(State(app.clone()), Path(slug), browser, asked).await;
    }
    let mut cookies = browser.sign_out(app, &slug).await?;
    match target {
        Some(uri) => {
            let joint = if uri.contains('?') { '&' } else { '?' };
            let state = param("state").map(|state| format!("{joint}state={}", encoded(&state)));
            Ok(see_other(&format!("{uri}{}", state.unwrap_or_default()), cookies))
        }
        None => {
            cookies.extend(Flash::SignedOut.cookie(app, &slug));
            Ok(see_other(&sign_in::path(&slug), cookies))
        }
    }
}

/// `scheme://host:port` of an address; none when it has no host, or hides it.
fn origin(uri: &str) -> Option<&str> {
    let (scheme, rest) = uri.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next()?;
    (!host.contains(['@', '\\'])).then(|| &uri[..scheme.len() + 3 + host.len()])
}
