//! Values as they are written in the file, the environment or a flag, and how they are read. `None` means that a value is
//! not allowed.

use super::database::Database;
use crate::logs;
use server::outgoing::{Allowed, Proxy, RelayAddress, Sender};
use server::{AddressHeader, Cidr, RequestLogFormat, is_name, tag_of};
use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;
use ureq::http::Uri;

/// A value before it is parsed.
#[derive(Clone, Debug)]
pub(super) enum RawValue {
    /// Text; the environment and flags have no other kind.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
    /// A whole number.
    Number(i64),
    /// True or false.
    Flag(bool),
    /// A kind of TOML value that no setting has.
    Other(&'static str),
}

/// As it was written, for messages.
impl fmt::Display for RawValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RawValue::Text(text) => write!(out, "{text:?}"),
            RawValue::List(items) => write!(out, "{items:?}"),
            RawValue::Number(number) => write!(out, "{number}"),
            RawValue::Flag(flag) => write!(out, "{flag}"),
            RawValue::Other(kind) => write!(out, "({kind})"),
        }
    }
}

/// The format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines of text.
    Text,
    /// A JSON object per line.
    Json,
}

impl LogFormat {
    /// The same for the request log.
    pub fn of_requests(self) -> RequestLogFormat {
        match self {
            LogFormat::Text => RequestLogFormat::Text,
            LogFormat::Json => RequestLogFormat::Json,
        }
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        })
    }
}

pub(super) fn text(raw: &RawValue) -> Option<&str> {
    match raw {
        RawValue::Text(text) => Some(text),
        _ => None,
    }
}

/// A list, or a text with commas between the items.
fn items(raw: &RawValue) -> Option<Vec<&str>> {
    match raw {
        RawValue::List(items) => Some(items.iter().map(|item| item.trim()).collect()),
        RawValue::Text(text) => Some(text.split(',').map(str::trim).collect()),
        _ => None,
    }
}

pub(super) fn addresses(raw: &RawValue) -> Option<Vec<SocketAddr>> {
    let parsed = items(raw)?.into_iter().map(|item| item.parse().ok()).collect::<Option<Vec<_>>>();
    parsed.filter(|addresses| !addresses.is_empty())
}

pub(super) fn networks(raw: &RawValue) -> Option<Vec<Cidr>> {
    items(raw)?.into_iter().map(|item| item.parse().ok()).collect()
}

/// Names of hosts, without ports.
pub(super) fn hosts(raw: &RawValue) -> Option<Vec<String>> {
    items(raw)?.into_iter().map(|item| Some(item).filter(|name| is_name(name)).map(str::to_owned)).collect()
}

/// Tags of languages, each once, as they are written: `pt-BR` for `pt-br`.
pub(super) fn languages(raw: &RawValue) -> Option<Vec<String>> {
    let tags = items(raw)?.into_iter().map(tag_of).collect::<Option<Vec<_>>>()?;
    let is_new = |(index, tag): (usize, &String)| !tags[..index].contains(tag);
    (!tags.is_empty() && tags.iter().enumerate().all(is_new)).then_some(tags)
}

/// An e-mail address as far as an ACME server needs one.
pub(super) fn email(raw: &RawValue) -> Option<String> {
    let (name, host) = text(raw)?.split_once('@')?;
    let good =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'@');
    (good(name) && good(host)).then(|| format!("{name}@{host}"))
}

/// An address of `https`.
pub(super) fn https(raw: &RawValue) -> Option<String> {
    let uri: Uri = text(raw)?.parse().ok()?;
    let good = uri.scheme_str() == Some("https") && uri.host().is_some_and(|host| !host.is_empty());
    good.then(|| uri.to_string())
}

pub(super) fn path(raw: &RawValue) -> Option<PathBuf> {
    text(raw).filter(|path| !path.is_empty()).map(PathBuf::from)
}

pub(super) fn database(raw: &RawValue) -> Option<Database> {
    text(raw).and_then(Database::parse)
}

pub(super) fn postgres(raw: &RawValue) -> Option<Database> {
    database(raw).filter(Database::is_postgres)
}

pub(super) fn replicas(raw: &RawValue) -> Option<Vec<Database>> {
    let each = |item: &str| Database::parse(item).filter(Database::is_postgres);
    items(raw)?.into_iter().map(each).collect()
}

/// A relay for mails.
pub(super) fn relay(raw: &RawValue) -> Option<RelayAddress> {
    text(raw)?.parse().ok()
}

/// The sender of mails.
pub(super) fn sender(raw: &RawValue) -> Option<Sender> {
    text(raw)?.parse().ok()
}

/// The name of a DKIM key: labels of a domain name.
pub(super) fn selector(raw: &RawValue) -> Option<String> {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|letter| letter.is_ascii_alphanumeric() || letter == b'-' || letter == b'_')
    };
    text(raw).filter(|text| text.len() < 128 && text.split('.').all(is_label)).map(str::to_owned)
}

/// Exceptions from the rule that only public addresses are connected to.
pub(super) fn allowed(raw: &RawValue) -> Option<Vec<Allowed>> {
    items(raw)?.into_iter().map(|item| item.parse().ok()).collect()
}

pub(super) fn proxy(raw: &RawValue) -> Option<Proxy> {
    text(raw)?.parse().ok()
}

/// Addresses, of port 53 unless they say another.
pub(super) fn dns_servers(raw: &RawValue) -> Option<Vec<SocketAddr>> {
    let each = |item: &str| {
        let place = item.parse::<SocketAddr>().ok();
        place.or_else(|| Some(SocketAddr::new(item.parse().ok()?, 53))).filter(|place| place.port() != 0)
    };
    items(raw)?.into_iter().map(each).collect()
}

/// A bearer token (RFC 6750 section 2.1).
pub(super) fn token(raw: &RawValue) -> Option<String> {
    let in_header = |letter: u8| letter.is_ascii_alphanumeric() || b"-._~+/=".contains(&letter);
    text(raw).filter(|token| token.len() >= 16 && token.bytes().all(in_header)).map(str::to_owned)
}

pub(super) fn boolean(raw: &RawValue) -> Option<bool> {
    match raw {
        RawValue::Flag(flag) => Some(*flag),
        _ => text(raw)?.parse().ok(),
    }
}

pub(super) fn number<T: TryFrom<i64>>(raw: &RawValue, allowed: RangeInclusive<i64>) -> Option<T> {
    let number = match raw {
        RawValue::Number(number) => *number,
        _ => text(raw)?.parse().ok()?,
    };
    Some(number).filter(|number| allowed.contains(number)).and_then(|number| T::try_from(number).ok())
}

/// Units of a time, largest first.
const UNITS: [(char, u64); 3] = [('d', 24 * 3600), ('h', 3600), ('m', 60)];
const DAYS_MAX: u64 = 400;

/// A time like `6h`.
pub(super) fn duration(raw: &RawValue) -> Option<Duration> {
    let text = text(raw)?;
    let (_, unit_s) = UNITS.into_iter().find(|(unit, _)| text.ends_with(*unit))?;
    let seconds = text.get(..text.len() - 1)?.parse::<u64>().ok()?.checked_mul(unit_s)?;
    let allowed = 60..=DAYS_MAX * 24 * 3600;
    allowed.contains(&seconds).then(|| Duration::from_secs(seconds))
}

/// The text of such a time.
pub(super) fn duration_text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let unit = UNITS.into_iter().find(|(_, unit_s)| seconds.is_multiple_of(*unit_s));
    unit.map_or_else(|| format!("{seconds}s"), |(unit, unit_s)| format!("{}{unit}", seconds / unit_s))
}

/// Units of a size, largest first.
const SIZE_UNITS: [(char, usize); 2] = [('G', 1 << 30), ('M', 1 << 20)];
const SIZES: RangeInclusive<usize> = 16 << 20..=1024 << 30;

pub(super) fn size(raw: &RawValue) -> Option<usize> {
    parse_size(text(raw)?)
}

/// A size like `256M`, in bytes.
pub(super) fn parse_size(text: &str) -> Option<usize> {
    let (_, unit) = SIZE_UNITS.into_iter().find(|(unit, _)| text.ends_with(*unit))?;
    let bytes = text.get(..text.len() - 1)?.parse::<usize>().ok()?.checked_mul(unit)?;
    Some(bytes).filter(|bytes| SIZES.contains(bytes))
}

/// The text of such a size.
pub(super) fn size_text(bytes: usize) -> String {
    let unit = SIZE_UNITS.into_iter().find(|(_, unit)| bytes.is_multiple_of(*unit));
    unit.map_or_else(|| bytes.to_string(), |(name, unit)| format!("{}{name}", bytes / unit))
}

pub(super) fn log_filter(raw: &RawValue) -> Option<String> {
    text(raw).filter(|filter| logs::parse_filter(filter).is_some()).map(str::to_owned)
}

pub(super) fn address_header(raw: &RawValue) -> Option<AddressHeader> {
    let known = [AddressHeader::XForwardedFor, AddressHeader::Forwarded];
    let text = text(raw)?;
    known.into_iter().find(|header| header.text().eq_ignore_ascii_case(text))
}

pub(super) fn log_format(raw: &RawValue) -> Option<LogFormat> {
    match text(raw)? {
        "text" => Some(LogFormat::Text),
        "json" => Some(LogFormat::Json),
        _ => None,
    }
}
