//! The table `users`, and registration.

use live::auth::LocalIssuer;
use live::{Anyone, Given, Mutation, Problem};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use store::{Snapshot, Tx, args, insert_if_absent, sql, statements};
use utoipa::ToSchema;

/// How long a token is valid. There are no passwords here, so a user whose token has expired registers again.
const TOKEN_LIFETIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);

statements! {
    static INSERT = insert_if_absent("users", &["id", "name", "created_at"]);
    static KNOWN = sql("SELECT 1 FROM users WHERE id = ?1");
}

/// Fails for the token of another database, whose file of keys is still there.
pub fn require_known(snapshot: &mut Snapshot<'_>, user: &str) -> Result<(), Problem> {
    let known = snapshot.one(&KNOWN, args![user], |row| row.get::<i64>(0))?;
    known.map(drop).ok_or_else(|| Problem::forbidden("This user does not exist any more. Register again."))
}

/// Creates a user and signs a token for them.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Register {
    name: String,
}

/// A user with their token.
#[derive(Serialize, ToSchema)]
pub struct Registered {
    id: String,
    name: String,
    /// For `Authorization: Bearer …`.
    token: String,
}

impl Mutation for Register {
    const NAME: &'static str = "register";
    type Claims = Anyone;
    type Value = Registered;

    fn validate(&self) -> Result<(), Problem> {
        crate::check_name(&self.name)
    }

    fn run(&self, tx: &mut Tx<'_>, _: &Anyone, given: &Given) -> Result<Registered, Problem> {
        let (id, name) = (given.id("user"), self.name.clone());
        if tx.exec(&INSERT, args![&id, &name, given.now])? == 0 {
            return Err(Problem::conflict("name_taken", "Another user has this name. Choose another one."));
        }
        // In the command, where nothing slow belongs, because a signature takes some 50 µs. A password is hashed before.
        let issuer = given.state::<LocalIssuer>().ok_or_else(Problem::internal)?;
        let token = issuer.issue(&id, TOKEN_LIFETIME, serde_json::Map::new());
        Ok(Registered { id, name, token: token.map_err(Problem::defect)? })
    }
}
