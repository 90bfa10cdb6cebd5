//! The table of settings. The file, the environment and the flags take the names from here.

use super::Database;

/// A setting.
pub(super) struct Definition {
    /// Its name: as it is in the file, `SARSEN_NAME` in the environment, `--na-me` as a flag.
    pub name: &'static str,
    /// The allowed values, as the end of a sentence that begins with "use".
    pub allowed: &'static str,
    /// Whether its value is masked where it is shown.
    pub secret: bool,
}

const fn key(name: &'static str, allowed: &'static str) -> Definition {
    Definition { name, allowed, secret: false }
}

/// All of them, in the order in which they are shown.
pub(super) const SETTINGS: [Definition; 42] = [
    key("listen", "addresses with a port, like 127.0.0.1:7070 or [::]:7070"),
    key("issuer", "an address without a path and without a slash at the end, like https://id.example.com"),
    // May hold a password.
    Definition { secret: true, ..key("database", Database::FORMS) },
    Definition {
        secret: true,
        ..key("replicas", "a list of replicas of a PostgreSQL database, like [\"postgres://…\"]")
    },
    Definition {
        secret: true,
        ..key("database_direct", "postgres://… of the server, without its connection pooler")
    },
    key("wake_ups", "true or false"),
    key("secret_key_file", "the path of a file"),
    key("backup_directory", "the path of a folder"),
    key("backup_every", "a time from 1m to 400d, like 30m, 6h or 1d"),
    key("backup_keep", "a whole number from 1 to 10000"),
    key("tls_certificate", "the path of a file"),
    key("tls_key", "the path of a file"),
    key("acme_domains", "names of hosts without a port, like id.example.com"),
    key("acme_email", "an e-mail address"),
    key("acme_directory", "an address of https, like https://acme-v02.api.letsencrypt.org/directory"),
    key("acme_cache", "the path of a folder"),
    key("trusted_proxies", "addresses or networks of proxies, like 10.0.0.7 or 10.0.0.0/8"),
    key("client_address_header", "x-forwarded-for or forwarded"),
    key("allowed_hosts", "names of hosts without a port, like sarsen.internal"),
    Definition {
        secret: true,
        ..key("metrics_token", "at least 16 characters of A-Z, a-z, 0-9 and -._~+/=")
    },
    // Somebody may write a password into it.
    Definition {
        secret: true,
        ..key("smtp_url", "smtps://user@host:465 or smtp://user@host:587, without a password")
    },
    key("smtp_password_file", "the path of a file"),
    key("mail_from", "an address, or a name and an address, like Example <mail@example.com>"),
    key("mail_dkim_selector", "letters, digits, dots and hyphens, like mail2026"),
    key(
        "outgoing_allow",
        "addresses, networks or ports of addresses, like 10.0.0.7, 10.0.0.0/8 or 127.0.0.1:25",
    ),
    // May hold a password.
    Definition {
        secret: true,
        ..key("outgoing_proxy", "http://host:port or http://user:password@host:port")
    },
    key("dns_servers", "addresses, with a port if it is not 53, like 10.0.0.53 or 127.0.0.1:5353"),
    key("sign_up", "true or false"),
    key("sign_ups_per_network_max", "a whole number from 1 to 1000000"),
    key("unproven_mails_per_day_max", "a whole number from 0 to 1000000"),
    key("hash_threads", "a whole number from 1 to 1024"),
    key("cache_memory", "a size from 16M to 1024G, like 256M or 2G"),
    key("session_days", "a whole number from 1 to 400"),
    key("connections_max", "a whole number from 1 to 1000000"),
    key("connections_per_network_max", "a whole number from 1 to 1000000"),
    key("streams_max", "a whole number from 1 to 1000000"),
    key("streams_per_caller_max", "a whole number from 1 to 1000000"),
    key("languages", "tags of languages, the default first, like [\"en\", \"de\"]"),
    key("languages_directory", "the path of a folder"),
    key("request_log", "true or false"),
    key("log", "a filter, like info or warn,server=debug"),
    key("log_format", "text or json"),
];

/// The setting of this name.
pub(super) fn find(name: &str) -> Option<&'static Definition> {
    SETTINGS.iter().find(|key| key.name == name)
}

/// All names, for messages.
pub(super) fn names() -> String {
    SETTINGS.map(|key| key.name).join(", ")
}

/// The setting with the most similar name, if one is similar.
pub(super) fn nearest(wrong: &str) -> Option<&'static str> {
    text::nearest(wrong, SETTINGS.iter().map(|key| key.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_finds_the_setting() {
        assert_eq!(nearest("listn"), Some("listen"));
        assert_eq!(nearest("trusted_proxy"), Some("trusted_proxies"));
        assert_eq!(nearest("colour"), None);
    }
}
