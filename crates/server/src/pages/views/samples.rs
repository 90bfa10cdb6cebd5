//! A sample of every page with plausible and with hostile data, for tests and screenshots.

use maud::Markup;
use texts::Language;

use super::*;
use crate::pages::sentence::Sentence;
use crate::pages::{agent, scope, time};
use std::time::Duration;

type Pages = Vec<(&'static str, Markup)>;

pub const HOSTILE: &str = "\"'><img src=x onerror=alert(1)><script>alert(1)</script>\u{202e}";
const SCOPES: [&str; 3] = ["openid", "email", "offline_access"];
const HIDDEN: &[(&str, &str)] = &[("request", "req_01")];

pub fn all(language: &Language) -> Pages {
    let mut pages = forms(language, "Acme", "Request Log", "ada@acme.test", "ada", None);
    pages.extend(invitations(language, "Acme", "admin@acme.test", "grace@acme.test", "Grace", None));
    pages.extend(decisions(language, "Acme", "Acme Terminal", "ada@acme.test", None));
    pages.extend(places(language, "Ada Lovelace", "ada@acme.test"));
    pages
}

/// Every page with an error and with names that try to break out of the HTML.
pub fn hostile(language: &Language) -> Pages {
    let mut pages = forms(language, HOSTILE, HOSTILE, HOSTILE, HOSTILE, Some(HOSTILE));
    pages.extend(invitations(language, HOSTILE, HOSTILE, HOSTILE, HOSTILE, Some(HOSTILE)));
    pages.extend(decisions(language, HOSTILE, HOSTILE, HOSTILE, Some(HOSTILE)));
    pages.extend(places(language, HOSTILE, HOSTILE));
    pages
}

/// A sentence with something of the request in it.
fn saying(text: &str) -> Sentence {
    Sentence::new("problem.not_active.suspended").value("organization", text)
}

#[rustfmt::skip]
pub fn forms(language: &Language, org: &str, client: &str, email: &str, name: &str, error: Option<&str>) -> Pages {
    let (org_name, csrf, hidden) = (org, "token", HIDDEN);
    let text = error.unwrap_or("help@acme.test, or Ada in room 12");
    let contact = Some(Contact { of: Some(org), text });
    let wrong = error.map(|text| FormError { sentence: saying(text), field: Some("password") });
    let (wrong, error) = (wrong.as_ref(), error.map(saying));
    let (error, busy) = (error.as_ref(), Sentence::new("form.busy_for").wait(Duration::from_secs(12)));
    let sign_in = SignIn { org_name, client_name: Some(client), email, error, note: None, csrf, hidden,
        action: "/o/acme/login", signup_href: Some("/o/acme/signup"), forgotten_href: None, contact: None, is_platform: false, is_busy: false };
    let sign_up = SignUp { org_name, client_name: Some(client), name, email, error: wrong, is_taken: true, csrf, hidden,
        action: "/o/acme/signup", signin_href: "/o/acme/login" };
    let set_password = |has_password| SetPassword { brand: org, user_email: email, has_password, may_wait: true, csrf, hidden,
        action: "/password", error: wrong };
    let wrong_as = |field| error.cloned().map(|sentence| FormError { sentence, field: Some(field) });
    let (wrong_email, wrong_code) = (wrong_as("email"), wrong_as("code"));
    let forgot = Forgot { org_name, email, csrf, hidden, action: "/o/acme/forgot", signin_href: "/o/acme/login",
        error: wrong_email.as_ref() };
    let enter_code = EnterCode { org_name, email, is_own: false, minutes: 10, csrf, hidden, action: "/o/acme/code",
        again_href: "/o/acme/forgot", error: wrong_code.as_ref() };
    let confirm = |keeps_password| Confirm { org_name, user_email: email, keeps_password, csrf, hidden, action: "/o/acme/confirm" };
    let change_password = |old| ChangePassword { brand: org, user_email: email, old, csrf,
        action: "/o/acme/account/password", account_href: "/o/acme/account", error: wrong }.markup(language);
    vec![
        ("sign_in", sign_in.markup(language)),
        ("sign_in_fresh",
            SignIn { client_name: None, email: "", note: Some(Note::Flash("flash.signed_out")), ..sign_in }
                .markup(language)),
        ("sign_in_with_mail", SignIn { forgotten_href: Some("/o/acme/forgot"), ..sign_in }.markup(language)),
        ("sign_in_again", SignIn { note: Some(Note::Again(email)), ..sign_in }.markup(language)),
        ("sign_in_no_owner", SignIn { email: "", note: Some(Note::NoOwner), is_platform: true, ..sign_in }.markup(language)),
        ("sign_in_other", SignIn { email: "", note: Some(Note::Other(email)), ..sign_in }.markup(language)),
        ("sign_in_busy", SignIn { is_busy: true, error: Some(&busy), ..sign_in }.markup(language)),
        ("sign_up", sign_up.markup(language)),
        ("activate_enter",
            ActivateEnter { brand: org, user_code: "", error, csrf, action: "/activate" }.markup(language)),
        ("activate_link",
            ActivateLink { brand: org, user_code: "BCDF-GHJK", csrf, hidden, action: "/activate" }.markup(language)),
        ("activate_sign_in", ActivateSignIn { brand: org, error, csrf, action: "/activate" }.markup(language)),
        ("sign_in_platform", SignIn { is_platform: true, ..sign_in }.markup(language)),
        ("set_password", set_password(false).markup(language)),
        ("set_password_forgotten", set_password(true).markup(language)),
        ("reset", SetPassword { may_wait: false, ..set_password(true) }.markup(language)),
        ("forgot", forgot.markup(language)),
        ("enter_code", enter_code.markup(language)),
        ("enter_code_own", EnterCode { is_own: true, ..enter_code }.markup(language)),
        ("confirm", confirm(true).markup(language)),
        ("confirm_elsewhere", confirm(false).markup(language)),
        ("change_password", change_password(OldPassword::Needed)),
        ("change_password_recent", change_password(OldPassword::NotNeeded)),
        ("change_password_without", change_password(OldPassword::None)),
        ("set_up", SetUp { csrf, action: "/setup", hidden, error: wrong, email: "", name: "" }.markup(language)),
        ("sign_up_closed", SignUpClosed { org_name, contact, signin_href: "/o/acme/login" }.markup(language)),
        ("sign_in_contact", SignIn { contact, ..sign_in }.markup(language)),
        ("one_time_link",
            OneTimeLink { org_name, user_email: email, csrf, hidden, action: "/o/acme/link" }.markup(language)),
    ]
}

/// The page of an invitation for each visitor.
pub fn invitations(
    language: &Language,
    org: &str,
    inviter: &str,
    email: &str,
    name: &str,
    error: Option<&str>,
) -> Pages {
    let page = |role, org_name, step| {
        Invitation {
            org_name,
            role,
            inviter: Some(inviter),
            email,
            csrf: "token",
            hidden: HIDDEN,
            action: "/invitation",
            step,
        }
        .markup(language)
    };
    let wrong = error.map(|text| FormError { sentence: saying(text), field: Some("name") });
    let error = wrong.as_ref();
    let signin_href = "/login?next=%2Finvitation";
    let (accept, again) = (
        InvitationStep::Accept { later_href: "/console" },
        InvitationStep::NewAccount { name, error, signin_href },
    );
    let new = InvitationStep::NewAccount { name: "", error: None, signin_href };
    let other = InvitationStep::OtherUser { user_email: name, switch_href: signin_href };
    vec![
        ("invitation", page("admin", Some(org), accept)),
        ("invitation_new", page("member", Some(org), new)),
        ("invitation_again", page("owner", Some(org), again)),
        ("invitation_password", page("platform_owner", None, InvitationStep::NewPassword { name, error })),
        ("invitation_other", page("admin", Some(org), other)),
    ]
}

#[rustfmt::skip]
pub fn decisions(language: &Language, org: &str, client: &str, email: &str, error: Option<&str>) -> Pages {
    let said = SCOPES.map(|scope| scope::describe(language, scope));
    let scopes: Vec<ScopeLine<'_>> =
        SCOPES.into_iter().zip(&said).map(|(name, says)| ScopeLine { name, says }).collect();
    let (org_name, client_name, user_email, scopes) = (org, client, email, &*scopes);
    let error = error.map(saying);
    let error = error.as_ref();
    let (fault, requested_ago) = (Sentence::new("sign_out.no_hint"), time::ago(language, 120));
    let (csrf, hidden, switch_href) = ("token", HIDDEN, "/o/acme/logout");
    let consent = Consent { org_name, client_name, service_name: "Request Log", user_email, unreviewed: None,
        scopes, csrf, hidden, action: "/consent", switch_href };
    let confirm = |ask_password| ActivateConfirm { org_name, client_name, service_name: "Exam Attempts",
        user_email, user_code: "BCDF-GHJK", scopes, requester_address: "203.0.113.24",
        requested_ago: &requested_ago, requester_agent: "acme-cli/2.1 (linux; x86_64)", ask_password, error,
        csrf, hidden, action: "/activate", switch_href }.markup(language);
    let own = [user_email];
    let sign_out = SignOut { brand: org, user_emails: &own, fault: None, csrf, hidden,
        action: "/o/acme/logout", stay_href: "/o/acme/account" };
    vec![
        ("consent", consent.markup(language)),
        ("consent_no_scopes", Consent { scopes: &[], ..consent }.markup(language)),
        ("consent_unreviewed", Consent { unreviewed: Some("https://sketch.example"), ..consent }.markup(language)),
        ("activate_confirm", confirm(false)),
        ("activate_confirm_password", confirm(true)),
        ("sign_out", sign_out.markup(language)),
        ("sign_out_fault",
            SignOut { fault: Some(&fault), ..sign_out }.markup(language)),
        ("sign_out_everywhere",
            SignOut { brand: SARSEN, user_emails: &[user_email, "owner@sarsen.test"], ..sign_out }.markup(language)),
    ]
}

pub fn places(language: &Language, name: &str, email: &str) -> Pages {
    let mut pages = signed_in_places(language, name, email);
    pages.extend(products(language, name, email));
    pages.extend(endings(language));
    pages
}

#[rustfmt::skip]
fn signed_in_places(language: &Language, name: &str, user_email: &str) -> Pages {
    let (csrf, signout_action) = ("token", "/logout");
    let ago = |seconds| time::ago(language, seconds);
    let browser = agent::name(language, "Firefox/140.0 (X11; Linux)");
    let (now, before, since) = (ago(0), ago(3 * 3600), ago(48 * 3600));
    let what = SCOPES.map(|scope| scope::describe(language, scope)).join(" · ");
    let sessions = [
        SessionLine { id: "session_01", what: &browser, address: "203.0.113.24", signed_in: &now, current: true },
        SessionLine { id: "session_02", what: name, address: "2001:db8::7", signed_in: &before, current: false },
    ];
    let organizations = [
        OrgLine { slug: "acme", name: "Acme", role: Some("owner"), status: "active" },
        OrgLine { slug: "stonemasons", name, role: Some("admin"), status: "pending" },
        OrgLine { slug: "henge", name: "Henge Works", role: None, status: "suspended" },
    ];
    let console = Console { user_email, organizations: &organizations, platform_owner: true, is_first: false, more: true,
        server: "http://localhost:7070", csrf,
        signout_action, account_href: "/o/platform/account" };
    let account = |confirm_action| Account { org_name: "Acme", user_email, confirm_action, name, csrf, signout_action,
        sessions: &sessions, flash: Some("flash.session_ended"), end_action: "/o/acme/account/sessions",
        password_href: "/o/acme/account/password", withdraw_action: "/o/acme/account/consents",
        consents: &[ConsentLine { client: "client_01", name, what: &what, since: &since }],
        switch_href: "/o/acme/login?prompt=select_account" }.markup(language);
    vec![
        ("account", account(None)),
        ("account_not_confirmed", account(Some("/o/acme/verify"))),
        ("console", console.markup(language)),
        ("console_first", Console { organizations: &organizations[..1], is_first: true, more: false, ..console }.markup(language)),
        ("console_empty", Console { organizations: &[], platform_owner: false, more: false, ..console }.markup(language)),
    ]
}

#[rustfmt::skip]
fn products(language: &Language, name: &str, email: &str) -> Pages {
    let features = &["Export as CSV", "Alerts", "90 days of history"];
    let product = |accent, user| Product { product_name: "Request Log", accent, user,
        live_href: "/demo/a/live", signin_href: "/demo/a/login", signout_href: "/demo/a/logout", other_name: "Exam Attempts",
        other_href: "/demo/b",
        admin_email: "admin@acme.test",
        plan_command: "sarsen subscription change --org acme --user ada@acme.test --plan free" }.markup(language);
    vec![
        ("product_out", product(Accent::Clay, None)),
        ("product_sea", product(Accent::Sea, Some(ProductUser { email, name, plan: "pro", features }))),
        ("product_clay",
            product(Accent::Clay, Some(ProductUser { email, name, plan: "free", features: &[] }))),
        ("demo_home", DemoHome { owner_email: "owner@sarsen.test",
            owner_password: "quarry-lintel-6731-heath",
            admin_email: "admin@acme.test", admin_password: "lintel-plinth-1180-barrow",
            users: &[(email, "amber-trilith-2209-moor", "pro"), (name, "cobble-harrow-8846-down", "free")],
            products: &[("Request Log", "/demo/a"), ("Exam Attempts", "/demo/b")],
            field_line: r#"field() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }"#,
            curl_line: "code=$(curl -s -d client_id=client_01k3zq7v9m http://localhost:7070/auth/device/code)",
            token_line: "tokens=$(curl -s -d device_code=x http://localhost:7070/auth/token)",
            api_line: "curl -H \"Authorization: Bearer x\" http://localhost:7070/api/subscription",
            login_line: "sarsen login --server http://localhost:7070",
            plan_line: "sarsen subscription change --org acme --user ada@acme.test --plan starter",
            console_href: "/console", mail_href: Some("/dev/mail") }.markup(language)),
        ("dev_mails", DevMails { mails: &[MailLine { href: "/dev/mail/1".to_owned(), to: email, subject: name,
            at: "2026-11-28T15:00:00Z".to_owned() }] }.markup(language)),
        ("dev_mail", DevMail { to: email, from: name, reply_to: Some(email), subject: name, at: "2026-11-28T15:00:00Z",
            text: &format!("Open http://localhost:7070/o/acme/link?token=x\n{name}"), server: "http://localhost:7070",
            html_href: Some("/dev/mail/1/html"), list_href: "/dev/mail" }.markup(language)),
    ]
}

#[rustfmt::skip]
fn endings(language: &Language) -> Pages {
    let problem = Problem { status: 400, title: Sentence::new("problem.bad.title"),
        what: Sentence::new("problem.request.wrong_redirect_uri"), advice: Sentence::new("problem.bad.advice"),
        details: &[], contact: None, link_text: "problem.link_start", link_href: "/", is_for_administrators: true, brand: SARSEN };
    vec![
        ("done", Done { brand: "Acme", title: "activate_confirm.allowed_title",
            text: "activate_confirm.allowed", good: true }.markup(language)),
        ("denied", Done { brand: "Acme", title: "activate_confirm.denied_title",
            text: "activate_confirm.denied", good: false }.markup(language)),
        ("problem", problem.clone().markup(language)),
        ("problem_with_details", Problem { details: &[(Label::Text("problem.request.product"), "Request Log".to_owned()),
            (Label::Parameter("redirect_uri"), format!("https://evil.example/<b>{}", "long".repeat(60)))], ..problem.clone() }.markup(language)),
        ("problem_of_organization", Problem { link_text: "page.sign_in", link_href: "/o/acme/login",
            contact: Some(Contact { of: Some("Acme"), text: "help@acme.test, or Ada in room 12" }),
            is_for_administrators: false, ..problem }.markup(language)),
    ]
}
