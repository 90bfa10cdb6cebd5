//! A sample of every page with plausible and with hostile data, for tests and screenshots.

use maud::Markup;

use super::*;

type Pages = Vec<(&'static str, Markup)>;

pub const HOSTILE: &str = "\"'><img src=x onerror=alert(1)><script>alert(1)</script>\u{202e}";
const SCOPES: &[ScopeLine<'static>] = &[
    ScopeLine { name: "openid", says: "See who you are" },
    ScopeLine { name: "email", says: "See your e-mail address" },
    ScopeLine { name: "offline_access", says: "Stay signed in until you sign out" },
];
const HIDDEN: &[(&str, &str)] = &[("request", "req_01")];

pub fn all() -> Pages {
    let mut pages = forms("Acme", "Request Log", "ada@acme.test", "ada", None);
    pages.extend(invitations("Acme", "admin@acme.test", "grace@acme.test", "Grace", None));
    pages.extend(decisions("Acme", "Acme Terminal", "ada@acme.test", None));
    pages.extend(places("Ada Lovelace", "ada@acme.test"));
    pages
}

/// Every page with an error and with names that try to break out of the HTML.
pub fn hostile() -> Pages {
    let mut pages = forms(HOSTILE, HOSTILE, HOSTILE, HOSTILE, Some(HOSTILE));
    pages.extend(invitations(HOSTILE, HOSTILE, HOSTILE, HOSTILE, Some(HOSTILE)));
    pages.extend(decisions(HOSTILE, HOSTILE, HOSTILE, Some(HOSTILE)));
    pages.extend(places(HOSTILE, HOSTILE));
    pages
}

#[rustfmt::skip]
pub fn forms(org: &str, client: &str, email: &str, name: &str, error: Option<&str>) -> Pages {
    let (org_name, csrf, hidden) = (org, "token", HIDDEN);
    let text = error.unwrap_or("help@acme.test, or Ada in room 12");
    let contact = Some(Contact { of: org, text });
    let wrong = error.map(|text| FormError { text: text.to_owned(), field: Some("password") });
    let wrong = wrong.as_ref();
    let sign_in = SignIn { org_name, client_name: Some(client), email, error, note: None, csrf, hidden,
        action: "/o/acme/login", signup_href: Some("/o/acme/signup"), contact: None, is_platform: false, retry_after_s: None };
    let sign_up = SignUp { org_name, client_name: Some(client), name, email, error: wrong, is_taken: true, csrf, hidden,
        action: "/o/acme/signup", signin_href: "/o/acme/login" };
    let set_password = |has_password| SetPassword { brand: org, user_email: email, has_password, csrf, hidden,
        action: "/password", error: wrong }.markup();
    let change_password = |old| ChangePassword { brand: org, user_email: email, old, csrf,
        action: "/o/acme/account/password", account_href: "/o/acme/account", error: wrong }.markup();
    vec![
        ("sign_in", sign_in.markup()),
        ("sign_in_fresh",
            SignIn { client_name: None, email: "", note: Some(Note::Flash("You are signed out.")), ..sign_in }
                .markup()),
        ("sign_in_again", SignIn { note: Some(Note::Again(email)), ..sign_in }.markup()),
        ("sign_in_no_owner", SignIn { email: "", note: Some(Note::NoOwner), is_platform: true, ..sign_in }.markup()),
        ("sign_in_other", SignIn { email: "", note: Some(Note::Other(email)), ..sign_in }.markup()),
        ("sign_in_busy", SignIn { retry_after_s: Some(12), error: None, ..sign_in }.markup()),
        ("sign_up", sign_up.markup()),
        ("activate_enter",
            ActivateEnter { brand: org, user_code: "", error, csrf, action: "/activate" }.markup()),
        ("activate_link",
            ActivateLink { brand: org, user_code: "BCDF-GHJK", csrf, hidden, action: "/activate" }.markup()),
        ("activate_sign_in", ActivateSignIn { brand: org, error, csrf, action: "/activate" }.markup()),
        ("sign_in_platform", SignIn { is_platform: true, ..sign_in }.markup()),
        ("set_password", set_password(false)),
        ("set_password_forgotten", set_password(true)),
        ("change_password", change_password(OldPassword::Needed)),
        ("change_password_recent", change_password(OldPassword::NotNeeded)),
        ("change_password_without", change_password(OldPassword::None)),
        ("set_up", SetUp { csrf, action: "/setup", hidden, error: wrong, email: "", name: "" }.markup()),
        ("sign_up_closed", SignUpClosed { org_name, contact, signin_href: "/o/acme/login" }.markup()),
        ("sign_in_contact", SignIn { contact, ..sign_in }.markup()),
        ("one_time_link",
            OneTimeLink { org_name, user_email: email, csrf, hidden, action: "/o/acme/link" }.markup()),
    ]
}

/// The page of an invitation for each visitor.
pub fn invitations(org: &str, inviter: &str, email: &str, name: &str, error: Option<&str>) -> Pages {
    let page = |role, org_name, step| {
        Invitation {
            org_name,
            role,
            inviter,
            email,
            csrf: "token",
            hidden: HIDDEN,
            action: "/invitation",
            step,
        }
        .markup()
    };
    let wrong = error.map(|text| FormError { text: text.to_owned(), field: Some("name") });
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
pub fn decisions(org: &str, client: &str, email: &str, error: Option<&str>) -> Pages {
    let (org_name, client_name, user_email, scopes) = (org, client, email, SCOPES);
    let (csrf, hidden, switch_href) = ("token", HIDDEN, "/o/acme/logout");
    let consent = Consent { org_name, client_name, service_name: "Request Log", user_email, unreviewed: None,
        scopes, csrf, hidden, action: "/consent", switch_href };
    let confirm = |ask_password| ActivateConfirm { org_name, client_name, service_name: "Exam Attempts",
        user_email, user_code: "BCDF-GHJK", scopes, requester_address: "203.0.113.24",
        requested_ago: "2 minutes ago", requester_agent: "acme-cli/2.1 (linux; x86_64)", ask_password, error,
        csrf, hidden, action: "/activate", switch_href }.markup();
    let own = [user_email];
    let sign_out = SignOut { brand: org, user_emails: &own, fault: None, csrf, hidden,
        action: "/o/acme/logout", stay_href: "/o/acme/account" };
    vec![
        ("consent", consent.markup()),
        ("consent_no_scopes", Consent { scopes: &[], ..consent }.markup()),
        ("consent_unreviewed", Consent { unreviewed: Some("https://sketch.example"), ..consent }.markup()),
        ("activate_confirm", confirm(false)),
        ("activate_confirm_password", confirm(true)),
        ("sign_out", sign_out.markup()),
        ("sign_out_fault",
            SignOut { fault: Some("id_token_hint is not a valid ID token of this server."), ..sign_out }.markup()),
        ("sign_out_everywhere",
            SignOut { brand: SARSEN, user_emails: &[user_email, "owner@sarsen.test"], ..sign_out }.markup()),
    ]
}

pub fn places(name: &str, email: &str) -> Pages {
    let mut pages = signed_in_places(name, email);
    pages.extend(products(name, email));
    pages.extend(endings());
    pages
}

#[rustfmt::skip]
fn signed_in_places(name: &str, user_email: &str) -> Pages {
    let (csrf, signout_action) = ("token", "/logout");
    let sessions = [
        SessionLine { id: "session_01", what: "Firefox on Linux", address: "203.0.113.24", signed_in: "just now", current: true },
        SessionLine { id: "session_02", what: name, address: "2001:db8::7", signed_in: "3 hours ago", current: false },
    ];
    let organizations = [
        OrgLine { slug: "acme", name: "Acme", role: Some("owner"), status: "active" },
        OrgLine { slug: "stonemasons", name, role: Some("admin"), status: "pending" },
        OrgLine { slug: "henge", name: "Henge Works", role: None, status: "suspended" },
    ];
    let console = Console { user_email, organizations: &organizations, platform_owner: true, is_first: false, more: true,
        server: "http://localhost:7070", csrf,
        signout_action, account_href: "/o/platform/account" };
    vec![
        ("account",
            Account { org_name: "Acme", user_email, name, csrf, signout_action, sessions: &sessions,
                flash: Some("You are signed out there."), end_action: "/o/acme/account/sessions",
                password_href: "/o/acme/account/password",
                withdraw_action: "/o/acme/account/consents",
                consents: &[ConsentLine { client: "client_01", name,
                    what: "See who you are · See your e-mail address · Stay signed in until you sign out", since: "2 days ago" }],
                switch_href: "/o/acme/login?prompt=select_account" }.markup()),
        ("console", console.markup()),
        ("console_first", Console { organizations: &organizations[..1], is_first: true, more: false, ..console }.markup()),
        ("console_empty", Console { organizations: &[], platform_owner: false, more: false, ..console }.markup()),
    ]
}

#[rustfmt::skip]
fn products(name: &str, email: &str) -> Pages {
    let features = &["Export as CSV", "Alerts", "90 days of history"];
    let product = |accent, user| Product { product_name: "Request Log", accent, user,
        live_href: "/demo/a/live", signin_href: "/demo/a/login", signout_href: "/demo/a/logout", other_name: "Exam Attempts",
        other_href: "/demo/b",
        admin_email: "admin@acme.test",
        plan_command: "sarsen subscription change --org acme --user ada@acme.test --plan free" }.markup();
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
            console_href: "/console", mail_href: Some("/dev/mail") }.markup()),
        ("dev_mails", DevMails { mails: &[MailLine { href: "/dev/mail/1".to_owned(), to: email, subject: name,
            at: "2026-11-28T15:00:00Z".to_owned() }] }.markup()),
        ("dev_mail", DevMail { to: email, from: name, reply_to: Some(email), subject: name, at: "2026-11-28T15:00:00Z",
            text: &format!("Open http://localhost:7070/o/acme/link?token=x\n{name}"), server: "http://localhost:7070",
            html_href: Some("/dev/mail/1/html"), list_href: "/dev/mail" }.markup()),
    ]
}

#[rustfmt::skip]
fn endings() -> Pages {
    let problem = Problem { status: 400, title: "This link does not fit",
        what: "The address it wants to return to is not registered for Request Log.",
        advice: "Go back to where you came from and try again. \
            If that does not help, tell the people who run it.",
        details: &[], contact: None, link_text: "Go to the start page", link_href: "/", is_for_administrators: true, brand: SARSEN };
    vec![
        ("done", Done { brand: "Acme", title: "Your device is connected",
            text: "You can go back to your device.", good: true }.markup()),
        ("denied", Done { brand: "Acme", title: "Nothing was allowed",
            text: "The device gets no access. You can close this page.", good: false }.markup()),
        ("problem", problem.markup()),
        ("problem_with_details", Problem { details: &[("Product", "Request Log".to_owned()),
            ("redirect_uri", format!("https://evil.example/<b>{}", "long".repeat(60)))], ..problem }.markup()),
        ("problem_of_organization", Problem { link_text: "Sign in", link_href: "/o/acme/login",
            contact: Some(Contact { of: "Acme", text: "help@acme.test, or Ada in room 12" }),
            is_for_administrators: false, ..problem }.markup()),
    ]
}
