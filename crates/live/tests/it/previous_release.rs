//! One `Idempotency-Key` at a back end of the release before this one and at one of this release, on one database: what that
//! release reads and writes in `live_call_answers`, by its statements.

use crate::app::{Server, start};
use crate::client::Client;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::{digest, hmac};
use serde_json::json;
use store::{Error, Sql, Time, Tx, args, insert, sql};

static READ: Sql = sql("SELECT body, answer, at_ms FROM live_call_answers WHERE id = ?1");
static KEEP: Sql = insert("live_call_answers", &[&["id", "body", "at_ms", "answer"]]);

const BODY: &[u8] = b"{\"id\":1}";

fn sha256(bytes: &[u8]) -> Vec<u8> {
    digest::digest(&digest::SHA256, bytes).as_ref().to_vec()
}

/// A call of `increment` by ada with a key, as that release has it.
struct OldCall {
    id: Vec<u8>,
    body: Vec<u8>,
    sealing: hmac::Tag,
}

impl OldCall {
    fn of(key: &str) -> OldCall {
        let scope = format!("uada\0increment\0{key}");
        let secret = hmac::Key::new(hmac::HMAC_SHA256, scope.as_bytes());
        let sealing = hmac::sign(&secret, b"sealing of a stored answer");
        OldCall { id: sha256(scope.as_bytes()), body: sha256(BODY), sealing }
    }

    fn cipher(&self) -> LessSafeKey {
        LessSafeKey::new(UnboundKey::new(&AES_256_GCM, self.sealing.as_ref()).expect("a key"))
    }

    /// Stores an answer as the last statement of its command.
    async fn keep(&self, server: &Server, answer: &str, at: Time) {
        let (mut sealed, nonce) = (answer.as_bytes().to_vec(), [7; NONCE_LEN]);
        let unique = Nonce::assume_unique_for_key(nonce);
        self.cipher().seal_in_place_append_tag(unique, Aad::from(&*self.body), &mut sealed).expect("seals");
        let (id, body, sealed) = (self.id.clone(), self.body.clone(), [&nonce[..], &sealed].concat());
        let keep = move |tx: &mut Tx<'_>| tx.exec_one(&KEEP, args![&id, &body, at, &sealed]);
        let kept: Result<bool, Error> = server.running.context.store().write("test.keep", keep).await;
        assert!(kept.expect("stores"));
    }

    /// The answer that it finds before it runs its command.
    async fn find(&self, server: &Server) -> String {
        let id = self.id.clone();
        let read = server.running.context.store().read(move |snapshot| {
            snapshot.one(&READ, args![&id], |row| Ok((row.get::<Vec<u8>>(0)?, row.get::<Vec<u8>>(1)?)))
        });
        let found: Result<_, Error> = read.await;
        let (body, mut answer) = found.expect("reads").expect("a row");
        assert_eq!(body, self.body, "the same request");
        let (nonce, sealed) = answer.split_at_mut(NONCE_LEN);
        let nonce = Nonce::try_assume_unique_for_key(nonce).expect("a nonce");
        let opened = self.cipher().open_in_place(nonce, Aad::from(&*self.body), sealed).expect("opens");
        String::from_utf8(opened.to_vec()).expect("text")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_key_at_an_old_and_at_a_new_back_end_is_one_call() {
    let server = start().await;
    let ada = Client::new(server.running.address, "ada");
    ada.value("create", json!({ "id": 1 }));
    let send = |key: &str| {
        let answer = ada.send("POST", "/rpc/increment", &[("Idempotency-Key", key)], "{\"id\":1}");
        (answer.status, answer.json()["value"].clone())
    };
    // The old one was first.
    let now = server.running.context.now();
    OldCall::of("old").keep(&server, "41", now).await;
    assert_eq!(send("old"), (200, json!(41)), "its answer");
    assert_eq!(ada.value("get_counter", json!({ "id": 1 }))["value"], 0, "nothing was done");
    let other = ada.send("POST", "/rpc/increment", &[("Idempotency-Key", "old")], "{\"id\": 1}");
    assert_eq!(other.json()["code"], "idempotency_key_reused");
    // The new one was first.
    assert_eq!(send("new"), (200, json!(1)));
    assert_eq!(OldCall::of("new").find(&server).await, "1");
    // A day later the key is free, whoever has used it.
    OldCall::of("yesterday").keep(&server, "41", Time::from_millis(now.millis() - 24 * 3_600_000)).await;
    assert_eq!(send("yesterday"), (200, json!(2)));
    // One whose answer nobody can open was done all the same.
    let lost = OldCall { sealing: OldCall::of("another").sealing, ..OldCall::of("lost") };
    lost.keep(&server, "41", now).await;
    let refused = ada.send("POST", "/rpc/increment", &[("Idempotency-Key", "lost")], "{\"id\":1}");
    assert_eq!((refused.status, refused.json()["code"].clone()), (409, json!("idempotency_answer_lost")));
    assert_eq!(ada.value("get_counter", json!({ "id": 1 }))["value"], 2);
    server.running.stop().await;
}
