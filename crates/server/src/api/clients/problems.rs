//! `/api/organizations/{org}/clients/{client}/problems`: redirect addresses that came and are not registered.

use crate::limits::redirect_problems::RedirectProblem;
use crate::web::administration::Administrator;
use crate::web::error::Result;
use crate::web::json::{Json, List, Page, rfc3339};
use crate::web::path::Path;
use identity::clients::{self, Client, Purpose, check_uri};
use identity::ids::ClientId;
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
#[schema(as = ClientProblem)]
pub(crate) struct ProblemBody {
    /// The parameter that was wrong: `redirect_uri`.
    parameter: &'static str,
    /// What came, without a user name, the values of a query, and a fragment: they may be secrets. At most 500 characters.
    address: String,
    /// Why it cannot be registered as it is here; null if it can.
    #[schema(required)]
    problem: Option<String>,
    /// The command that registers it beside the addresses that the client has. Null if the address cannot be registered.
    #[schema(required)]
    command: Option<String>,
    /// How often it came.
    count: u64,
    /// When it came last.
    #[schema(format = DateTime)]
    seen_at: String,
}

fn show(client: &Client, found: RedirectProblem) -> ProblemBody {
    let problem = if client.may_redirect_to(&found.address) {
        Some("It is registered by now.".to_owned())
    } else if found.is_cut {
        Some("Parts of it are left out here. Register the whole address as your program sends it.".to_owned())
    } else {
        check_uri(Purpose::Redirect, &found.address).err().map(|error| error.to_string())
    };
    let command = problem.is_none().then(|| command(client, &found.address));
    ProblemBody {
        parameter: "redirect_uri",
        address: found.address,
        problem,
        command,
        count: found.count,
        seen_at: rfc3339(found.seen_at),
    }
}

/// `client change` replaces the list, so the command names the registered addresses too.
fn command(client: &Client, address: &str) -> String {
    let all = client.redirect_uris.iter().map(String::as_str).chain([address]);
    let uris: Vec<String> = all.map(|uri| format!("--redirect-uri {}", quoted(uri))).collect();
    format!("sarsen client change {} {} --org {}", client.id, uris.join(" "), client.organization_slug)
}

/// A text as one word of a shell. A stranger may have sent it.
fn quoted(text: &str) -> String {
    let is_plain = |letter: u8| letter.is_ascii_alphanumeric() || b"-._/:".contains(&letter);
    match text.bytes().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

pub(crate) async fn list(
    admin: Administrator,
    Path((_, client)): Path<(String, String)>,
) -> Result<Json<List<ProblemBody>>> {
    let (organization, id) = (admin.organization.id.clone(), ClientId::parse(&client)?);
    let wanted = id.clone();
    let client =
        admin.read(move |snapshot| clients::in_organization(snapshot, &organization, &wanted)).await?;
    let found = admin.redirect_problems(&id);
    let key = |problem: &RedirectProblem| problem.address.clone();
    Ok(Json(Page::whole().list(found, key, |problem| show(&client, problem))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_word_of_a_shell() {
        assert_eq!(quoted("https://app.example.com:8443/cb"), "https://app.example.com:8443/cb");
        assert_eq!(quoted("https://a.example/$(rm);'x'&y"), r"'https://a.example/$(rm);'\''x'\''&y'");
    }
}
