-- API keys of programs. A key without a service administers its organization within its scope.

CREATE TABLE api_keys (
    id {key} NOT NULL PRIMARY KEY,
    organization_id {key} NOT NULL,
    service_id {key},
    name {text} NOT NULL,
    scope {text} NOT NULL,
    hash {hash} NOT NULL,
    hint {text} NOT NULL,
    created_by {text},
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    INDEX api_keys_organization (organization_id, id),
    INDEX api_keys_service (service_id),
    FOREIGN KEY (organization_id) REFERENCES organizations (id),
    FOREIGN KEY (service_id) REFERENCES services (id)
) {table};

-- Apart from the key: a use changes nothing that caches depend on.
CREATE TABLE api_key_uses (
    api_key_id {key} NOT NULL PRIMARY KEY,
    last_used_at BIGINT
) {table};
