//! What a form that mails leads to: decided once, limited by who asks, and used once by its link or its code.

use crate::support::{START, TestIdentity, not_found};
use identity::ids::{MailId, MailRequestId};
use identity::links::{self, Purpose as LinkPurpose};
use identity::mail::decisions::{self, DAILY_MAX, Decision, Drawn, LINK_LIFE, Rules, Words};
use identity::mail::requests::{self, CODE_LIFE, NewRequest, PROOF_LIFE, Tried, typed_code};
use identity::mail::{self, Next, Purpose, State};
use identity::organizations::{self, Organization};
use identity::password_changes::{self, MailProof};
use identity::secrets::SecretKey;
use identity::users::{self, NewUser, User};
use identity::{Result, Time, passwords, sessions, user_deletions, user_suspensions};
use std::sync::Arc;
use std::time::Duration;

const ADA: &str = "ada@acme.test";
const BROWSER: [u8; 32] = [1; 32];
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const RULES: Rules = Rules { sign_up: true, unproven_per_day_max: 500 };

fn key() -> SecretKey {
    SecretKey::new(&[7; 32])
}

/// Who asks for what.
#[derive(Clone, Copy)]
struct Asks {
    address: &'static str,
    purpose: Purpose,
    browser: [u8; 32],
    network: u32,
    is_known: bool,
    at: Time,
}

/// A forgotten password.
const FORGOT: Asks =
    Asks { address: ADA, purpose: Purpose::Reset, browser: BROWSER, network: 1, is_known: false, at: START };

/// An organization at which people may create accounts.
async fn open_organization(test: &TestIdentity) -> Organization {
    let acme = test.organization("acme").await;
    let opened = test.write(move |tx, actor| organizations::set_sign_up(tx, &acme, true, actor));
    opened.await.expect("opens it")
}

async fn ask(test: &TestIdentity, organization: &Organization, asks: Asks) -> MailRequestId {
    let id = MailRequestId::new(asks.at, test.random());
    let new = NewRequest {
        id: id.clone(),
        organization: organization.id.clone(),
        address: asks.address.to_owned(),
        purpose: asks.purpose,
        user: None,
        browser: asks.browser,
        network: format!("203.0.113.{}", asks.network),
        language: "en".to_owned(),
        asker: requests::seal_asker(&id, b"who", &key(), test.random()).expect("seals"),
    };
    test.write_at(asks.at, move |tx, _| requests::ask(tx, &new, asks.at)).await.expect("a request");
    id
}

async fn decide(test: &TestIdentity, id: &MailRequestId, asks: Asks, rules: Rules) -> Decision {
    let wanted = id.clone();
    let found = test.read(move |snapshot| requests::open(snapshot, &wanted)).await.expect("reads");
    let Some(open) = found else { return Decision::Gone };
    assert_eq!(open.open_asker(&key()).expect("opens").as_deref(), Some(&b"who"[..]));
    let drawn = Drawn::new(&open, &key(), asks.at, test.random()).expect("draws");
    let decided = test.write_at(asks.at, move |tx, _| {
        decisions::decide(tx, &open, &drawn, &|_| asks.is_known, &rules, asks.at)
    });
    decided.await.expect("decides")
}

/// Asks, and lets it be decided.
async fn asked(test: &TestIdentity, organization: &Organization, asks: Asks) -> (MailRequestId, Decision) {
    let id = ask(test, organization, asks).await;
    let decision = decide(test, &id, asks, RULES).await;
    (id, decision)
}

async fn next(test: &TestIdentity, id: &MailId, now: Time) -> Next {
    let id = id.clone();
    test.read(move |snapshot| mail::next(snapshot, &id, now)).await.expect("reads")
}

/// The words of a mail that waits for the relay.
async fn words(test: &TestIdentity, id: &MailId) -> Words {
    let Next::Send(mail) = next(test, id, START).await else { panic!("it is not to be sent") };
    let words = mail.open(&key()).expect("opens").expect("has words");
    serde_json::from_slice(&words).expect("words")
}

/// A reset that was mailed.
async fn mailed(test: &TestIdentity, organization: &Organization) -> (MailRequestId, MailId, Words) {
    let (request, decision) = asked(test, organization, FORGOT).await;
    let Decision::Mail(mail, _) = decision else { panic!("{decision:?}") };
    let words = words(test, &mail).await;
    (request, mail, words)
}

async fn try_code(
    test: &TestIdentity,
    request: &MailRequestId,
    browser: [u8; 32],
    code: &str,
    now: Time,
) -> Tried {
    let (request, code) = (request.clone(), code.to_owned());
    let tried =
        test.write_at(now, move |tx, _| requests::try_code(tx, &request, &browser, &code, &key(), now));
    tried.await.expect("tries")
}

async fn proof_by_code(test: &TestIdentity, request: &MailRequestId, now: Time) -> Option<MailProof> {
    let request = request.clone();
    let found = test.read(move |snapshot| requests::proof(snapshot, &request, &BROWSER, now));
    found.await.expect("reads").map(|proof| MailProof::Code(proof.link))
}

async fn reset(test: &TestIdentity, proof: &MailProof, now: Time) -> Result<User> {
    let proof = proof.clone();
    test.write_at(now, move |tx, actor| password_changes::reset(tx, &proof, "a hash", actor)).await
}

fn wrong(code: &str) -> String {
    code.chars().map(|digit| if digit == '9' { '0' } else { '9' }).collect()
}

#[tokio::test]
async fn only_the_address_of_an_account_gets_a_reset() {
    let test = TestIdentity::open().await;
    let (acme, other) = (test.organization("acme").await, test.organization("other").await);
    let (_, grace) = (test.user(&acme, ADA).await, test.user(&acme, "grace@acme.test").await);
    test.write(move |tx, actor| user_suspensions::suspend(tx, &grace, None, actor)).await.expect("suspends");
    let (_, _, words) = mailed(&test, &acme).await;
    assert_eq!((words.code.len(), words.link.split_once('.').expect("a token").1.len()), (8, 43));
    for (organization, address) in [(&acme, "nobody@acme.test"), (&acme, "grace@acme.test"), (&other, ADA)] {
        let (request, decision) = asked(&test, organization, Asks { address, ..FORGOT }).await;
        assert_eq!(decision, Decision::Nothing, "{address}");
        assert_eq!(decide(&test, &request, FORGOT, RULES).await, Decision::Gone, "decided once");
    }
}

#[tokio::test]
async fn a_sign_up_mails_a_code_to_a_free_address_and_says_so_to_a_taken_one() {
    let test = TestIdentity::open().await;
    let acme = open_organization(&test).await;
    test.user(&acme, ADA).await;
    let sign_up = Asks { purpose: Purpose::SignUp, ..FORGOT };
    let (request, decision) = asked(&test, &acme, Asks { address: "new@acme.test", ..sign_up }).await;
    let Decision::Mail(mail, _) = decision else { panic!("{decision:?}") };
    let words = words(&test, &mail).await;
    assert_eq!(try_code(&test, &request, BROWSER, &words.code, START).await, Tried::Right(Purpose::SignUp));

    let (request, decision) = asked(&test, &acme, sign_up).await;
    let Decision::Mail(mail, _) = decision else { panic!("{decision:?}") };
    let Next::Send(mail) = next(&test, &mail, START).await else { panic!("it is not to be sent") };
    assert_eq!((mail.purpose, mail.open(&key()).expect("opens")), (Purpose::HasAccount, None));
    assert_eq!(try_code(&test, &request, BROWSER, "00000000", START).await, Tried::Wrong, "it has no code");

    let request = ask(&test, &acme, Asks { address: "late@acme.test", ..sign_up }).await;
    test.write(move |tx, actor| organizations::set_sign_up(tx, &acme, false, actor))
        .await
        .expect("closes it");
    assert_eq!(decide(&test, &request, sign_up, RULES).await, Decision::Nothing, "closed meanwhile");
}

#[tokio::test]
async fn a_code_is_good_in_its_browser_five_times_for_ten_minutes() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    test.user(&acme, ADA).await;
    let (request, _, words) = mailed(&test, &acme).await;
    let other = [2; 32];
    assert_eq!(try_code(&test, &request, other, &words.code, START).await, Tried::Ended, "another browser");
    assert_eq!(try_code(&test, &request, BROWSER, &words.code, START + CODE_LIFE).await, Tried::Ended);
    assert!(proof_by_code(&test, &request, START).await.is_none());
    for _ in 0..4 {
        assert_eq!(try_code(&test, &request, BROWSER, &wrong(&words.code), START).await, Tried::Wrong);
    }
    let right = Tried::Right(Purpose::Reset);
    assert_eq!(try_code(&test, &request, BROWSER, &words.code, START).await, right, "the fifth");
    assert_eq!(try_code(&test, &request, BROWSER, &words.code, START).await, right, "sent twice");
    assert!(proof_by_code(&test, &request, START + PROOF_LIFE - MINUTE).await.is_some());
    assert!(proof_by_code(&test, &request, START + PROOF_LIFE).await.is_none());

    let (request, _, words) = mailed(&test, &acme).await;
    for _ in 0..5 {
        assert_eq!(try_code(&test, &request, BROWSER, &wrong(&words.code), START).await, Tried::Wrong);
    }
    assert_eq!(try_code(&test, &request, BROWSER, &words.code, START).await, Tried::Ended, "the sixth");
    assert!(proof_by_code(&test, &request, START).await.is_none());
}

#[tokio::test]
async fn codes_of_an_unknown_address_are_tried_like_those_of_a_known_one() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    test.user(&acme, ADA).await;
    let (known, _, words) = mailed(&test, &acme).await;
    let (unknown, _) = asked(&test, &acme, Asks { address: "nobody@acme.test", ..FORGOT }).await;
    for tries in 0..7 {
        let (code, now) = (wrong(&words.code), START + MINUTE);
        let same = try_code(&test, &known, BROWSER, &code, now).await;
        assert_eq!(try_code(&test, &unknown, BROWSER, &code, now).await, same, "after {tries} tries");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_uses_of_one_mail_by_link_and_code_one_sets_the_password() {
    let test = Arc::new(TestIdentity::open().await);
    let acme = test.organization("acme").await;
    let ada = test.user(&acme, ADA).await;
    let (request, _, words) = mailed(&test, &acme).await;
    try_code(&test, &request, BROWSER, &words.code, START).await;
    let by_code = proof_by_code(&test, &request, START).await.expect("a proof");
    let by_link = MailProof::Link(words.link.clone());
    let tries: Vec<_> = (0..20)
        .map(|number| {
            let (test, proof) =
                (test.clone(), if number % 2 == 0 { by_code.clone() } else { by_link.clone() });
            tokio::spawn(async move { reset(&test, &proof, START + MINUTE).await })
        })
        .collect();
    let mut winners = 0;
    for tried in tries {
        match tried.await.expect("joins") {
            Ok(user) => {
                assert_eq!(user.id, ada.id);
                winners += 1;
            }
            late => assert_eq!(not_found(late), "link"),
        }
    }
    assert_eq!(winners, 1);
    for proof in [by_code, by_link] {
        let found = test.read(move |snapshot| password_changes::peek_reset(snapshot, &proof, START));
        assert_eq!(found.await.expect("reads"), None, "used up");
    }
}

#[tokio::test]
async fn a_reset_works_until_a_password_is_set_or_the_user_is_suspended() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let ada = test.user(&acme, ADA).await;
    let [(_, _, first), (_, _, second), (_, _, third)] =
        [mailed(&test, &acme).await, mailed(&test, &acme).await, mailed(&test, &acme).await];
    let session = test.session(&ada).await;
    let late = START + LINK_LIFE;
    assert_eq!(not_found(reset(&test, &MailProof::Link(first.link.clone()), late).await), "link", "expired");
    reset(&test, &MailProof::Link(second.link), START + MINUTE).await.expect("sets it");
    let ended = session.clone();
    let live = test.read(move |snapshot| sessions::live(snapshot, &ended, START + MINUTE)).await;
    assert!(live.expect("reads").is_none(), "its sessions end");
    let after = START + MINUTE + MINUTE;
    let first = MailProof::Link(first.link);
    assert_eq!(not_found(reset(&test, &first, after).await), "link", "from before the password");

    let (_, _, fourth) = mailed(&test, &acme).await;
    assert_ne!(fourth.link, third.link);
    let suspended = ada.clone();
    test.write_at(after, move |tx, actor| user_suspensions::suspend(tx, &suspended, None, actor))
        .await
        .expect("suspends");
    assert_eq!(not_found(reset(&test, &MailProof::Link(fourth.link), after).await), "link", "suspended");
}

#[tokio::test]
async fn the_first_proof_of_an_address_voids_what_a_stranger_had_set() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let (new, of) = (NewUser::new(ADA, START, test.random()), acme.id.clone());
    let made = test.write(move |tx, actor| {
        let user = users::create(tx, &of, &new, actor)?;
        passwords::put(tx, &user.id, "of a stranger", START)?;
        Ok(user)
    });
    let squatted = made.await.expect("a user");
    let of_stranger = test.session(&squatted).await;
    let (_, _, words) = mailed(&test, &acme).await;
    let user = reset(&test, &MailProof::Link(words.link), START + MINUTE).await.expect("sets it");
    assert_eq!(user.email_verified_at, Some(START + MINUTE));
    let live = test.read(move |snapshot| sessions::live(snapshot, &of_stranger, START + MINUTE)).await;
    assert!(live.expect("reads").is_none());
}

#[tokio::test]
async fn the_words_of_a_mail_go_when_it_is_sent_or_given_up() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let ada = test.user(&acme, ADA).await;
    let (_, sent, words) = mailed(&test, &acme).await;
    let (_, waiting, _) = mailed(&test, &acme).await;
    let noted = sent.clone();
    let ended = test.write(move |tx, _| {
        mail::note_failure(tx, &noted, "relay_unreachable")?;
        mail::end(tx, &noted, State::Sent, Some("A subject"), None, START)
    });
    assert!(ended.await.expect("notes"));
    assert!(matches!(next(&test, &sent, START).await, Next::Gone), "it is sent once");
    let again = sent.clone();
    let ended = test.write(move |tx, _| mail::end(tx, &again, State::Refused, None, None, START)).await;
    assert!(!ended.expect("notes"), "what was sent stays sent");
    let token = words.link.clone();
    let link = test.read(move |snapshot| links::peek(snapshot, LinkPurpose::Reset, &token, START)).await;
    assert_eq!(link.expect("reads"), Some(Some(ada.id.clone())), "its link works");

    assert!(matches!(next(&test, &waiting, START + LINK_LIFE).await, Next::Drop("expired")));
    let suspended = ada.clone();
    test.write(move |tx, actor| user_suspensions::suspend(tx, &suspended, None, actor))
        .await
        .expect("suspends");
    assert!(matches!(next(&test, &waiting, START).await, Next::Drop("user_suspended")));
    test.write(move |tx, actor| user_deletions::delete(tx, &ada, actor)).await.expect("deletes");
    assert!(matches!(next(&test, &waiting, START).await, Next::Gone), "deleted with the user");
}

#[tokio::test]
async fn who_asks_often_uses_up_only_their_own_mails() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    test.user(&acme, ADA).await;
    let is_mail = |(_, decision): &(MailRequestId, Decision)| matches!(decision, Decision::Mail(..));
    for _ in 0..5 {
        assert!(is_mail(&asked(&test, &acme, FORGOT).await));
    }
    assert_eq!(asked(&test, &acme, FORGOT).await.1, Decision::Limited);
    let same_network = Asks { browser: [2; 32], ..FORGOT };
    assert_eq!(asked(&test, &acme, same_network).await.1, Decision::Limited, "without its cookie");
    let same_browser = Asks { network: 2, ..FORGOT };
    assert_eq!(asked(&test, &acme, same_browser).await.1, Decision::Limited, "from another network");
    let other = Asks { browser: [3; 32], network: 3, ..FORGOT };
    assert!(is_mail(&asked(&test, &acme, other).await), "somebody else");
    assert!(is_mail(&asked(&test, &acme, Asks { at: START + HOUR, ..FORGOT }).await), "an hour later");
}

#[tokio::test]
async fn beyond_twenty_in_a_day_one_of_the_networks_that_ask_is_drawn() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    test.user(&acme, ADA).await;
    let from = |network: u32| Asks { browser: [network as u8 + 10; 32], network, ..FORGOT };
    for network in 0..DAILY_MAX as u32 {
        let (_, decision) = asked(&test, &acme, from(network)).await;
        assert!(matches!(decision, Decision::Mail(..)), "{network}: {decision:?}");
    }
    // One asks four times, another once.
    let mut waiting = Vec::new();
    for network in [100, 100, 100, 100, 101] {
        let (request, decision) = asked(&test, &acme, from(network)).await;
        assert_eq!(decision, Decision::Waits(START + HOUR), "{network}");
        waiting.push(request);
    }
    let known = Asks { is_known: true, ..from(102) };
    for _ in 0..3 {
        let (_, decision) = asked(&test, &acme, known).await;
        assert!(matches!(decision, Decision::Mail(..)), "a known browser: {decision:?}");
    }
    let (_, decision) = asked(&test, &acme, known).await;
    assert!(matches!(decision, Decision::Waits(_)), "its fourth: {decision:?}");

    let (first, lot) = (waiting[0].clone(), 1);
    let drawn = test.write(move |tx, _| decisions::draw(tx, &first, lot)).await.expect("draws");
    assert_eq!(drawn.as_ref(), waiting.last(), "each network has one lot");
    let drawn = drawn.expect("one");
    let decision = decide(&test, &drawn, Asks { at: START + HOUR, ..FORGOT }, RULES).await;
    assert!(matches!(decision, Decision::Mail(..)), "{decision:?}");
    let others = waiting[3].clone();
    let again = test.write(move |tx, _| decisions::draw(tx, &others, 0)).await.expect("draws");
    assert_eq!(again, None, "the others are out");
    assert_eq!(decide(&test, &waiting[3], FORGOT, RULES).await, Decision::Gone);
}

#[tokio::test]
async fn an_organization_mails_so_many_unproven_addresses_a_day() {
    let test = TestIdentity::open().await;
    let acme = open_organization(&test).await;
    test.user(&acme, ADA).await;
    let rules = Rules { unproven_per_day_max: 2, ..RULES };
    let sign_up = |address| Asks { address, purpose: Purpose::SignUp, ..FORGOT };
    let decide_for = async |asks: Asks| {
        let id = ask(&test, &acme, asks).await;
        decide(&test, &id, asks, rules).await
    };
    for address in ["one@acme.test", "two@acme.test"] {
        assert!(matches!(decide_for(sign_up(address)).await, Decision::Mail(..)));
    }
    assert_eq!(decide_for(sign_up("three@acme.test")).await, Decision::Limited);
    assert!(matches!(decide_for(FORGOT).await, Decision::Mail(..)), "a proven address");
    let later = Asks { at: START + HOUR * 25, ..sign_up("three@acme.test") };
    assert!(matches!(decide_for(later).await, Decision::Mail(..)));
}

#[tokio::test]
async fn old_rows_go() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    test.user(&acme, ADA).await;
    let (request, mail, _) = mailed(&test, &acme).await;
    let gone = test.write(|tx, _| {
        let early = (mail::delete_older(tx, START, 10)?, requests::delete_older(tx, START, 10)?);
        let after = START + MINUTE;
        Ok((early, mail::delete_older(tx, after, 10)?, requests::delete_older(tx, after, 10)?))
    });
    assert_eq!(gone.await.expect("deletes"), ((0, 0), 1, 1));
    assert!(matches!(next(&test, &mail, START).await, Next::Gone));
    assert_eq!(try_code(&test, &request, BROWSER, "00000000", START).await, Tried::Ended);
}

#[test]
fn a_code_is_read_as_people_type_it() {
    for typed in ["12345678", " 1234 5678 ", "1234-5678", "１２３４５６７８"] {
        assert_eq!(typed_code(typed), "12345678", "{typed}");
    }
    assert_eq!(typed_code(&"1".repeat(1000)).len(), 64);
}
