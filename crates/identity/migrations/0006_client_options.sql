-- Without a value, access tokens have the type at+jwt.
ALTER TABLE clients ADD COLUMN access_token_typ {text};

-- Where a user may go after signing out. Without rows, the redirect URIs of the client count.
CREATE TABLE post_logout_redirect_uris (
    client_id {key} NOT NULL,
    uri {key2000} NOT NULL,
    PRIMARY KEY (client_id, uri{first700}),
    FOREIGN KEY (client_id) REFERENCES clients (id)
) {table};

-- Apart from clients, so that a note about the use of a client does not empty caches.
CREATE TABLE client_activity (
    client_id {key} NOT NULL PRIMARY KEY,
    pkce_used_at BIGINT NOT NULL
) {table};
