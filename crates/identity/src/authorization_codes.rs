//! Authorization codes (RFC 6749 section 4.1) with PKCE (RFC 7636). A code expires after a minute, can be used once,
//! and is bound to client, redirect URI, session and challenge. Reuse of a code revokes the grant that it gave.

use crate::audit::Actor;
use crate::authentication::Authentication;
use crate::grants::{self, Leak, NewGrant, NewRefresh};
use crate::ids::{ClientId, CodeId, GrantId, SessionId, UserId};
use crate::scopes::Scope;
use crate::secrets::{self, Hash, Random};
use crate::sessions::{self, Session};
use crate::{Error, Result, Time, consents, users};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::time::Duration;
use store::{Snapshot, Tx, args, insert, lock, sql, statements};

/// The lifetime of a code.
pub const LIFE: Duration = Duration::from_secs(60);

/// The input for [`create`].
#[derive(Clone, Debug)]
pub struct NewCode {
    /// The new id.
    pub id: CodeId,
    /// The code for the client: `<id>.<secret>`.
    pub code: String,
    /// The stored hash of the secret.
    pub hash: Hash,
    /// The client.
    pub client: ClientId,
    /// The session of the user.
    pub session: SessionId,
    /// The user's authentication in the session.
    pub authentication: Authentication,
    /// The redirect URI that the code is sent to.
    pub redirect_uri: String,
    /// The granted scope.
    pub scope: Scope,
    /// The PKCE challenge (S256) of the request, if it had one.
    pub challenge: Option<String>,
    /// The nonce for the ID token.
    pub nonce: Option<String>,
}

impl NewCode {
    /// Generates the id and the secret.
    pub fn generate(
        client: ClientId,
        session: &Session,
        redirect_uri: String,
        scope: Scope,
        now: Time,
        random: &dyn Random,
    ) -> NewCode {
        let id = CodeId::new(now, random);
        let secret = secrets::secret(random);
        let (code, hash) = (format!("{id}.{secret}"), secrets::hash(secret.as_bytes()));
        let (session, authentication) = (session.id.clone(), session.authentication.clone());
        NewCode {
            id,
            code,
            hash,
            client,
            session,
            authentication,
            redirect_uri,
            scope,
            challenge: None,
            nonce: None,
        }
    }
}

statements! {
    static INSERT = insert(
        "authorization_codes",
        &[&[
            "id", "hash", "client_id", "session_id", "redirect_uri", "scope", "challenge", "nonce",
            "created_at", "expires_at", "authentication",
        ]],
    );
    static LOCK = lock("authorization_codes", "id");
    static GET = sql("SELECT a.hash, a.client_id, a.session_id, a.redirect_uri, a.scope, a.challenge, a.nonce, a.expires_at,
      a.redeemed_at, a.grant_id, s.user_id, c.consent_required, v.changed_at, v.accepted_at, a.authentication
     FROM authorization_codes a JOIN sessions s ON s.id = a.session_id JOIN clients c ON c.id = a.client_id
     LEFT JOIN client_reviews v ON v.client_id = a.client_id WHERE a.id = ?1");
    static PEEK = sql("SELECT c.hash, s.user_id, c.scope FROM authorization_codes c
     JOIN sessions s ON s.id = c.session_id WHERE c.id = ?1 AND c.client_id = ?2");
    static REDEEM = sql(
        "UPDATE authorization_codes SET redeemed_at = ?2, grant_id = ?3 WHERE id = ?1 AND redeemed_at IS NULL",
    );
    static OLD = sql("SELECT id FROM authorization_codes WHERE id < ?1 ORDER BY id LIMIT ?2");
    static DELETE = sql("DELETE FROM authorization_codes WHERE id = ?1");
}
/// Stores a code.
pub fn create(tx: &mut Tx<'_>, new: &NewCode, now: Time) -> Result<()> {
    let scope = new.scope.to_string();
    tx.exec(
        &INSERT,
        args![
            &new.id,
            &new.hash,
            &new.client,
            &new.session,
            &new.redirect_uri,
            &scope,
            new.challenge.as_deref(),
            new.nonce.as_deref(),
            now,
            now + LIFE,
            new.authentication.stored()
        ],
    )?;
    Ok(())
}

/// The parameters of a token request.
#[derive(Clone, Debug)]
pub struct Presented {
    /// The code.
    pub code: String,
    /// The authenticated client.
    pub client: ClientId,
    /// The `redirect_uri` parameter.
    pub redirect_uri: String,
    /// The `code_verifier` parameter.
    pub verifier: Option<String>,
}

/// Reads the user and the scope of a code before it is redeemed. It checks only the secret and the client; [`redeem`]
/// checks everything else.
pub fn peek(snapshot: &mut Snapshot<'_>, presented: &Presented) -> Result<(UserId, Scope)> {
    let (id, secret) = secrets::split_token(&presented.code).ok_or(Error::InvalidGrant)?;
    let id = CodeId::parse(id).map_err(|_| Error::InvalidGrant)?;
    let found = snapshot.one(&PEEK, args![&id, &presented.client], |row| {
        Ok((row.get::<Vec<u8>>(0)?, row.get(1)?, row.get::<String>(2)?))
    })?;
    let (hash, user, scope) = found.ok_or(Error::InvalidGrant)?;
    let fits = secrets::matches(secret.as_bytes(), &hash);
    if fits { Ok((user, Scope::parse(&scope))) } else { Err(Error::InvalidGrant) }
}

/// The result of [`redeem`].
#[derive(Clone, Debug)]
pub enum Redeemed {
    /// The code was valid.
    Grant {
        /// The new grant.
        grant: Box<NewGrant>,
        /// The nonce for the ID token.
        nonce: Option<String>,
    },
    /// The code was redeemed before. Its grant is now revoked.
    Replayed,
}

/// Redeems a code. The caller generates `grant` and `refresh`. `refresh` is stored if the scope includes
/// `offline_access`.
pub fn redeem(
    tx: &mut Tx<'_>,
    presented: &Presented,
    grant: &GrantId,
    refresh: &NewRefresh,
    actor: &Actor,
) -> Result<Redeemed> {
    let now = actor.now;
    let (id, secret) = secrets::split_token(&presented.code).ok_or(Error::InvalidGrant)?;
    let id = CodeId::parse(id).map_err(|_| Error::InvalidGrant)?;
    tx.lock(&LOCK, (&id).into())?;
    struct Stored {
        hash: Vec<u8>,
        client: ClientId,
        session: SessionId,
        redirect_uri: String,
        scope: String,
        challenge: Option<String>,
        nonce: Option<String>,
        expires_at: Time,
        redeemed_at: Option<Time>,
        grant: Option<GrantId>,
        user: UserId,
        consent_required: bool,
        authentication: Option<Authentication>,
    }
    let stored = tx
        .one(&GET, args![&id], |row| {
            let needs_review =
                row.get::<Option<Time>>(12)?.is_some() && row.get::<Option<Time>>(13)?.is_none();
            Ok(Stored {
                hash: row.get(0)?,
                client: row.get(1)?,
                session: row.get(2)?,
                redirect_uri: row.get(3)?,
                scope: row.get(4)?,
                challenge: row.get(5)?,
                nonce: row.get(6)?,
                expires_at: row.get(7)?,
                redeemed_at: row.get(8)?,
                grant: row.get(9)?,
                user: row.get(10)?,
                consent_required: row.get::<bool>(11)? || needs_review,
                authentication: Authentication::of_column(row.get(14)?),
            })
        })?
        .ok_or(Error::InvalidGrant)?;
    if !secrets::matches(secret.as_bytes(), &stored.hash) || stored.client != presented.client {
        return Err(Error::InvalidGrant);
    }
    if stored.redeemed_at.is_some() {
        let grant = match &stored.grant {
            Some(grant) => grants::get(tx.snapshot(), grant)?,
            None => None,
        };
        if let Some(grant) = grant {
            grants::revoke_leaked(tx, &grant, Leak::ReplayedCode, actor)?;
        }
        return Ok(Redeemed::Replayed);
    }
    let proven = proves(presented.verifier.as_deref(), stored.challenge.as_deref());
    if stored.expires_at <= now || stored.redirect_uri != presented.redirect_uri || !proven {
        return Err(Error::InvalidGrant);
    }
    if stored.consent_required {
        // A consent is withdrawn before, or with the grant. The user's lock comes before that of a session.
        tx.lock(&users::LOCK, (&stored.user).into())?;
        let scope = Scope::parse(&stored.scope);
        if !consents::has_consented(tx.snapshot(), &stored.user, &stored.client, &scope)? {
            return Err(Error::InvalidGrant);
        }
    }
    // The session ends before, or with the grant: its end names the services where it has grants.
    tx.lock(&sessions::LOCK, (&stored.session).into())?;
    let session = sessions::live(tx.snapshot(), &stored.session, now)?.ok_or(Error::InvalidGrant)?;
    if tx.exec(&REDEEM, args![&id, now, grant])? == 0 {
        return Err(Error::InvalidGrant);
    }
    let new = NewGrant {
        id: grant.clone(),
        organization: session.organization,
        user: session.user,
        client: stored.client,
        session: session.id,
        scope: Scope::parse(&stored.scope),
        // An instance of an earlier release makes codes without one.
        authentication: stored.authentication.unwrap_or(session.authentication),
    };
    let offline = new.scope.contains("offline_access");
    grants::create(tx, &new, offline.then_some(refresh), now)?;
    let alive = grants::get(tx.snapshot(), grant)?.is_some_and(|grant| grant.is_alive(now));
    if !alive {
        return Err(Error::InvalidGrant);
    }
    Ok(Redeemed::Grant { grant: Box::new(new), nonce: stored.nonce })
}

/// Whether the verifier matches the challenge (S256). A verifier without a challenge indicates a downgrade attack and
/// does not match (RFC 9700 section 4.8).
fn proves(verifier: Option<&str>, challenge: Option<&str>) -> bool {
    match (verifier, challenge) {
        (None, None) => true,
        (Some(verifier), Some(challenge)) => {
            is_pkce_text(verifier) && URL_SAFE_NO_PAD.encode(secrets::hash(verifier.as_bytes())) == challenge
        }
        _ => false,
    }
}

/// Whether a text has the form of a verifier or challenge: 43 to 128 unreserved characters (RFC 7636 section 4.1).
pub fn is_pkce_text(text: &str) -> bool {
    (43..=128).contains(&text.len())
        && text
            .bytes()
            .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'.' | b'_' | b'~'))
}

/// Deletes up to `most` codes created before `moment`. Returns the number of deleted codes.
pub fn delete_older(tx: &mut Tx<'_>, moment: Time, most: i64) -> Result<usize> {
    let codes: Vec<CodeId> =
        tx.all(&OLD, args![crate::ids::smallest_at(CodeId::PREFIX, moment), most], |row| row.get(0))?;
    for id in &codes {
        tx.exec(&DELETE, args![id])?;
    }
    Ok(codes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pkce_matches_appendix_b_of_rfc_7636() {
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        let challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
        assert!(proves(Some(verifier), Some(challenge)));
        assert!(!proves(Some("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXx"), Some(challenge)));
        assert!(!proves(None, Some(challenge)));
        assert!(!proves(Some(verifier), None), "a downgrade");
        assert!(proves(None, None));
    }
}
