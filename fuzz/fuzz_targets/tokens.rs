//! Signed tokens that come back: only what was signed is believed, byte for byte, and no kind stands for another.
#![no_main]

use identity::Time;
use identity::keys::{self, Algorithm, Ring};
use identity::secrets::SecretKey;
use identity::secrets::testing::Seeded;
use identity::tokens::{self, AccessClaims, AccessTokenTyp, Audience, IdClaims, verify_access, verify_id_hint};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use store::Store;

const ISSUER: &str = "https://id.test";

struct Signed {
    ring: Ring,
    access: String,
    id: String,
}

static SIGNED: LazyLock<Signed> = LazyLock::new(|| {
    let ring = ring().expect("keys are made");
    let text = |text: &str| text.to_owned();
    let access = AccessClaims {
        iss: text(ISSUER),
        sub: text("user"),
        aud: Audience::One(text("service:acme/sketch")),
        client_id: text("client"),
        exp: 600,
        iat: 0,
        jti: text("grant.x"),
        scope: text("profile"),
        sid: None,
        org: None,
        service: None,
        customer: None,
    };
    let id = IdClaims {
        iss: text(ISSUER),
        sub: text("user"),
        aud: text("client"),
        exp: 600,
        iat: 0,
        auth_time: 0,
        sid: text("session"),
        nonce: None,
        email: None,
        email_verified: None,
        name: None,
    };
    let access = tokens::sign_access(&ring, &access, AccessTokenTyp::AtJwt, NOW).expect("signs").0;
    let id = tokens::sign_id(&ring, &id, Algorithm::Rs256, NOW).expect("signs");
    Signed { ring, access, id }
});
const NOW: Time = Time::from_millis(1000);

/// The keys of a new installation.
fn ring() -> identity::Result<Ring> {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("keys.db").display());
    let store = Store::open(server::store_options(url))?;
    let secret_key = SecretKey::new(&[7; 32]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        for algorithm in [Algorithm::Es256, Algorithm::Rs256] {
            let new = keys::generate(algorithm, NOW, &Seeded::new(algorithm as u64), &secret_key)?;
            store.write("key.add", move |tx| keys::add(tx, &new, NOW)).await?;
        }
        let ring = store.read(move |snapshot| keys::ring(snapshot, &secret_key, NOW)).await?;
        store.close();
        Ok(ring)
    })
}

fuzz_target!(|input: (u16, u16, &str)| {
    let (at, gone, text) = input;
    let Signed { ring, access, id } = &*SIGNED;
    for token in [access, id] {
        let at = usize::from(at) % (token.len() + 1);
        let end = (at + usize::from(gone)).min(token.len());
        for sent in [format!("{}{text}{}", &token[..at], &token[end..]), text.to_owned()] {
            let as_access = verify_access(ring, ISSUER, &sent, NOW, |_| false);
            let as_id = verify_id_hint(ring, ISSUER, &sent, NOW);
            assert_eq!(as_access.is_some(), sent == *access, "{sent}");
            assert_eq!(as_id.is_some(), sent == *id, "{sent}");
        }
    }
});
