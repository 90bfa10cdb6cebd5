//! Users: the accounts of an organization, their sessions, and one-time links.

use crate::fields::{is_unset, sent};
use crate::{List, Pages, operations, words};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// The fields of an account that administrators and services see.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Account {
    pub id: String,
    pub email: String,
    pub email_verified: bool,
    pub name: String,
    #[schema(format = DateTime)]
    pub created_at: String,
}

#[derive(Serialize, Deserialize, ToSchema)]
pub struct User {
    #[serde(flatten)]
    pub account: Account,
    #[schema(required, format = DateTime)]
    pub suspended_at: Option<String>,
}

#[derive(Serialize, Deserialize, ToSchema)]
pub struct UserDetail {
    #[serde(flatten)]
    pub user: User,
    /// Up to five minutes late.
    #[schema(required, format = DateTime)]
    pub last_seen_at: Option<String>,
}

#[derive(Serialize, Deserialize, ToSchema)]
pub struct CreatedUser {
    #[serde(flatten)]
    pub user: User,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_link: Option<OneTimeLink>,
}

/// A link that works once.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct OneTimeLink {
    /// Shown once: a replay of the answer leaves it out.
    #[schema(required = false, value_type = String)]
    pub url: Option<String>,
    #[schema(format = DateTime)]
    pub expires_at: String,
}

#[derive(Serialize, Deserialize, ToSchema)]
pub struct Session {
    pub id: String,
    #[schema(schema_with = words::session_kind)]
    pub kind: String,
    /// The IP address of the sign-in.
    pub address: String,
    /// The user agent of the sign-in.
    pub agent: String,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[schema(format = DateTime)]
    pub authenticated_at: String,
    #[schema(format = DateTime)]
    pub expires_at: String,
}

#[derive(Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct UserFilter {
    pub limit: Option<i64>,
    pub cursor: Option<String>,
    /// The whole address of one account.
    #[param(schema_with = words::email)]
    pub email: Option<String>,
    /// The beginning of an e-mail address, of a name, or of a later word of a name.
    #[param(schema_with = words::search)]
    pub q: Option<String>,
    /// `created_at`, `-created_at` or `email`.
    #[param(schema_with = words::user_order)]
    pub sort: Option<String>,
}

#[derive(Serialize, Deserialize, ToSchema)]
#[cfg_attr(feature = "flags", derive(clap::Args))]
#[serde(deny_unknown_fields)]
#[schema(as = CreateUser)]
pub struct NewUser {
    #[schema(schema_with = words::email)]
    #[cfg_attr(feature = "flags", arg(help = "E-mail address"))]
    pub email: String,
    #[serde(default, skip_serializing_if = "is_unset")]
    #[cfg_attr(feature = "flags", arg(long = "verified", help = "Mark the e-mail address as verified"))]
    pub email_verified: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::user_name)]
    #[cfg_attr(feature = "flags", arg(long, display_order = 0, help = "Display name"))]
    pub name: Option<String>,
    /// Whether the answer has a link with which the user sets a password. A program needs the scope `users:links` for it.
    #[serde(default, skip_serializing_if = "is_unset")]
    #[cfg_attr(
        feature = "flags",
        arg(
            long,
            help = "Create a link as well with which the user sets a password within seven days",
            long_help = None
        )
    )]
    pub password_link: bool,
}

#[derive(Default, Serialize, Deserialize, ToSchema)]
#[cfg_attr(feature = "flags", derive(clap::Args))]
#[serde(deny_unknown_fields)]
#[schema(as = ChangeUser)]
pub struct UserChange {
    #[serde(default, deserialize_with = "sent", skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::name)]
    #[cfg_attr(feature = "flags", arg(long, help = "New display name"))]
    pub name: Option<String>,
}

#[derive(Serialize, Deserialize, ToSchema)]
#[cfg_attr(feature = "flags", derive(clap::Args))]
#[serde(deny_unknown_fields)]
#[schema(as = SuspendUser)]
pub struct UserSuspension {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::reason)]
    #[cfg_attr(feature = "flags", arg(long, help = "Reason for the audit trail"))]
    pub reason: Option<String>,
}

operations! { USERS = "Users", "The accounts of an organization.";
    /// List users
    ListUsers = "listUsers": Get "/api/organizations/{org}/users" by Administrator, asks UserFilter, gives 200 List<User>;

    /// Create a user
    ///
    /// The account has no password. With `password_link`, the answer holds a link to set one; a program also needs
    /// `users:links` for it.
    CreateUser = "createUser": Post "/api/organizations/{org}/users" by Admin, takes NewUser, gives 201 CreatedUser,
        fails ["taken"];

    /// Get a user
    GetUser = "getUser": Get "/api/organizations/{org}/users/{user}" by Administrator, gives 200 UserDetail;

    /// Change a user
    ChangeUser = "changeUser": Patch "/api/organizations/{org}/users/{user}" by Admin, takes UserChange, gives 200 User;

    /// Delete a user
    ///
    /// Subscriptions end, and names, addresses and e-mails are blanked. It cannot be undone.
    DeleteUser = "deleteUser": Delete "/api/organizations/{org}/users/{user}" by Admin, gives 204 (),
        fails ["last_owner", "own_account", "platform_owner"];

    /// Suspend a user
    ///
    /// All sessions of the user end.
    SuspendUser = "suspendUser": Put "/api/organizations/{org}/users/{user}/suspension" by Admin, takes UserSuspension,
        gives 200 User, fails ["last_owner", "own_account"];

    /// End the suspension of a user
    ActivateUser = "activateUser": Delete "/api/organizations/{org}/users/{user}/suspension" by Admin, gives 204 ();

    /// List the sessions of a user
    ListSessions = "listSessions": Get "/api/organizations/{org}/users/{user}/sessions" by Administrator, asks Pages,
        gives 200 List<Session>;

    /// End all sessions of a user
    EndSessions = "endSessions": Delete "/api/organizations/{org}/users/{user}/sessions" by Admin, gives 204 ();

    /// End a session
    EndSession = "endSession": Delete "/api/organizations/{org}/users/{user}/sessions/{session}" by Admin, gives 204 ();

    /// Create a link that signs the user in once
    CreateSignInLink = "createSignInLink": Post "/api/organizations/{org}/users/{user}/sign-in-link" by Admin,
        gives 201 OneTimeLink, fails ["user_suspended"];

    /// Create a link to set a password once
    CreatePasswordLink = "createPasswordLink": Post "/api/organizations/{org}/users/{user}/password-link" by Admin,
        gives 201 OneTimeLink, fails ["user_suspended"];
}
