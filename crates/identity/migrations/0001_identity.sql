-- Times are Unix milliseconds. Hashes are SHA-256. State with a who and a when is a row or a pair of columns.
-- The tokens are explained in crates/store/src/migration_text.rs.

CREATE TABLE settings (
    name {key} NOT NULL PRIMARY KEY,
    value {long_bytes} NOT NULL
) {table};

CREATE TABLE organizations (
    id {key} NOT NULL PRIMARY KEY,
    slug {key} NOT NULL,
    name {text} NOT NULL,
    created_by {text},
    created_at BIGINT NOT NULL,
    UNIQUE INDEX organizations_slug (slug)
) {table};

CREATE TABLE organization_reviews (
    organization_id {key} NOT NULL PRIMARY KEY,
    decision {text} NOT NULL,
    reason {text},
    decided_by {text},
    decided_at BIGINT NOT NULL,
    FOREIGN KEY (organization_id) REFERENCES organizations (id)
) {table};

CREATE TABLE organization_suspensions (
    organization_id {key} NOT NULL PRIMARY KEY,
    reason {text},
    suspended_by {text},
    suspended_at BIGINT NOT NULL,
    FOREIGN KEY (organization_id) REFERENCES organizations (id)
) {table};

CREATE TABLE users (
    id {key} NOT NULL PRIMARY KEY,
    organization_id {key} NOT NULL,
    email {key255} NOT NULL,
    name {text} NOT NULL,
    email_verified_at BIGINT,
    created_at BIGINT NOT NULL,
    UNIQUE INDEX users_email (organization_id, email),
    INDEX users_organization (organization_id, id),
    FOREIGN KEY (organization_id) REFERENCES organizations (id)
) {table};

CREATE TABLE user_suspensions (
    user_id {key} NOT NULL PRIMARY KEY,
    reason {text},
    suspended_by {text},
    suspended_at BIGINT NOT NULL,
    FOREIGN KEY (user_id) REFERENCES users (id)
) {table};

CREATE TABLE user_activity (
    user_id {key} NOT NULL PRIMARY KEY,
    last_seen_at BIGINT NOT NULL
) {table};

CREATE TABLE passwords (
    user_id {key} NOT NULL PRIMARY KEY,
    hash {text} NOT NULL,
    changed_at BIGINT NOT NULL,
    FOREIGN KEY (user_id) REFERENCES users (id)
) {table};

CREATE TABLE platform_owners (
    user_id {key} NOT NULL PRIMARY KEY,
    added_by {text},
    created_at BIGINT NOT NULL,
    FOREIGN KEY (user_id) REFERENCES users (id)
) {table};

CREATE TABLE administrators (
    organization_id {key} NOT NULL,
    user_id {key} NOT NULL,
    role {key} NOT NULL,
    added_by {text},
    created_at BIGINT NOT NULL,
    PRIMARY KEY (organization_id, user_id),
    INDEX administrators_user (user_id),
    FOREIGN KEY (organization_id) REFERENCES organizations (id),
    FOREIGN KEY (user_id) REFERENCES users (id)
) {table};

CREATE TABLE services (
    id {key} NOT NULL PRIMARY KEY,
    organization_id {key} NOT NULL,
    slug {key} NOT NULL,
    name {text} NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE INDEX services_slug (organization_id, slug),
    FOREIGN KEY (organization_id) REFERENCES organizations (id)
) {table};

CREATE TABLE clients (
    id {key} NOT NULL PRIMARY KEY,
    organization_id {key} NOT NULL,
    service_id {key},
    kind {key} NOT NULL,
    name {text} NOT NULL,
    grants {text} NOT NULL,
    pkce_required BIGINT NOT NULL,
    consent_required BIGINT NOT NULL,
    id_token_alg {text} NOT NULL,
    created_at BIGINT NOT NULL,
    INDEX clients_organization (organization_id, id),
    FOREIGN KEY (organization_id) REFERENCES organizations (id),
    FOREIGN KEY (service_id) REFERENCES services (id)
) {table};

-- A key of 3072 bytes is the longest: two addresses of a client must differ in their first 700 letters.
CREATE TABLE redirect_uris (
    client_id {key} NOT NULL,
    uri {key2000} NOT NULL,
    PRIMARY KEY (client_id, uri{first700}),
    FOREIGN KEY (client_id) REFERENCES clients (id)
) {table};

CREATE TABLE client_secrets (
    id {key} NOT NULL PRIMARY KEY,
    client_id {key} NOT NULL,
    hash {hash} NOT NULL,
    hint {text} NOT NULL,
    created_by {text},
    created_at BIGINT NOT NULL,
    INDEX client_secrets_client (client_id),
    FOREIGN KEY (client_id) REFERENCES clients (id)
) {table};

CREATE TABLE plans (
    id {key} NOT NULL PRIMARY KEY,
    organization_id {key} NOT NULL,
    slug {key} NOT NULL,
    name {text} NOT NULL,
    price_cents BIGINT NOT NULL,
    currency {key} NOT NULL,
    features {long_text} NOT NULL,
    limits {long_text} NOT NULL,
    seats BIGINT,
    created_at BIGINT NOT NULL,
    UNIQUE INDEX plans_slug (organization_id, slug),
    FOREIGN KEY (organization_id) REFERENCES organizations (id)
) {table};

CREATE TABLE plan_services (
    plan_id {key} NOT NULL,
    service_id {key} NOT NULL,
    PRIMARY KEY (plan_id, service_id),
    INDEX plan_services_service (service_id),
    FOREIGN KEY (plan_id) REFERENCES plans (id),
    FOREIGN KEY (service_id) REFERENCES services (id)
) {table};

CREATE TABLE customers (
    id {key} NOT NULL PRIMARY KEY,
    organization_id {key} NOT NULL,
    kind {key} NOT NULL,
    name {text} NOT NULL,
    user_id {key},
    created_at BIGINT NOT NULL,
    UNIQUE INDEX customers_user (user_id),
    INDEX customers_organization (organization_id, id),
    FOREIGN KEY (organization_id) REFERENCES organizations (id),
    FOREIGN KEY (user_id) REFERENCES users (id)
) {table};

CREATE TABLE customer_members (
    customer_id {key} NOT NULL,
    user_id {key} NOT NULL,
    role {key} NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (customer_id, user_id),
    INDEX customer_members_user (user_id),
    FOREIGN KEY (customer_id) REFERENCES customers (id),
    FOREIGN KEY (user_id) REFERENCES users (id)
) {table};

CREATE TABLE subscriptions (
    id {key} NOT NULL PRIMARY KEY,
    organization_id {key} NOT NULL,
    customer_id {key} NOT NULL,
    plan_id {key} NOT NULL,
    status {key} NOT NULL,
    current_period_end BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    INDEX subscriptions_customer (customer_id),
    INDEX subscriptions_organization (organization_id, id),
    INDEX subscriptions_plan (plan_id),
    FOREIGN KEY (organization_id) REFERENCES organizations (id),
    FOREIGN KEY (customer_id) REFERENCES customers (id),
    FOREIGN KEY (plan_id) REFERENCES plans (id)
) {table};

CREATE TABLE seats (
    subscription_id {key} NOT NULL,
    user_id {key} NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (subscription_id, user_id),
    INDEX seats_user (user_id),
    FOREIGN KEY (subscription_id) REFERENCES subscriptions (id),
    FOREIGN KEY (user_id) REFERENCES users (id)
) {table};

CREATE TABLE sessions (
    id {key} NOT NULL PRIMARY KEY,
    organization_id {key} NOT NULL,
    user_id {key} NOT NULL,
    kind {key} NOT NULL,
    hash {hash},
    address {text} NOT NULL,
    agent {text} NOT NULL,
    created_at BIGINT NOT NULL,
    authenticated_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    ended_at BIGINT,
    ended_by {text},
    INDEX sessions_user (user_id)
) {table};

CREATE TABLE grants (
    id {key} NOT NULL PRIMARY KEY,
    organization_id {key} NOT NULL,
    user_id {key} NOT NULL,
    client_id {key} NOT NULL,
    session_id {key} NOT NULL,
    scope {text} NOT NULL,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT,
    revoked_by {text},
    INDEX grants_session (session_id)
) {table};

CREATE TABLE refresh_tokens (
    id {key} NOT NULL PRIMARY KEY,
    grant_id {key} NOT NULL,
    hash {hash} NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at BIGINT,
    successor_id {key}
) {table};

CREATE TABLE revoked_tokens (
    jti {key255} NOT NULL PRIMARY KEY,
    expires_at BIGINT NOT NULL
) {table};

CREATE TABLE device_authorizations (
    id {key} NOT NULL PRIMARY KEY,
    hash {hash} NOT NULL,
    user_code {key} NOT NULL,
    client_id {key} NOT NULL,
    scope {text} NOT NULL,
    address {text} NOT NULL,
    agent {text} NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    decision {text},
    decided_by {text},
    decided_at BIGINT,
    redeemed_at BIGINT,
    UNIQUE INDEX device_authorizations_user_code (user_code)
) {table};

CREATE TABLE authorization_requests (
    id {key} NOT NULL PRIMARY KEY,
    client_id {key} NOT NULL,
    parameters {long_text} NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
) {table};

CREATE TABLE authorization_codes (
    id {key} NOT NULL PRIMARY KEY,
    hash {hash} NOT NULL,
    client_id {key} NOT NULL,
    session_id {key} NOT NULL,
    redirect_uri {text} NOT NULL,
    scope {text} NOT NULL,
    challenge {text},
    nonce {text},
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    redeemed_at BIGINT,
    grant_id {key}
) {table};

CREATE TABLE consents (
    user_id {key} NOT NULL,
    client_id {key} NOT NULL,
    scope {text} NOT NULL,
    granted_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, client_id)
) {table};

CREATE TABLE signing_keys (
    id {key} NOT NULL PRIMARY KEY,
    algorithm {text} NOT NULL,
    sealed {bytes} NOT NULL,
    public {text} NOT NULL,
    created_at BIGINT NOT NULL,
    signs_from BIGINT NOT NULL,
    retired_at BIGINT
) {table};

CREATE TABLE links (
    id {key} NOT NULL PRIMARY KEY,
    purpose {text} NOT NULL,
    user_id {key},
    hash {hash} NOT NULL,
    created_by {text},
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at BIGINT
) {table};

CREATE TABLE audit (
    organization_id {key} NOT NULL,
    id {key} NOT NULL,
    actor {text} NOT NULL,
    action {text} NOT NULL,
    target {text} NOT NULL,
    address {text} NOT NULL,
    details {long_text} NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (organization_id, id)
) {table};
