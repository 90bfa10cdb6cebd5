//! Redirect addresses that clients sent and that were not registered: the first mistake of every integration. Anybody can
//! send any, so each instance keeps a bounded number in memory and writes nothing.
//!
//! A client has [`PER_CLIENT`] addresses, each once, the newest first: who floods a client hides that client's problems
//! and no other's. When too many clients have some, the organization with the most of them loses its oldest.

use identity::Time;
use identity::clients::Client;
use identity::ids::{ClientId, OrganizationId};
use parking_lot::Mutex;
use std::collections::HashMap;

/// The addresses of a client.
const PER_CLIENT: usize = 20;
/// The longest address that is kept, in characters.
const LENGTH_MAX: usize = 500;
/// The clients with problems. All together take 10 MB at most.
const CLIENTS_MAX: usize = 1000;

/// An address that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RedirectProblem {
    /// Without the values of the query and a user name, which may be secrets.
    pub address: String,
    /// Whether something was left out of it.
    pub is_cut: bool,
    /// When it came last.
    pub seen_at: Time,
    /// How often it came.
    pub count: u64,
}

#[derive(Default)]
pub(crate) struct RedirectProblems(Mutex<HashMap<ClientId, OfClient>>);

struct OfClient {
    organization: OrganizationId,
    /// The newest first, not empty.
    problems: Vec<RedirectProblem>,
}

impl OfClient {
    fn newest(&self) -> Time {
        self.problems.first().map_or(Time::from_millis(0), |problem| problem.seen_at)
    }
}

impl RedirectProblems {
    /// Notes an address that a client sent.
    pub(crate) fn note(&self, client: &Client, uri: &str, now: Time) {
        let (address, is_cut) = without_secrets(uri);
        let mut all = self.0.lock();
        if all.len() >= CLIENTS_MAX && !all.contains_key(&client.id) {
            forget_one(&mut all);
        }
        let organization = client.organization.clone();
        let own = all.entry(client.id.clone()).or_insert(OfClient { organization, problems: Vec::new() });
        let known = own.problems.iter().position(|problem| problem.address == address);
        let count = known.map_or(0, |at| own.problems.remove(at).count).saturating_add(1);
        own.problems.insert(0, RedirectProblem { address, is_cut, seen_at: now, count });
        own.problems.truncate(PER_CLIENT);
    }

    /// Those of a client, the newest first.
    pub(crate) fn of(&self, client: &ClientId) -> Vec<RedirectProblem> {
        self.0.lock().get(client).map(|own| own.problems.clone()).unwrap_or_default()
    }
}

/// Forgets the client whose problems are the oldest, of the organization that has the most clients here.
fn forget_one(all: &mut HashMap<ClientId, OfClient>) {
    let mut clients_of = HashMap::<&OrganizationId, usize>::new();
    all.values().for_each(|own| *clients_of.entry(&own.organization).or_default() += 1);
    let oldest = all.iter().min_by_key(|(id, own)| {
        let clients = clients_of.get(&own.organization).copied().unwrap_or(0);
        (std::cmp::Reverse(clients), own.newest(), id.as_str())
    });
    if let Some(id) = oldest.map(|(id, _)| id.clone()) {
        all.remove(&id);
    }
}

/// The address without what may be a secret, and whether that is less than what came.
fn without_secrets(uri: &str) -> (String, bool) {
    let start: String = uri.chars().filter(|letter| !letter.is_control()).take(LENGTH_MAX).collect();
    let before_fragment = start.split('#').next().unwrap_or_default();
    let (base, query) = match before_fragment.split_once('?') {
        Some((base, query)) => (base, Some(query)),
        None => (before_fragment, None),
    };
    let base = match base.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            format!("{scheme}://{}{path}", authority.rsplit('@').next().unwrap_or_default())
        }
        None => base.to_owned(),
    };
    let names = query.map(|query| {
        let names = query.split('&').map(|pair| match pair.split_once('=') {
            Some((name, _)) => format!("{name}=…"),
            // Text without a name may be anything.
            None => "…".to_owned(),
        });
        format!("?{}", names.collect::<Vec<_>>().join("&"))
    });
    let address = [base, names.unwrap_or_default()].concat();
    let is_cut = address != uri;
    (address, is_cut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use identity::secrets::testing::Seeded;

    #[test]
    fn an_address_is_kept_without_secrets() {
        for (came, kept) in [
            ("https://app.example/cb", "https://app.example/cb"),
            ("https://app.example/cb?code=s3cret&x", "https://app.example/cb?code=…&…"),
            ("https://ada:s3cret@app.example/cb#token=s3cret", "https://app.example/cb"),
            ("https://app.example?a=s3cret", "https://app.example?a=…"),
            ("a\nb", "ab"),
        ] {
            assert_eq!(without_secrets(came), (kept.to_owned(), kept != came));
        }
        let (kept, is_cut) = without_secrets(&"ü".repeat(10_000));
        assert_eq!((kept.chars().count(), is_cut), (LENGTH_MAX, true));
    }

    #[test]
    fn a_full_memory_forgets_the_client_of_the_largest_organization() {
        let (random, now) = (Seeded::new(1), Time::from_millis(1_800_000_000_000));
        let mut all = HashMap::new();
        let [small, large] = [(); 2].map(|()| OrganizationId::new(now, &random));
        let mut ids = Vec::new();
        for (number, organization) in [&small, &large, &large].into_iter().enumerate() {
            let seen_at = now + std::time::Duration::from_secs(number as u64);
            let problem = RedirectProblem { address: String::new(), is_cut: false, seen_at, count: 1 };
            let id = ClientId::new(now, &random);
            all.insert(id.clone(), OfClient { organization: organization.clone(), problems: vec![problem] });
            ids.push(id);
        }
        forget_one(&mut all);
        assert!(all.contains_key(&ids[0]) && !all.contains_key(&ids[1]) && all.contains_key(&ids[2]));
    }
}
