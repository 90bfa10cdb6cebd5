//! `--print-config`: the effective settings as TOML with their sources. Secrets are masked.

use super::{Config, SECRET_KEY_VARIABLE, SMTP_PASSWORD_VARIABLE, Setting, Source, value};
use std::fmt::Write as _;

const MASK: &str = "********";

/// The text.
pub fn print(config: &Config) -> String {
    let mut lines = Lines::default();
    let quoted = |text: &dyn ToString| format!("{:?}", text.to_string());
    let list = |items: Vec<String>| format!("[{}]", items.join(", "));
    let listen = config.listen.value.iter().map(|address| quoted(address)).collect();
    lines.add("listen", &config.listen, Some(list(listen)));
    lines.add("issuer", &config.issuer, Some(quoted(&config.issuer_at(&config.listen.value))));
    lines.add("database", &config.database, Some(quoted(&config.database.value)));
    let replicas = config.replicas.value.iter().map(|replica| quoted(replica)).collect();
    lines.add("replicas", &config.replicas, Some(list(replicas)));
    let direct = config.database_direct.value.as_ref().map(|direct| quoted(direct));
    lines.add("database_direct", &config.database_direct, direct);
    lines.add("wake_ups", &config.wake_ups, Some(config.wake_ups.value.to_string()));
    match &config.secret_key {
        None => lines.add(
            "secret_key_file",
            &config.secret_key_file,
            Some(quoted(&config.secret_key_file.value.display())),
        ),
        Some(_) => lines.note(&format!("secret_key = {MASK}  (environment {SECRET_KEY_VARIABLE})")),
    }
    let backups = config.backup_directory.value.as_ref().map(|folder| quoted(&folder.display()));
    lines.add("backup_directory", &config.backup_directory, backups);
    let every = value::duration_text(config.backup_every.value);
    lines.add("backup_every", &config.backup_every, Some(quoted(&every)));
    lines.add("backup_keep", &config.backup_keep, Some(config.backup_keep.value.to_string()));
    for (name, setting) in [("tls_certificate", &config.tls_certificate), ("tls_key", &config.tls_key)] {
        lines.add(name, setting, setting.value.as_ref().map(|path| quoted(&path.display())));
    }
    let names = config.acme_domains.value.iter().map(|name| quoted(name)).collect();
    lines.add("acme_domains", &config.acme_domains, Some(list(names)));
    let address = config.acme_email.value.as_ref().map(|address| quoted(address));
    lines.add("acme_email", &config.acme_email, address);
    lines.add("acme_directory", &config.acme_directory, Some(quoted(&config.acme_directory.value)));
    let folder = quoted(&config.acme_cache.value.display());
    lines.add("acme_cache", &config.acme_cache, Some(folder));
    let proxies = config.trusted_proxies.value.iter().map(|address| quoted(address)).collect();
    lines.add("trusted_proxies", &config.trusted_proxies, Some(list(proxies)));
    let header = config.client_address_header.value.text().to_ascii_lowercase();
    lines.add("client_address_header", &config.client_address_header, Some(quoted(&header)));
    let hosts = config.allowed_hosts.value.iter().map(|host| quoted(host)).collect();
    lines.add("allowed_hosts", &config.allowed_hosts, Some(list(hosts)));
    lines.add(
        "metrics_token",
        &config.metrics_token,
        config.metrics_token.value.as_ref().map(|_| quoted(&MASK)),
    );
    let relay = config.smtp_url.value.as_ref().map(|relay| quoted(relay));
    lines.add("smtp_url", &config.smtp_url, relay);
    match &config.smtp_password {
        None => {
            let file = config.smtp_password_file.value.as_ref().map(|path| quoted(&path.display()));
            lines.add("smtp_password_file", &config.smtp_password_file, file);
        }
        Some(_) => lines.note(&format!("smtp_password = {MASK}  (environment {SMTP_PASSWORD_VARIABLE})")),
    }
    let sender = config.mail_from.value.as_ref().map(|sender| quoted(sender));
    lines.add("mail_from", &config.mail_from, sender);
    let selector = config.mail_dkim_selector.value.as_ref().map(|selector| quoted(selector));
    lines.add("mail_dkim_selector", &config.mail_dkim_selector, selector);
    let allowed = config.outgoing_allow.value.iter().map(|allowed| quoted(allowed)).collect();
    lines.add("outgoing_allow", &config.outgoing_allow, Some(list(allowed)));
    let proxy = config.outgoing_proxy.value.as_ref().map(|proxy| quoted(proxy));
    lines.add("outgoing_proxy", &config.outgoing_proxy, proxy);
    let servers = config.dns_servers.value.iter().map(|server| quoted(server)).collect();
    lines.add("dns_servers", &config.dns_servers, Some(list(servers)));
    lines.add("sign_up", &config.sign_up, Some(config.sign_up.value.to_string()));
    let sign_ups = &config.sign_ups_per_network_max;
    lines.add("sign_ups_per_network_max", sign_ups, Some(sign_ups.value.to_string()));
    let unproven = &config.unproven_mails_per_day_max;
    lines.add("unproven_mails_per_day_max", unproven, Some(unproven.value.to_string()));
    lines.add(
        "hash_threads",
        &config.hash_threads,
        config.hash_threads.value.map(|threads| threads.to_string()),
    );
    let memory = value::size_text(config.cache_memory.value);
    lines.add("cache_memory", &config.cache_memory, Some(quoted(&memory)));
    lines.add("session_days", &config.session_days, Some(config.session_days.value.to_string()));
    for (name, setting) in [
        ("connections_max", &config.connections_max),
        ("connections_per_network_max", &config.connections_per_network_max),
        ("streams_max", &config.streams_max),
        ("streams_per_caller_max", &config.streams_per_caller_max),
    ] {
        lines.add(name, setting, Some(setting.value.to_string()));
    }
    let languages = config.languages.value.iter().map(|tag| quoted(tag)).collect();
    lines.add("languages", &config.languages, Some(list(languages)));
    let folder = config.languages_directory.value.as_ref().map(|folder| quoted(&folder.display()));
    lines.add("languages_directory", &config.languages_directory, folder);
    lines.add("request_log", &config.request_log, Some(config.request_log.value.to_string()));
    lines.add("log", &config.log, Some(quoted(&config.log.value)));
    lines.add("log_format", &config.log_format, Some(quoted(&config.log_format.value)));
    lines.finish()
}

/// Lines of settings, and the sources behind them.
#[derive(Default)]
struct Lines(Vec<(String, String)>);

impl Lines {
    /// A setting. Without a value it is a comment.
    fn add<T>(&mut self, name: &str, setting: &Setting<T>, value: Option<String>) {
        let source = match &setting.source {
            Source::Default => "default".to_owned(),
            source => source.to_string(),
        };
        let text = value.map_or_else(|| format!("# {name} is not set"), |value| format!("{name} = {value}"));
        self.0.push((text, source));
    }

    /// A line that is not a setting of the file.
    fn note(&mut self, text: &str) {
        self.0.push((format!("# {text}"), String::new()));
    }

    fn finish(self) -> String {
        let width = self.0.iter().map(|(text, _)| text.chars().count()).max().unwrap_or_default();
        let mut all = String::new();
        for (text, source) in &self.0 {
            let line = if source.is_empty() { text.clone() } else { format!("{text:width$}  # {source}") };
            // Writing to a String cannot fail.
            let _ = writeln!(all, "{line}");
        }
        all
    }
}
