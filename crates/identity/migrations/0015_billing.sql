-- Connections to payment providers. `sealed_secret` is what the provider signs its events with.
CREATE TABLE billing_connections (
    id {key} NOT NULL PRIMARY KEY,
    organization_id {key} NOT NULL,
    provider {key} NOT NULL,
    name {text} NOT NULL,
    livemode BIGINT NOT NULL,
    account {key255},
    sealed_secret {bytes},
    created_by {text},
    created_at BIGINT NOT NULL,
    deleted BIGINT NOT NULL,
    INDEX billing_connections_organization (organization_id, id),
    INDEX billing_connections_deleted (deleted, id),
    FOREIGN KEY (organization_id) REFERENCES organizations (id)
) {table};

-- The plans and customers that the provider's ids stand for, set by administrators. `external_id` is the provider's id.
CREATE TABLE billing_prices (
    connection_id {key} NOT NULL,
    external_id {key255} NOT NULL,
    plan_id {key} NOT NULL,
    created_by {text},
    created_at BIGINT NOT NULL,
    PRIMARY KEY (connection_id, external_id),
    INDEX billing_prices_plan (plan_id),
    FOREIGN KEY (plan_id) REFERENCES plans (id)
) {table};

CREATE TABLE billing_customers (
    connection_id {key} NOT NULL,
    external_id {key255} NOT NULL,
    customer_id {key} NOT NULL,
    created_by {text},
    created_at BIGINT NOT NULL,
    PRIMARY KEY (connection_id, external_id),
    INDEX billing_customers_customer (customer_id),
    FOREIGN KEY (customer_id) REFERENCES customers (id)
) {table};

-- The newest state that the provider has sent of each of its subscriptions. An event changes it only if its
-- `event_order` is greater. A row with a `problem` waits for an administrator.
CREATE TABLE billing_subscriptions (
    connection_id {key} NOT NULL,
    external_id {key255} NOT NULL,
    event_order {key255} NOT NULL,
    external_customer {key255} NOT NULL,
    prices {text} NOT NULL,
    status {key} NOT NULL,
    period_end BIGINT,
    access_until BIGINT,
    waits BIGINT NOT NULL,
    problem {key},
    subscription_id {key},
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (connection_id, external_id),
    INDEX billing_subscriptions_customer (connection_id, external_customer),
    INDEX billing_subscriptions_waits (connection_id, waits, external_id),
    INDEX billing_subscriptions_subscription (subscription_id)
) {table};

-- Events that were received, each once.
CREATE TABLE billing_events (
    id {key} NOT NULL PRIMARY KEY,
    connection_id {key} NOT NULL,
    external_id {key255} NOT NULL,
    kind {key} NOT NULL,
    subject {key255} NOT NULL,
    outcome {key} NOT NULL,
    occurred_at BIGINT NOT NULL,
    UNIQUE INDEX billing_events_external (connection_id, external_id),
    INDEX billing_events_connection (connection_id, id)
) {table};

-- When access ends, if that is not `current_period_end`: a subscription that renews has some days for its renewal.
ALTER TABLE subscriptions ADD COLUMN access_until BIGINT;
