//! Every answer that the server describes can be read by the command that shows it. The types are the commands' own: a
//! command may meet a server of another version, and reads no more than it shows.

use super::{
    audit, branding, client, departure, key, member, org, plan, server_owners, service, subscription,
};
use crate::api_client::parse;
use ::api::users;
use serde::de::DeserializeOwned;
use serde_json::Value;
use server::testing::described_examples;

/// Fails if the type cannot read an object with all of its fields, or one with those that it always has and `also`.
fn reads<T: DeserializeOwned>(object: &str, also: &[&str]) {
    let [full, mut least] = described_examples(object);
    assert!(full.is_object(), "the description of the API has no object {object}");
    for field in also {
        least[*field] = full[*field].clone();
    }
    for example in [full, least] {
        if let Err(error) = parse::<T>(&example) {
            panic!("{object}: {error}, in {example}");
        }
    }
}

#[test]
fn every_command_reads_what_the_server_describes() {
    reads::<audit::Entry>("AuditEntry", &[]);
    reads::<branding::Branding>("Branding", &[]);
    reads::<departure::Removed>("RemovedAdministrator", &[]);
    reads::<client::Client>("Client", &[]);
    reads::<client::Secret>("ClientSecret", &[]);
    reads::<key::Key>("ApiKey", &[]);
    reads::<member::Member>("Administrator", &[]);
    reads::<member::Open>("Invitation", &[]);
    reads::<org::Organization>("Organization", &[]);
    reads::<plan::Plan>("Plan", &[]);
    reads::<server_owners::Owner>("PlatformOwner", &[]);
    reads::<service::Service>("Service", &[]);
    reads::<subscription::Subscription>("Subscription", &[]);
    reads::<users::Session>("Session", &[]);
    reads::<users::User>("User", &[]);
    reads::<users::UserDetail>("UserDetail", &[]);
    reads::<users::CreatedUser>("CreatedUser", &[]);
    reads::<users::OneTimeLink>("OneTimeLink", &[]);
    // Only the replay of a write has no link, and commands send no Idempotency-Key.
    reads::<member::Invited>("SentInvitation", &["url"]);
}

#[test]
fn a_field_that_the_server_does_not_describe_is_found() {
    #[derive(Debug, serde::Deserialize)]
    struct Renamed {
        #[expect(dead_code, reason = "it is never there")]
        slug_of_old: String,
    }
    let [full, _]: [Value; 2] = described_examples("Service");
    let error = parse::<Renamed>(&full).expect_err("there is no such field");
    assert!(error.to_string().contains("slug_of_old"), "{error}");
}
