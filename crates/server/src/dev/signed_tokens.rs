//! Signs an access token for each grant that `fixtures` has made, with the key of the installation: for benchmarks with more
//! tokens than users could sign in for.

use identity::authentication::{Authentication, Method};
use identity::ids::{AuditId, ClientId};
use identity::secrets::{Random, SecretKey};
use identity::tokens::{self, ACCESS_LIFE, AccessClaims, Audience};
use identity::{Error, Result, Time, clients, keys};
use std::io::{BufRead, Write};
use std::time::Duration;
use store::Store;

/// Tokens are issued this much in the future, as by an instance with another clock, so that they live longer.
const AHEAD: Duration = Duration::from_secs(50);

/// The installation whose tokens are signed.
pub struct Signer<'a> {
    /// Its database.
    pub store: &'a Store,
    /// Its secret key.
    pub secret_key: SecretKey,
    /// Its issuer.
    pub issuer: &'a str,
    /// Randomness for the ids of tokens.
    pub random: &'a dyn Random,
}

impl Signer<'_> {
    /// Signs tokens for the first `count` grants of the list, and writes one a line. Returns how many there were.
    pub async fn sign(
        &self,
        list: &mut dyn BufRead,
        count: usize,
        out: &mut dyn Write,
        now: Time,
    ) -> Result<usize> {
        let failed = |error: std::io::Error| Error::Internal(format!("grants or tokens: {error}"));
        let secret_key = self.secret_key.clone();
        let ring = self.store.read(move |snapshot| keys::ring(snapshot, &secret_key, now)).await?;
        let (mut signed, mut client) = (0, None);
        let mut lines = list.lines();
        while signed < count
            && let Some(line) = lines.next()
        {
            let line = line.map_err(failed)?;
            let fields: Vec<&str> = line.split(' ').collect();
            let [grant, user, session, customer, client_id] = fields[..] else {
                return Err(Error::Internal("the list of grants has a line of another form".to_owned()));
            };
            if client.is_none() {
                let id = ClientId::parse(client_id)?;
                client = Some(self.store.read(move |snapshot| clients::get(snapshot, &id)).await?);
            }
            let Some(client) = &client else { continue };
            let claims = self.claims(client, [grant, user, session, customer], now + AHEAD);
            let (token, _) = tokens::sign_access(&ring, &claims, client.access_token_typ, now)?;
            writeln!(out, "{token}").map_err(failed)?;
            signed += 1;
        }
        out.flush().map_err(failed)?;
        Ok(signed)
    }

    /// The same claims as in the tokens that the server signs.
    fn claims(&self, client: &clients::Client, ids: [&str; 4], issued_at: Time) -> AccessClaims {
        let [grant, user, session, customer] = ids;
        let unique = AuditId::new(issued_at, self.random);
        let how = Authentication::new(issued_at, &[Method::Password]);
        AccessClaims {
            iss: self.issuer.to_owned(),
            sub: user.to_owned(),
            aud: Audience::One(client.service_audience()),
            client_id: client.id.to_string(),
            exp: (issued_at + ACCESS_LIFE).seconds(),
            iat: issued_at.seconds(),
            jti: format!("{grant}.{}", tokens::jti_of(&unique)),
            scope: "profile email".to_owned(),
            sid: Some(session.to_owned()),
            org: Some(client.organization_slug.clone()),
            service: Some(client.service_slug.clone()),
            customer: Some(customer.to_owned()),
            azp: Some(client.id.to_string()),
            auth_time: Some(issued_at.seconds()),
            acr: how.acr(),
            amr: how.amr(),
        }
    }
}
