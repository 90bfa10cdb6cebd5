//! Redirect URIs: what may be registered is absolute and safe to a browser too, and a code goes nowhere else but to
//! another port of this machine.
#![no_main]

use identity::Time;
use identity::clients::{Client, Kind, Pkce, Purpose, check_uri};
use identity::ids::{ClientId, OrganizationId};
use identity::keys::Algorithm;
use identity::organizations::DeviceFlow;
use identity::scopes::Scope;
use identity::secrets::testing::Seeded;
use identity::tokens::AccessTokenTyp;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use url::Url;

static NATIVE: LazyLock<Client> = LazyLock::new(|| {
    let (now, random) = (Time::from_millis(0), Seeded::new(1));
    Client {
        needs_review: false,
        id: ClientId::new(now, &random),
        organization: OrganizationId::new(now, &random),
        organization_slug: String::new(),
        organization_name: String::new(),
        service: None,
        service_slug: String::new(),
        service_name: String::new(),
        kind: Kind::Native,
        name: String::new(),
        grants: vec![],
        device_flow: DeviceFlow::Allowed,
        pkce: Pkce::Required,
        pkce_used_at: None,
        consent_required: false,
        id_token_alg: Algorithm::Es256,
        access_token_typ: AccessTokenTyp::AtJwt,
        redirect_uris: ["http://127.0.0.1/cb", "http://[::1]:80/cb?x=1", "http://127.0.0.1"]
            .map(Into::into)
            .into(),
        post_logout_redirect_uris: vec![],
        scope: Scope::default(),
        secret_hashes: vec![],
        created_at: now,
    }
});

fuzz_target!(|uri: &str| {
    if check_uri(Purpose::Redirect, uri).is_ok() {
        let scheme = uri.split(':').next().unwrap_or_default();
        let mut letters = scheme.chars();
        assert!(letters.next().is_some_and(|letter| letter.is_ascii_alphabetic()), "{uri} is not absolute");
        assert!(letters.all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter)), "{uri}");
        assert!(uri.is_ascii(), "{uri}");
        let read = Url::parse(uri);
        assert!(read.is_ok() || !uri.starts_with("http"), "{uri} is no address for a browser");
        if let Ok(read) = read {
            let taken = ["code", "state", "iss", "error"];
            assert!(read.query_pairs().all(|(name, _)| !taken.contains(&&*name)), "{uri}");
            assert_ne!(read.port(), Some(0), "{uri}");
            assert_eq!((read.scheme(), read.fragment()), (&*scheme.to_ascii_lowercase(), None));
            let web = ["http", "https"].contains(&read.scheme());
            assert!(!web || (read.username().is_empty() && read.password().is_none()), "{uri}");
            // A browser sends the host as it was registered.
            let host = read.host_str().unwrap_or_default();
            let sent = uri.split("://").nth(1).unwrap_or_default().to_ascii_lowercase();
            assert!(!web || sent.starts_with(host) || host.starts_with('['), "{uri}: {host}");
            let here = ["127.0.0.1", "[::1]", "localhost"].map(Some);
            assert!(read.scheme() != "http" || here.contains(&read.host_str()), "{uri}");
        }
    }
    if NATIVE.may_redirect_to(uri) {
        let mut read = Url::parse(uri).expect("a browser can go there");
        read.set_port(None).expect("has a host");
        let known = ["http://127.0.0.1/cb", "http://[::1]/cb?x=1", "http://127.0.0.1/"];
        assert!(known.contains(&read.as_str()), "{uri}");
    }
});
