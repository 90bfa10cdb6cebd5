-- Times are Unix milliseconds. Hashes are SHA-256. State with a who and a when is a row or a pair of columns.

CREATE TABLE settings (
    name TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    value BYTEA NOT NULL
);

CREATE TABLE organizations (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    slug TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    created_by TEXT COLLATE "C",
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX organizations_slug ON organizations (slug);

CREATE TABLE organization_reviews (
    organization_id TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES organizations (id),
    decision TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C",
    decided_by TEXT COLLATE "C",
    decided_at BIGINT NOT NULL
);

CREATE TABLE organization_suspensions (
    organization_id TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES organizations (id),
    reason TEXT COLLATE "C",
    suspended_by TEXT COLLATE "C",
    suspended_at BIGINT NOT NULL
);

CREATE TABLE users (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
    email TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    email_verified_at BIGINT,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX users_email ON users (organization_id, email);
CREATE INDEX users_organization ON users (organization_id, id);

CREATE TABLE user_suspensions (
    user_id TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES users (id),
    reason TEXT COLLATE "C",
    suspended_by TEXT COLLATE "C",
    suspended_at BIGINT NOT NULL
);

CREATE TABLE user_activity (
    user_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    last_seen_at BIGINT NOT NULL
);

CREATE TABLE passwords (
    user_id TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES users (id),
    hash TEXT COLLATE "C" NOT NULL,
    changed_at BIGINT NOT NULL
);

CREATE TABLE platform_owners (
    user_id TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES users (id),
    added_by TEXT COLLATE "C",
    created_at BIGINT NOT NULL
);

CREATE TABLE administrators (
    organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
    user_id TEXT COLLATE "C" NOT NULL REFERENCES users (id),
    role TEXT COLLATE "C" NOT NULL,
    added_by TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    PRIMARY KEY (organization_id, user_id)
);
CREATE INDEX administrators_user ON administrators (user_id);

CREATE TABLE services (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
    slug TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX services_slug ON services (organization_id, slug);

CREATE TABLE clients (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
    service_id TEXT COLLATE "C" REFERENCES services (id),
    kind TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    grants TEXT COLLATE "C" NOT NULL,
    pkce_required BIGINT NOT NULL,
    consent_required BIGINT NOT NULL,
    id_token_alg TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX clients_organization ON clients (organization_id, id);

CREATE TABLE redirect_uris (
    client_id TEXT COLLATE "C" NOT NULL REFERENCES clients (id),
    uri TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (client_id, uri)
);

CREATE TABLE client_secrets (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    client_id TEXT COLLATE "C" NOT NULL REFERENCES clients (id),
    hash BYTEA NOT NULL,
    hint TEXT COLLATE "C" NOT NULL,
    created_by TEXT COLLATE "C",
    created_at BIGINT NOT NULL
);
CREATE INDEX client_secrets_client ON client_secrets (client_id);

CREATE TABLE plans (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
    slug TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    price_cents BIGINT NOT NULL,
    currency TEXT COLLATE "C" NOT NULL,
    features TEXT COLLATE "C" NOT NULL,
    limits TEXT COLLATE "C" NOT NULL,
    seats BIGINT,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX plans_slug ON plans (organization_id, slug);

CREATE TABLE plan_services (
    plan_id TEXT COLLATE "C" NOT NULL REFERENCES plans (id),
    service_id TEXT COLLATE "C" NOT NULL REFERENCES services (id),
    PRIMARY KEY (plan_id, service_id)
);
CREATE INDEX plan_services_service ON plan_services (service_id);

CREATE TABLE customers (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
    kind TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C" REFERENCES users (id),
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX customers_user ON customers (user_id);
CREATE INDEX customers_organization ON customers (organization_id, id);

CREATE TABLE customer_members (
    customer_id TEXT COLLATE "C" NOT NULL REFERENCES customers (id),
    user_id TEXT COLLATE "C" NOT NULL REFERENCES users (id),
    role TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (customer_id, user_id)
);
CREATE INDEX customer_members_user ON customer_members (user_id);

CREATE TABLE subscriptions (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    organization_id TEXT COLLATE "C" NOT NULL REFERENCES organizations (id),
    customer_id TEXT COLLATE "C" NOT NULL REFERENCES customers (id),
    plan_id TEXT COLLATE "C" NOT NULL REFERENCES plans (id),
    status TEXT COLLATE "C" NOT NULL,
    current_period_end BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX subscriptions_customer ON subscriptions (customer_id);
CREATE INDEX subscriptions_organization ON subscriptions (organization_id, id);
CREATE INDEX subscriptions_plan ON subscriptions (plan_id);

CREATE TABLE seats (
    subscription_id TEXT COLLATE "C" NOT NULL REFERENCES subscriptions (id),
    user_id TEXT COLLATE "C" NOT NULL REFERENCES users (id),
    created_at BIGINT NOT NULL,
    PRIMARY KEY (subscription_id, user_id)
);
CREATE INDEX seats_user ON seats (user_id);

CREATE TABLE sessions (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    organization_id TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    hash BYTEA,
    address TEXT COLLATE "C" NOT NULL,
    agent TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    authenticated_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    ended_at BIGINT,
    ended_by TEXT COLLATE "C"
);
CREATE INDEX sessions_user ON sessions (user_id);

CREATE TABLE grants (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    organization_id TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    client_id TEXT COLLATE "C" NOT NULL,
    session_id TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT,
    revoked_by TEXT COLLATE "C"
);
CREATE INDEX grants_session ON grants (session_id);

CREATE TABLE refresh_tokens (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    grant_id TEXT COLLATE "C" NOT NULL,
    hash BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at BIGINT,
    successor_id TEXT COLLATE "C"
);

CREATE TABLE revoked_tokens (
    jti TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    expires_at BIGINT NOT NULL
);

CREATE TABLE device_authorizations (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    hash BYTEA NOT NULL,
    user_code TEXT COLLATE "C" NOT NULL,
    client_id TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    address TEXT COLLATE "C" NOT NULL,
    agent TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    decision TEXT COLLATE "C",
    decided_by TEXT COLLATE "C",
    decided_at BIGINT,
    redeemed_at BIGINT
);
CREATE UNIQUE INDEX device_authorizations_user_code ON device_authorizations (user_code);

CREATE TABLE authorization_requests (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    client_id TEXT COLLATE "C" NOT NULL,
    parameters TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);

CREATE TABLE authorization_codes (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    hash BYTEA NOT NULL,
    client_id TEXT COLLATE "C" NOT NULL,
    session_id TEXT COLLATE "C" NOT NULL,
    redirect_uri TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    challenge TEXT COLLATE "C",
    nonce TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    redeemed_at BIGINT,
    grant_id TEXT COLLATE "C"
);

CREATE TABLE consents (
    user_id TEXT COLLATE "C" NOT NULL,
    client_id TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    granted_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, client_id)
);

CREATE TABLE signing_keys (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    algorithm TEXT COLLATE "C" NOT NULL,
    sealed BYTEA NOT NULL,
    public TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    signs_from BIGINT NOT NULL,
    retired_at BIGINT
);

CREATE TABLE links (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    purpose TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C",
    hash BYTEA NOT NULL,
    created_by TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at BIGINT
);

CREATE TABLE audit (
    organization_id TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    actor TEXT COLLATE "C" NOT NULL,
    action TEXT COLLATE "C" NOT NULL,
    target TEXT COLLATE "C" NOT NULL,
    address TEXT COLLATE "C" NOT NULL,
    details TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (organization_id, id)
);
