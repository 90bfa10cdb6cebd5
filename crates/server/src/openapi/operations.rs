//! Every operation of the API: its route, its handler, its name and what its types cannot say. A new route needs one
//! entry here, and a code that only some operations answer with stands in `fails`.

use super::Description;
use crate::api::{
    administrators, audit, billing, branding, clients, customers, invitations, keys, live, organizations,
    plans, platform, service, services, subscription, subscription_answers, subscriptions, user,
};
use crate::webhooks;
use ::api::users;
use identity::api_keys::SERVICE_SCOPES;
use identity::programs::CLIENT_REDIRECTS;
use utoipa::openapi::path::HttpMethod::{Delete, Get, Patch, Post, Put};

/// Adds all of them, in the order in which they are shown.
pub(super) fn describe(api: &mut Description) {
    of_services(api);
    of_organizations(api);
    of_catalog(api);
    of_billing(api);
    api.table(&users::USERS);
    of_platform(api);
}

fn of_services(api: &mut Description) {
    api.tag("Signed-in user", "What a service reads about the user whose access token it has.");
    api.add(Get, "/api/subscription", subscription::get, "getEntitlement", "Get what the user may use")
        .text("The answer names the plan `free` if the user has no subscription.")
        .answers::<subscription_answers::AnswerBody<'_>>(200);
    api.add(Get, "/api/user", user::get, "getSignedInUser", "Get the user")
        .answers::<user::UserBody<'_>>(200);
    api.add(Get, "/api/live", live::get, "streamEvents", "Stream changes")
        .text("A user's token gets the event `state`, and then what changes it. An API key of a service gets the events of \
               the users of the service from the header `Last-Event-ID` on.")
        .streams();

    api.tag("Service back end", "What the back end of a service reads with an API key of that service.");
    api.add(Get, "/api/service/users", service::users, "listUsersOfService", "Get users of the service")
        .text("Users who have neither a grant nor a seat at the service are left out.")
        .api_key(["users:read"])
        .answers::<service::UsersBody<'_>>(200);
    api.add(
        Post,
        "/api/service/check",
        service::check,
        "checkFeatures",
        "Check whether users may use features",
    )
    .text("At most 500 pairs of at most 100 users. It changes nothing.")
    .api_key(["entitlements:read"]);
    api.add(Get, "/api/service/state", service::state::get, "getServiceState", "Get the state of the service")
        .text("The service with its plans, and the users who have a subscription, in pages. Open `/api/live` with the \
               `last_event_id` of the first page as `Last-Event-ID`, and the events continue this state.")
        .api_key(SERVICE_SCOPES.iter().copied())
        .fails(&["not_found"]);
}

fn of_organizations(api: &mut Description) {
    api.tag("Organizations", "The tenants of the server.");
    api.add(Get, "/api/organizations", organizations::list, "listOrganizations", "List organizations")
        .text("Those that the user administers, sorted by slug.");
    api.add(Post, "/api/organizations", organizations::create, "createOrganization", "Create an organization")
        .text("The user becomes its owner. It is pending until an owner of the server has reviewed it, unless the user is one.")
        .fails(&["taken", "too_many_pending_organizations"]);
    api.add(Get, "/api/organizations/{org}", organizations::get, "getOrganization", "Get an organization");
    api.add(
        Patch,
        "/api/organizations/{org}",
        organizations::change,
        "changeOrganization",
        "Change an organization",
    )
    .fails(&["platform_stays"]);
    api.add(
        Delete,
        "/api/organizations/{org}",
        organizations::delete,
        "deleteOrganization",
        "Delete an organization",
    )
    .text("Nobody can sign in any more. For 30 days it can be restored, then its data is gone.")
    .fails(&["platform_stays"]);
    api.add(
        Delete,
        "/api/organizations/{org}/deletion",
        organizations::restore,
        "restoreOrganization",
        "Restore a deleted organization",
    )
    .fails(&["not_restorable"]);
    let base = "/api/organizations/{org}/branding";
    api.add(Get, base, branding::get, "getBranding", "Get what the pages show");
    api.add(Put, base, branding::put, "setBranding", "Change what the pages show")
        .text("The contact stands on the sign-in, on a closed sign-up and on error pages, while the organization is active.");

    api.tag("Administrators", "The users who administer an organization, and their invitations.");
    let base = "/api/organizations/{org}/administrators";
    api.add(Get, base, administrators::list, "listAdministrators", "List administrators");
    let one = "/api/organizations/{org}/administrators/{user}";
    api.add(Patch, one, administrators::change, "changeAdministrator", "Change the role of an administrator")
        .fails(&["last_owner", "platform_owners_only"]);
    api.add(Delete, one, administrators::remove, "removeAdministrator", "Remove an administrator")
        .text("The answer lists the API keys, client secrets and open invitations that they made: these go on working. With \
               `revoke=made` an owner revokes them in the same step, also the last secret of a client.")
        .fails(&["last_owner", "platform_owners_only"]);
    let base = "/api/organizations/{org}/invitations";
    api.add(Get, base, invitations::list, "listInvitations", "List open invitations");
    api.add(Post, base, invitations::create, "createInvitation", "Invite an administrator")
        .text("The answer holds the only copy of the link. It does not reveal whether the address has an account.")
        .fails(&["already_administrator", "platform_owners_only", "too_many_invitations"]);
    let one = "/api/organizations/{org}/invitations/{invitation}";
    api.add(Delete, one, invitations::revoke, "revokeInvitation", "Revoke an invitation");

    api.tag("API keys", "The bearer tokens of programs: of the organization, or of one service.");
    let base = "/api/organizations/{org}/keys";
    api.add(Get, base, keys::list, "listApiKeys", "List API keys");
    api.add(Post, base, keys::create, "createApiKey", "Create an API key")
        .text("The answer holds the only copy of the key.")
        .fails(&["platform_has_no_keys", "too_many_keys"]);
    let one = "/api/organizations/{org}/keys/{key}";
    api.add(Get, one, keys::get, "getApiKey", "Get an API key");
    api.add(Delete, one, keys::revoke, "revokeApiKey", "Revoke an API key");

    api.tag("Audit", "Who did what in an organization.");
    api.add(Get, "/api/organizations/{org}/audit", audit::list, "listAuditEntries", "List the audit trail")
        .text("Newest first.");
}

fn of_catalog(api: &mut Description) {
    api.tag("Services", "The products of an organization.");
    let base = "/api/organizations/{org}/services";
    api.add(Get, base, services::list, "listServices", "List services");
    api.add(Post, base, services::create, "createService", "Create a service").fails(&["taken"]);
    let one = "/api/organizations/{org}/services/{service}";
    api.add(Get, one, services::get, "getService", "Get a service");
    api.add(Patch, one, services::change, "changeService", "Change a service");
    api.add(Delete, one, services::delete, "deleteService", "Delete a service").fails(&["service_in_use"]);

    api.tag("Clients", "The programs that sign users in to a service.");
    let base = "/api/organizations/{org}/clients";
    api.add(Get, base, clients::list, "listClients", "List clients");
    api.add(Post, base, clients::create, "createClient", "Create a client")
        .text("The answer holds the only copy of the secret, if the kind has one.")
        .text("A program also needs `clients:redirects` for addresses, and `clients:secrets` for a kind with a secret. What it makes asks users for consent until an owner sets `consent_required`.");
    let one = "/api/organizations/{org}/clients/{client}";
    api.add(Get, one, clients::get, "getClient", "Get a client");
    api.add(Patch, one, clients::change, "changeClient", "Change a client")
        .text("A list replaces the old list.")
        .text("A program needs `clients:redirects` for addresses, and `clients:write` for anything else. If it changes `redirect_uris`, all consents end, and the client asks for consent until an owner sets `consent_required`.")
        .access_token([CLIENT_REDIRECTS])
        .api_key([CLIENT_REDIRECTS])
        .fails(&["first_party"]);
    api.add(Delete, one, clients::delete, "deleteClient", "Delete a client")
        .text("All of its grants are revoked.")
        .fails(&["first_party"]);
    let problems = "/api/organizations/{org}/clients/{client}/problems";
    api.add(Get, problems, clients::problems::list, "listClientProblems", "List what a client sent wrong")
        .text(
            "The last 20 redirect addresses that came and were not registered, each once, the newest first. An instance \
             lists those that it got since its start.",
        );
    let scopes = "/api/organizations/{org}/clients/{client}/scopes";
    api.add(Put, scopes, clients::scopes::put, "grantClientScopes", "Grant scopes to a machine client")
        .text("They replace the old ones.")
        .fails(&["platform_has_no_keys"]);
    api.add(Delete, scopes, clients::scopes::delete, "revokeClientScopes", "Revoke the scopes of a client");
    let base = "/api/organizations/{org}/clients/{client}/secrets";
    api.add(Get, base, clients::secrets::list, "listClientSecrets", "List the secrets of a client");
    api.add(Post, base, clients::secrets::create, "createClientSecret", "Create another secret")
        .text("The answer holds the only copy of the secret. The old ones stay valid.")
        .fails(&["first_party", "public_client", "too_many_secrets"]);
    let one = "/api/organizations/{org}/clients/{client}/secrets/{secret}";
    api.add(Delete, one, clients::secrets::delete, "deleteClientSecret", "Delete a secret")
        .fails(&["first_party"]);

    api.tag("Plans", "What an organization sells.");
    let base = "/api/organizations/{org}/plans";
    api.add(Get, base, plans::list, "listPlans", "List plans");
    api.add(Post, base, plans::create, "createPlan", "Create a plan").fails(&[
        "taken",
        "too_many_plans",
        "plans_too_large",
    ]);
    let one = "/api/organizations/{org}/plans/{plan}";
    api.add(Get, one, plans::get, "getPlan", "Get a plan");
    api.add(Patch, one, plans::change, "changePlan", "Change a plan")
        .text("A list or an object replaces the old one. Subscribers have the new terms at once.")
        .fails(&["plans_too_large"]);
    api.add(Delete, one, plans::delete, "deletePlan", "Delete a plan").fails(&["plan_in_use"]);

    api.tag("Subscriptions", "The customers of an organization and what they have subscribed to.");
    api.add(Get, "/api/organizations/{org}/customers", customers::list, "listCustomers", "List customers");
    let base = "/api/organizations/{org}/subscriptions";
    api.add(Get, base, subscriptions::list, "listSubscriptions", "List subscriptions");
    api.add(Post, base, subscriptions::create, "createSubscription", "Create a subscription")
        .fails(&["already_subscribed", "too_many_subscriptions"]);
    let one = "/api/organizations/{org}/subscriptions/{subscription}";
    api.add(Get, one, subscriptions::get, "getSubscription", "Get a subscription");
    api.add(Patch, one, subscriptions::change, "changeSubscription", "Change a subscription")
        .fails(&["already_subscribed"]);
    api.add(Delete, one, subscriptions::delete, "deleteSubscription", "Delete a subscription");
}

fn of_billing(api: &mut Description) {
    api.tag("Billing", "The payment providers of an organization, whose events change its subscriptions.");
    let base = "/api/organizations/{org}/billing";
    api.add(Get, base, billing::list, "listBillingConnections", "List connections");
    api.add(Post, base, billing::create, "createBillingConnection", "Create a connection")
        .fails(&["too_many_connections"]);
    let one = "/api/organizations/{org}/billing/{connection}";
    api.add(Get, one, billing::get, "getBillingConnection", "Get a connection");
    api.add(Patch, one, billing::change, "changeBillingConnection", "Change a connection");
    api.add(Delete, one, billing::delete, "deleteBillingConnection", "Delete a connection");
    let prices = "/api/organizations/{org}/billing/{connection}/prices";
    api.add(Get, prices, billing::prices::list, "listBillingPrices", "List prices with their plans");
    let price = "/api/organizations/{org}/billing/{connection}/prices/{price}";
    api.add(Put, price, billing::prices::put, "putBillingPrice", "Set the plan of a price")
        .fails(&["too_many_prices"]);
    api.add(Delete, price, billing::prices::delete, "deleteBillingPrice", "Forget a price");
    let customers = "/api/organizations/{org}/billing/{connection}/customers";
    api.add(
        Get,
        customers,
        billing::customers::list,
        "listBillingCustomers",
        "List the provider's customers",
    );
    let customer = "/api/organizations/{org}/billing/{connection}/customers/{billing_customer}";
    api.add(Put, customer, billing::customers::put, "putBillingCustomer", "Set who a customer is")
        .fails(&["too_many_billing_customers"]);
    api.add(Delete, customer, billing::customers::delete, "deleteBillingCustomer", "Forget a customer");
    let references = "/api/organizations/{org}/billing/{connection}/references";
    api.add(
        Post,
        references,
        billing::customers::reference,
        "createBillingReference",
        "Create the reference of a checkout",
    )
    .text("A checkout with this `client_reference_id` ties its customer to the user.");
    let subscriptions = "/api/organizations/{org}/billing/{connection}/subscriptions";
    api.add(
        Get,
        subscriptions,
        billing::subscriptions::list,
        "listBillingSubscriptions",
        "List the provider's subscriptions",
    );
    let retry = "/api/organizations/{org}/billing/{connection}/retry";
    api.add(
        Post,
        retry,
        billing::subscriptions::retry,
        "retryBillingSubscriptions",
        "Apply what waits for a price or a customer",
    );
    let events = "/api/organizations/{org}/billing/{connection}/events";
    api.add(Get, events, billing::events::list, "listBillingEvents", "List events");
    let webhook = "/webhooks/billing/{connection}";
    api.add(Post, webhook, webhooks::billing::post, "receiveBillingEvent", "Receive an event")
        .text("For the payment provider, whose signature is in `Stripe-Signature`. The body is its event.")
        .foreign_body("An event of Stripe, in the bytes that are signed.")
        .fails(&["invalid_event", "invalid_signature"]);
}

fn of_platform(api: &mut Description) {
    api.tag("Platform", "What owners of the server do.");
    api.add(
        Get,
        "/api/platform/organizations",
        platform::list,
        "listAllOrganizations",
        "List all organizations",
    );
    let review = "/api/platform/organizations/{org}/review";
    api.add(Post, review, platform::review, "reviewOrganization", "Approve or reject a pending organization")
        .fails(&["not_found", "already_reviewed"]);
    let suspension = "/api/platform/organizations/{org}/suspension";
    api.add(Put, suspension, platform::suspend, "suspendOrganization", "Suspend an organization")
        .text("Until the suspension ends nobody signs in, and no session or token works. Afterwards they work again.")
        .fails(&["not_found", "organization_not_active", "platform_stays"]);
    api.add(
        Delete,
        suspension,
        platform::activate,
        "activateOrganization",
        "End the suspension of an organization",
    )
    .fails(&["not_found", "organization_not_active"]);
    api.add(
        Get,
        "/api/platform/owners",
        platform::owners::list,
        "listPlatformOwners",
        "List the owners of the server",
    );
    api.add(
        Post,
        "/api/platform/owners",
        platform::owners::invite,
        "invitePlatformOwner",
        "Invite an owner of the server",
    )
    .text(
        "The answer holds the only copy of the link. It does not reveal whether the address has an account.",
    )
    .fails(&["already_administrator", "too_many_invitations"]);
    let one = "/api/platform/owners/{user}";
    api.add(Delete, one, platform::owners::remove, "removePlatformOwner", "Remove an owner of the server")
        .text("The answer lists what they made in the organization `platform`, and `revoke=made` revokes it.")
        .fails(&["not_found", "last_owner"]);
}
