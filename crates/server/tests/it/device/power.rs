//! Who may approve and use what: an approval has the power of who gave it, as long as he has it.

use super::{
    administers, allow, codes, codes_for, end_sessions_of_ada, error, in_acme, poll, refusal, sign_out,
    signed_in, suspend_acme, suspend_ada,
};
use crate::support::{Admin, text};
use identity::ids::{CustomerId, OrganizationId, UserId};
use identity::organization_decisions;
use identity::organizations;
use identity::users::{self, NewUser};
use identity::{Time, clients, passwords};
use server::testing::TestServer;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_ends_with_the_power_of_who_gave_it() {
    enum Loss {
        User,
        Organization,
        Sessions,
        SignOut,
        Client,
    }
    for loss in [Loss::User, Loss::Organization, Loss::Sessions, Loss::SignOut, Loss::Client] {
        let server = TestServer::start().await;
        let mut ada = signed_in(&server, "ada@acme.test").await;
        let codes = codes(&server).await;
        allow(&mut ada, &codes).await;
        let expected = match loss {
            Loss::User => {
                suspend_ada(&server).await;
                error(400, "invalid_grant")
            }
            Loss::Organization => {
                suspend_acme(&server).await;
                error(400, "access_denied")
            }
            Loss::Sessions => {
                end_sessions_of_ada(&server).await;
                error(400, "invalid_grant")
            }
            Loss::SignOut => {
                sign_out(&mut ada).await;
                error(400, "invalid_grant")
            }
            Loss::Client => {
                let id = server.client("cli").to_owned();
                in_acme(&server, move |tx, _, actor| {
                    let client = clients::get(tx.snapshot(), &identity::ids::ClientId::parse(&id)?)?;
                    clients::delete(tx, &client, actor)
                })
                .await;
                error(401, "invalid_client")
            }
        };
        for _ in 0..2 {
            assert_eq!(refusal(&poll(&server, &codes).await), expected);
        }
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_stopped_before_cannot_approve() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let codes = codes(&server).await;
    let code = codes.text("user_code");
    let page = ada.open_code(&code).await;
    let (csrf, session) = (page.input("csrf"), page.input("session"));
    let fields = [("csrf", &*csrf), ("session", &session), ("user_code", &code), ("decision", "allow")];
    suspend_ada(&server).await;
    assert_eq!(ada.post("/activate", &fields).await.status, 403);
    assert_eq!(refusal(&poll(&server, &codes).await), error(400, "authorization_pending"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_organization_gives_no_codes_and_no_tokens() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let codes = codes(&server).await;
    suspend_acme(&server).await;
    ada.decide(&codes.text("user_code"), "allow").await;
    assert_eq!(refusal(&poll(&server, &codes).await), error(400, "access_denied"));
    let more = server.post("/auth/device/code", &[("client_id", server.client("cli"))]).send().await;
    assert_eq!(refusal(&more), error(400, "unauthorized_client"));
    in_acme(&server, |tx, acme, actor| organization_decisions::activate(tx, acme, actor).map(|_| ())).await;
    assert_eq!(refusal(&poll(&server, &codes).await), error(400, "authorization_pending"), "nobody approved");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_outlives_the_browser_that_allowed_it_but_not_its_user() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let codes = codes(&server).await;
    allow(&mut ada, &codes).await;
    let tokens = poll(&server, &codes).await;
    sign_out(&mut ada).await;
    let read =
        || async { server.get("/api/subscription").bearer(&tokens.text("access_token")).send().await.status };
    assert_eq!(read().await, 200);
    let refresh = async |token: String| {
        let fields = [
            ("grant_type", "refresh_token"),
            ("refresh_token", &*token),
            ("client_id", server.client("cli")),
        ];
        server.post("/auth/token", &fields).send().await
    };
    let next = refresh(tokens.text("refresh_token")).await;
    assert_eq!(next.status, 200, "{next:?}");
    end_sessions_of_ada(&server).await;
    assert_eq!(read().await, 401, "ending all of a user's sessions ends the device");
    assert_eq!(refusal(&refresh(next.text("refresh_token")).await), error(400, "invalid_grant"));
    server.stop().await;
}

/// An organization of somebody else's, with a user who has Ada's address there.
async fn evil_twin_of_ada(server: &TestServer) {
    let (now, random) = (server.app.now(), server.app.random());
    let organization = OrganizationId::new(now, random);
    let twin = NewUser {
        id: UserId::new(now, random),
        customer: CustomerId::new(now, random),
        email: "ada@acme.test".to_owned(),
        profile: users::Profile::named("Ada"),
        email_verified: false,
    };
    let hash =
        passwords::hash("a password of the twin", random, &mut passwords::Memory::default()).expect("hashes");
    let actor = server.app.system();
    let made = server.app.store.write("test", move |tx| {
        organizations::create(tx, &organization, "evil", "Evil", true, &actor)?;
        let user = users::create(tx, &organization, &twin, &actor)?;
        passwords::put(tx, &user.id, &hash, Time::from_millis(1))
    });
    made.await.expect("made");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_another_organization_approves_nothing() {
    let server = TestServer::start().await;
    evil_twin_of_ada(&server).await;
    let codes = codes(&server).await;
    let mut twin = server.browser();
    let signed_in = twin.sign_in_with("evil", "ada@acme.test", "a password of the twin").await;
    assert_eq!(signed_in.status, 303);
    // Cookies are the browser's to name: the session of one organization goes out as that of another.
    for (name, value) in twin.cookies.clone().iter() {
        twin.cookies.set(name, "");
        twin.cookies.set(&name.replace("_evil", "_acme"), value);
    }
    twin.decide(&codes.text("user_code"), "allow").await;
    let answer = poll(&server, &codes).await;
    assert_ne!(answer.status, 200, "a user of evil is signed in to a product of acme: {answer:?}");
    refusal(&answer);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_s_auth_time_is_when_its_user_proved_who_he_is() {
    let server = TestServer::start().await;
    crate::support::until_both_keys_sign(&server).await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let signed_in_at = server.app.now().seconds();
    server.clock.advance(Duration::from_secs(60));
    let codes = codes_for(&server, server.client("cli"), Some("openid offline_access")).await;
    ada.decide(&codes.text("user_code"), "allow").await;
    let tokens = poll(&server, &codes).await;
    server.clock.advance(Duration::from_secs(60));
    let fields = [
        ("grant_type", "refresh_token"),
        ("refresh_token", &*tokens.text("refresh_token")),
        ("client_id", server.client("cli")),
    ];
    let refreshed = server.post("/auth/token", &fields).send().await;
    for answer in [&tokens, &refreshed] {
        assert_eq!(crate::support::claims(&answer.text("id_token"))["auth_time"], signed_in_at, "{answer:?}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_that_administers_is_signed_in_for_thirty_days() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "owner@sarsen.test", "org:platform").await;
    administers(&server, "admin@acme.test", "org:acme").await;
    let users = "/api/organizations/platform/users";
    let found = owner.read(&format!("{users}?email=admin@acme.test")).await;
    let sessions = owner.read(&format!("{users}/{}/sessions", text(&found["items"][0], "id"))).await;
    let sessions = sessions["items"].as_array().expect("a list");
    let terminal = sessions.iter().find(|session| session["kind"] == "device").expect("the terminal");
    // The test's clock stands at the first.
    let times = (text(terminal, "created_at"), text(terminal, "expires_at"));
    assert_eq!(times, ("2027-01-15T08:00:00Z", "2027-02-14T08:00:00Z"));
    server.stop().await;
}
