//! One organization, one service, one plan, and users who are signed in.

use crate::database::Pool;

use crate::token::{self, Keys};

const ORG: &str = "acme";
const SERVICE: &str = "cli";
const CLIENT_ID: &str = "acme-cli";
const MONTH_S: i64 = 30 * 24 * 3600;

pub struct Filled {
    pub tokens: Vec<String>,
    pub client_id: &'static str,
    pub org: &'static str,
    pub service: &'static str,
}

pub async fn fill(pool: &Pool, keys: &Keys, users: u32) -> Result<Filled, Box<dyn std::error::Error>> {
    let now = token::now_s();
    let mut tx = pool.begin().await?;
    sqlx::query("INSERT INTO organizations (id, slug, status) VALUES ('org-1', $1, 'active')")
        .bind(ORG)
        .execute(&mut *tx)
        .await?;
    sqlx::query(
        "INSERT INTO services (id, org_id, slug, client_id, device_activation_uri)
         VALUES ('service-1', 'org-1', $1, $2, 'http://127.0.0.1/activate')",
    )
    .bind(SERVICE)
    .bind(CLIENT_ID)
    .execute(&mut *tx)
    .await?;
    sqlx::query(
        "INSERT INTO plans (id, service_id, name, features) VALUES ('plan-1', 'service-1', 'pro', $1)",
    )
    .bind(r#"["export_csv"]"#)
    .execute(&mut *tx)
    .await?;

    let mut tokens = Vec::new();
    for number in 0..users {
        let user_id = token::random_uuid()?;
        let email = format!("user-{number}@acme.test");
        let signed = keys.sign(&user_id, &email, ORG, SERVICE)?;
        sqlx::query("INSERT INTO users (id, email, created_at) VALUES ($1, $2, $3)")
            .bind(&user_id)
            .bind(&email)
            .bind(now)
            .execute(&mut *tx)
            .await?;
        sqlx::query(
            "INSERT INTO subscriptions (id, user_id, service_id, plan_id, status, current_period_end)
             VALUES ($1, $2, 'service-1', 'plan-1', 'active', $3)",
        )
        .bind(token::random_uuid()?)
        .bind(&user_id)
        .bind(now + MONTH_S)
        .execute(&mut *tx)
        .await?;
        sqlx::query("INSERT INTO sessions (id, user_id, token_hash, expires_at) VALUES ($1, $2, $3, $4)")
            .bind(token::random_uuid()?)
            .bind(&user_id)
            .bind(token::hash(&signed))
            .bind(now + token::LIFE_S)
            .execute(&mut *tx)
            .await?;
        tokens.push(signed);
    }
    tx.commit().await?;
    Ok(Filled { tokens, client_id: CLIENT_ID, org: ORG, service: SERVICE })
}
