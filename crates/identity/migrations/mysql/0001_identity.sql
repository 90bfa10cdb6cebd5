-- Times are Unix milliseconds. Hashes are SHA-256. State with a who and a when is a row or a pair of columns.
-- A change of the schema commits by itself here, so each statement can be run again: indexes stand in their tables.
-- `utf8mb4_bin` stands for the collation that compares by every byte; the back end puts its name on this server there.

CREATE TABLE IF NOT EXISTS settings (
    name VARCHAR(64) NOT NULL PRIMARY KEY,
    value MEDIUMBLOB NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS organizations (
    id VARCHAR(64) NOT NULL PRIMARY KEY,
    slug VARCHAR(64) NOT NULL,
    name TEXT NOT NULL,
    created_by TEXT,
    created_at BIGINT NOT NULL,
    UNIQUE INDEX organizations_slug (slug)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS organization_reviews (
    organization_id VARCHAR(64) NOT NULL PRIMARY KEY,
    decision TEXT NOT NULL,
    reason TEXT,
    decided_by TEXT,
    decided_at BIGINT NOT NULL,
    FOREIGN KEY (organization_id) REFERENCES organizations (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS organization_suspensions (
    organization_id VARCHAR(64) NOT NULL PRIMARY KEY,
    reason TEXT,
    suspended_by TEXT,
    suspended_at BIGINT NOT NULL,
    FOREIGN KEY (organization_id) REFERENCES organizations (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS users (
    id VARCHAR(64) NOT NULL PRIMARY KEY,
    organization_id VARCHAR(64) NOT NULL,
    email VARCHAR(255) NOT NULL,
    name TEXT NOT NULL,
    email_verified_at BIGINT,
    created_at BIGINT NOT NULL,
    UNIQUE INDEX users_email (organization_id, email),
    INDEX users_organization (organization_id, id),
    FOREIGN KEY (organization_id) REFERENCES organizations (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS user_suspensions (
    user_id VARCHAR(64) NOT NULL PRIMARY KEY,
    reason TEXT,
    suspended_by TEXT,
    suspended_at BIGINT NOT NULL,
    FOREIGN KEY (user_id) REFERENCES users (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS user_activity (
    user_id VARCHAR(64) NOT NULL PRIMARY KEY,
    last_seen_at BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS passwords (
    user_id VARCHAR(64) NOT NULL PRIMARY KEY,
    hash TEXT NOT NULL,
    changed_at BIGINT NOT NULL,
    FOREIGN KEY (user_id) REFERENCES users (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS platform_owners (
    user_id VARCHAR(64) NOT NULL PRIMARY KEY,
    added_by TEXT,
    created_at BIGINT NOT NULL,
    FOREIGN KEY (user_id) REFERENCES users (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS administrators (
    organization_id VARCHAR(64) NOT NULL,
    user_id VARCHAR(64) NOT NULL,
    role VARCHAR(64) NOT NULL,
    added_by TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (organization_id, user_id),
    INDEX administrators_user (user_id),
    FOREIGN KEY (organization_id) REFERENCES organizations (id),
    FOREIGN KEY (user_id) REFERENCES users (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS services (
    id VARCHAR(64) NOT NULL PRIMARY KEY,
    organization_id VARCHAR(64) NOT NULL,
    slug VARCHAR(64) NOT NULL,
    name TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE INDEX services_slug (organization_id, slug),
    FOREIGN KEY (organization_id) REFERENCES organizations (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS clients (
    id VARCHAR(64) NOT NULL PRIMARY KEY,
    organization_id VARCHAR(64) NOT NULL,
    service_id VARCHAR(64),
    kind VARCHAR(64) NOT NULL,
    name TEXT NOT NULL,
    grants TEXT NOT NULL,
    pkce_required BIGINT NOT NULL,
    consent_required BIGINT NOT NULL,
    id_token_alg TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    INDEX clients_organization (organization_id, id),
    FOREIGN KEY (organization_id) REFERENCES organizations (id),
    FOREIGN KEY (service_id) REFERENCES services (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- A key of 3072 bytes is the longest: two addresses of a client must differ in their first 700 letters.
CREATE TABLE IF NOT EXISTS redirect_uris (
    client_id VARCHAR(64) NOT NULL,
    uri VARCHAR(2000) NOT NULL,
    PRIMARY KEY (client_id, uri(700)),
    FOREIGN KEY (client_id) REFERENCES clients (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS client_secrets (
    id VARCHAR(64) NOT NULL PRIMARY KEY,
    client_id VARCHAR(64) NOT NULL,
    hash VARBINARY(64) NOT NULL,
    hint TEXT NOT NULL,
    created_by TEXT,
    created_at BIGINT NOT NULL,
    INDEX client_secrets_client (client_id),
    FOREIGN KEY (client_id) REFERENCES clients (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS plans (
    id VARCHAR(64) NOT NULL PRIMARY KEY,
    organization_id VARCHAR(64) NOT NULL,
    slug VARCHAR(64) NOT NULL,
    name TEXT NOT NULL,
    price_cents BIGINT NOT NULL,
    currency VARCHAR(64) NOT NULL,
    features MEDIUMTEXT NOT NULL,
    limits MEDIUMTEXT NOT NULL,
    seats BIGINT,
    created_at BIGINT NOT NULL,
    UNIQUE INDEX plans_slug (organization_id, slug),
    FOREIGN KEY (organization_id) REFERENCES organizations (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS plan_services (
    plan_id VARCHAR(64) NOT NULL,
    service_id VARCHAR(64) NOT NULL,
    PRIMARY KEY (plan_id, service_id),
    INDEX plan_services_service (service_id),
    FOREIGN KEY (plan_id) REFERENCES plans (id),
    FOREIGN KEY (service_id) REFERENCES services (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS customers (
    id VARCHAR(64) NOT NULL PRIMARY KEY,
    organization_id VARCHAR(64) NOT NULL,
    kind VARCHAR(64) NOT NULL,
    name TEXT NOT NULL,
    user_id VARCHAR(64),
    created_at BIGINT NOT NULL,
    UNIQUE INDEX customers_user (user_id),
    INDEX customers_organization (organization_id, id),
    FOREIGN KEY (organization_id) REFERENCES organizations (id),
    FOREIGN KEY (user_id) REFERENCES users (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS customer_members (
    customer_id VARCHAR(64) NOT NULL,
    user_id VARCHAR(64) NOT NULL,
    role VARCHAR(64) NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (customer_id, user_id),
    INDEX customer_members_user (user_id),
    FOREIGN KEY (customer_id) REFERENCES customers (id),
    FOREIGN KEY (user_id) REFERENCES users (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS subscriptions (
    id VARCHAR(64) NOT NULL PRIMARY KEY,
    organization_id VARCHAR(64) NOT NULL,
    customer_id VARCHAR(64) NOT NULL,
    plan_id VARCHAR(64) NOT NULL,
    status VARCHAR(64) NOT NULL,
    current_period_end BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    INDEX subscriptions_customer (customer_id),
    INDEX subscriptions_organization (organization_id, id),
    INDEX subscriptions_plan (plan_id),
    FOREIGN KEY (organization_id) REFERENCES organizations (id),
    FOREIGN KEY (customer_id) REFERENCES customers (id),
    FOREIGN KEY (plan_id) REFERENCES plans (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS seats (
    subscription_id VARCHAR(64) NOT NULL,
    user_id VARCHAR(64) NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (subscription_id, user_id),
    INDEX seats_user (user_id),
    FOREIGN KEY (subscription_id) REFERENCES subscriptions (id),
    FOREIGN KEY (user_id) REFERENCES users (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS sessions (
    id VARCHAR(64) NOT NULL PRIMARY KEY,
    organization_id VARCHAR(64) NOT NULL,
    user_id VARCHAR(64) NOT NULL,
    kind VARCHAR(64) NOT NULL,
    hash VARBINARY(64),
    address TEXT NOT NULL,
    agent TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    authenticated_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    ended_at BIGINT,
    ended_by TEXT,
    INDEX sessions_user (user_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS grants (
    id VARCHAR(64) NOT NULL PRIMARY KEY,
    organization_id VARCHAR(64) NOT NULL,
    user_id VARCHAR(64) NOT NULL,
    client_id VARCHAR(64) NOT NULL,
    session_id VARCHAR(64) NOT NULL,
    scope TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT,
    revoked_by TEXT,
    INDEX grants_session (session_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS refresh_tokens (
    id VARCHAR(64) NOT NULL PRIMARY KEY,
    grant_id VARCHAR(64) NOT NULL,
    hash VARBINARY(64) NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at BIGINT,
    successor_id VARCHAR(64)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS revoked_tokens (
    jti VARCHAR(255) NOT NULL PRIMARY KEY,
    expires_at BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS device_authorizations (
    id VARCHAR(64) NOT NULL PRIMARY KEY,
    hash VARBINARY(64) NOT NULL,
    user_code VARCHAR(64) NOT NULL,
    client_id VARCHAR(64) NOT NULL,
    scope TEXT NOT NULL,
    address TEXT NOT NULL,
    agent TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    decision TEXT,
    decided_by TEXT,
    decided_at BIGINT,
    redeemed_at BIGINT,
    UNIQUE INDEX device_authorizations_user_code (user_code)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS authorization_requests (
    id VARCHAR(64) NOT NULL PRIMARY KEY,
    client_id VARCHAR(64) NOT NULL,
    parameters MEDIUMTEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS authorization_codes (
    id VARCHAR(64) NOT NULL PRIMARY KEY,
    hash VARBINARY(64) NOT NULL,
    client_id VARCHAR(64) NOT NULL,
    session_id VARCHAR(64) NOT NULL,
    redirect_uri TEXT NOT NULL,
    scope TEXT NOT NULL,
    challenge TEXT,
    nonce TEXT,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    redeemed_at BIGINT,
    grant_id VARCHAR(64)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS consents (
    user_id VARCHAR(64) NOT NULL,
    client_id VARCHAR(64) NOT NULL,
    scope TEXT NOT NULL,
    granted_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, client_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS signing_keys (
    id VARCHAR(64) NOT NULL PRIMARY KEY,
    algorithm TEXT NOT NULL,
    sealed BLOB NOT NULL,
    public TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    signs_from BIGINT NOT NULL,
    retired_at BIGINT
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS links (
    id VARCHAR(64) NOT NULL PRIMARY KEY,
    purpose TEXT NOT NULL,
    user_id VARCHAR(64),
    hash VARBINARY(64) NOT NULL,
    created_by TEXT,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at BIGINT
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS audit (
    organization_id VARCHAR(64) NOT NULL,
    id VARCHAR(64) NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    address TEXT NOT NULL,
    details MEDIUMTEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (organization_id, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
