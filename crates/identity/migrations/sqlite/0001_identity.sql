-- Times are Unix milliseconds. Hashes are SHA-256. State with a who and a when is a row or a pair of columns.

CREATE TABLE settings (
    name TEXT NOT NULL PRIMARY KEY,
    value BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE organizations (
    id TEXT NOT NULL PRIMARY KEY,
    slug TEXT NOT NULL,
    name TEXT NOT NULL,
    created_by TEXT,
    created_at BIGINT NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX organizations_slug ON organizations (slug);

CREATE TABLE organization_reviews (
    organization_id TEXT NOT NULL PRIMARY KEY REFERENCES organizations (id),
    decision TEXT NOT NULL,
    reason TEXT,
    decided_by TEXT,
    decided_at BIGINT NOT NULL
) WITHOUT ROWID;

CREATE TABLE organization_suspensions (
    organization_id TEXT NOT NULL PRIMARY KEY REFERENCES organizations (id),
    reason TEXT,
    suspended_by TEXT,
    suspended_at BIGINT NOT NULL
) WITHOUT ROWID;

CREATE TABLE users (
    id TEXT NOT NULL PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id),
    email TEXT NOT NULL,
    name TEXT NOT NULL,
    email_verified_at BIGINT,
    created_at BIGINT NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX users_email ON users (organization_id, email);
CREATE INDEX users_organization ON users (organization_id, id);

CREATE TABLE user_suspensions (
    user_id TEXT NOT NULL PRIMARY KEY REFERENCES users (id),
    reason TEXT,
    suspended_by TEXT,
    suspended_at BIGINT NOT NULL
) WITHOUT ROWID;

CREATE TABLE user_activity (
    user_id TEXT NOT NULL PRIMARY KEY,
    last_seen_at BIGINT NOT NULL
) WITHOUT ROWID;

CREATE TABLE passwords (
    user_id TEXT NOT NULL PRIMARY KEY REFERENCES users (id),
    hash TEXT NOT NULL,
    changed_at BIGINT NOT NULL
) WITHOUT ROWID;

CREATE TABLE platform_owners (
    user_id TEXT NOT NULL PRIMARY KEY REFERENCES users (id),
    added_by TEXT,
    created_at BIGINT NOT NULL
) WITHOUT ROWID;

CREATE TABLE administrators (
    organization_id TEXT NOT NULL REFERENCES organizations (id),
    user_id TEXT NOT NULL REFERENCES users (id),
    role TEXT NOT NULL,
    added_by TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (organization_id, user_id)
) WITHOUT ROWID;
CREATE INDEX administrators_user ON administrators (user_id);

CREATE TABLE services (
    id TEXT NOT NULL PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id),
    slug TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at BIGINT NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX services_slug ON services (organization_id, slug);

CREATE TABLE clients (
    id TEXT NOT NULL PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id),
    service_id TEXT REFERENCES services (id),
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    grants TEXT NOT NULL,
    pkce_required BIGINT NOT NULL,
    consent_required BIGINT NOT NULL,
    id_token_alg TEXT NOT NULL,
    created_at BIGINT NOT NULL
) WITHOUT ROWID;
CREATE INDEX clients_organization ON clients (organization_id, id);

CREATE TABLE redirect_uris (
    client_id TEXT NOT NULL REFERENCES clients (id),
    uri TEXT NOT NULL,
    PRIMARY KEY (client_id, uri)
) WITHOUT ROWID;

CREATE TABLE client_secrets (
    id TEXT NOT NULL PRIMARY KEY,
    client_id TEXT NOT NULL REFERENCES clients (id),
    hash BLOB NOT NULL,
    hint TEXT NOT NULL,
    created_by TEXT,
    created_at BIGINT NOT NULL
) WITHOUT ROWID;
CREATE INDEX client_secrets_client ON client_secrets (client_id);

CREATE TABLE plans (
    id TEXT NOT NULL PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id),
    slug TEXT NOT NULL,
    name TEXT NOT NULL,
    price_cents BIGINT NOT NULL,
    currency TEXT NOT NULL,
    features TEXT NOT NULL,
    limits TEXT NOT NULL,
    seats BIGINT,
    created_at BIGINT NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX plans_slug ON plans (organization_id, slug);

CREATE TABLE plan_services (
    plan_id TEXT NOT NULL REFERENCES plans (id),
    service_id TEXT NOT NULL REFERENCES services (id),
    PRIMARY KEY (plan_id, service_id)
) WITHOUT ROWID;
CREATE INDEX plan_services_service ON plan_services (service_id);

CREATE TABLE customers (
    id TEXT NOT NULL PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id),
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    user_id TEXT REFERENCES users (id),
    created_at BIGINT NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX customers_user ON customers (user_id);
CREATE INDEX customers_organization ON customers (organization_id, id);

CREATE TABLE customer_members (
    customer_id TEXT NOT NULL REFERENCES customers (id),
    user_id TEXT NOT NULL REFERENCES users (id),
    role TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (customer_id, user_id)
) WITHOUT ROWID;
CREATE INDEX customer_members_user ON customer_members (user_id);

CREATE TABLE subscriptions (
    id TEXT NOT NULL PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id),
    customer_id TEXT NOT NULL REFERENCES customers (id),
    plan_id TEXT NOT NULL REFERENCES plans (id),
    status TEXT NOT NULL,
    current_period_end BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
) WITHOUT ROWID;
CREATE INDEX subscriptions_customer ON subscriptions (customer_id);
CREATE INDEX subscriptions_organization ON subscriptions (organization_id, id);
CREATE INDEX subscriptions_plan ON subscriptions (plan_id);

CREATE TABLE seats (
    subscription_id TEXT NOT NULL REFERENCES subscriptions (id),
    user_id TEXT NOT NULL REFERENCES users (id),
    created_at BIGINT NOT NULL,
    PRIMARY KEY (subscription_id, user_id)
) WITHOUT ROWID;
CREATE INDEX seats_user ON seats (user_id);

CREATE TABLE sessions (
    id TEXT NOT NULL PRIMARY KEY,
    organization_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    hash BLOB,
    address TEXT NOT NULL,
    agent TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    authenticated_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    ended_at BIGINT,
    ended_by TEXT
) WITHOUT ROWID;
CREATE INDEX sessions_user ON sessions (user_id);

CREATE TABLE grants (
    id TEXT NOT NULL PRIMARY KEY,
    organization_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    client_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    scope TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT,
    revoked_by TEXT
) WITHOUT ROWID;
CREATE INDEX grants_session ON grants (session_id);

CREATE TABLE refresh_tokens (
    id TEXT NOT NULL PRIMARY KEY,
    grant_id TEXT NOT NULL,
    hash BLOB NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at BIGINT,
    successor_id TEXT
) WITHOUT ROWID;

CREATE TABLE revoked_tokens (
    jti TEXT NOT NULL PRIMARY KEY,
    expires_at BIGINT NOT NULL
) WITHOUT ROWID;

CREATE TABLE device_authorizations (
    id TEXT NOT NULL PRIMARY KEY,
    hash BLOB NOT NULL,
    user_code TEXT NOT NULL,
    client_id TEXT NOT NULL,
    scope TEXT NOT NULL,
    address TEXT NOT NULL,
    agent TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    decision TEXT,
    decided_by TEXT,
    decided_at BIGINT,
    redeemed_at BIGINT
) WITHOUT ROWID;
CREATE UNIQUE INDEX device_authorizations_user_code ON device_authorizations (user_code);

CREATE TABLE authorization_requests (
    id TEXT NOT NULL PRIMARY KEY,
    client_id TEXT NOT NULL,
    parameters TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
) WITHOUT ROWID;

CREATE TABLE authorization_codes (
    id TEXT NOT NULL PRIMARY KEY,
    hash BLOB NOT NULL,
    client_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    redirect_uri TEXT NOT NULL,
    scope TEXT NOT NULL,
    challenge TEXT,
    nonce TEXT,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    redeemed_at BIGINT,
    grant_id TEXT
) WITHOUT ROWID;

CREATE TABLE consents (
    user_id TEXT NOT NULL,
    client_id TEXT NOT NULL,
    scope TEXT NOT NULL,
    granted_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, client_id)
) WITHOUT ROWID;

CREATE TABLE signing_keys (
    id TEXT NOT NULL PRIMARY KEY,
    algorithm TEXT NOT NULL,
    sealed BLOB NOT NULL,
    public TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    signs_from BIGINT NOT NULL,
    retired_at BIGINT
) WITHOUT ROWID;

CREATE TABLE links (
    id TEXT NOT NULL PRIMARY KEY,
    purpose TEXT NOT NULL,
    user_id TEXT,
    hash BLOB NOT NULL,
    created_by TEXT,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at BIGINT
) WITHOUT ROWID;

CREATE TABLE audit (
    organization_id TEXT NOT NULL,
    id TEXT NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    address TEXT NOT NULL,
    details TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (organization_id, id)
) WITHOUT ROWID;
