//! The result of a request. Causes of failures are as fine as the wire allows, and never merged.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::time::Duration;

use crate::http::{Malformed, Response};
use crate::json_scan::string_field;

/// The pause after a refusal without a number of seconds.
const RETRY_AFTER_DEFAULT: Duration = Duration::from_secs(1);
/// An error code longer than this is cut, in bytes.
const CODE_BYTES_MAX: usize = 48;

/// The requests of a workload, as rows of its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestKind {
    Floor,
    Subscription,
    User,
    DeviceCode,
    DevicePoll,
    ApprovalPage,
    Approval,
    Redemption,
    /// W2: a sign-in with a password.
    SignIn,
    /// The mix of `auth`: the forms, a registration, an organization and its approval, the audit trail.
    SignInPage,
    SignUpPage,
    SignUp,
    NewOrganization,
    Review,
    Audit,
    /// W3: an insert without a body.
    Insert,
    /// W5: the answers of a student so far.
    Answers,
    /// W4, in the order of its mix.
    GetCounter,
    ListCounters,
    Increment,
    /// A refresh of a token of the bench: counted, but outside the mix.
    Refresh,
}

impl RequestKind {
    pub const ALL: [RequestKind; 21] = [
        RequestKind::Floor,
        RequestKind::Subscription,
        RequestKind::User,
        RequestKind::DeviceCode,
        RequestKind::DevicePoll,
        RequestKind::ApprovalPage,
        RequestKind::Approval,
        RequestKind::Redemption,
        RequestKind::SignIn,
        RequestKind::SignInPage,
        RequestKind::SignUpPage,
        RequestKind::SignUp,
        RequestKind::NewOrganization,
        RequestKind::Review,
        RequestKind::Audit,
        RequestKind::Insert,
        RequestKind::Answers,
        RequestKind::GetCounter,
        RequestKind::ListCounters,
        RequestKind::Increment,
        RequestKind::Refresh,
    ];

    pub fn label(self) -> &'static str {
        match self {
            RequestKind::Floor => "GET /",
            RequestKind::Subscription => "GET /api/subscription",
            RequestKind::User => "GET /api/user",
            RequestKind::DeviceCode => "POST /auth/device/code",
            RequestKind::DevicePoll => "POST /auth/token (pending)",
            RequestKind::ApprovalPage => "GET /activate (approval)",
            RequestKind::Approval => "POST approval",
            RequestKind::Redemption => "POST /auth/token (redeem)",
            RequestKind::SignIn => "POST /o/{slug}/login",
            RequestKind::SignInPage => "GET /o/{slug}/login",
            RequestKind::SignUpPage => "GET /o/{slug}/signup",
            RequestKind::SignUp => "POST /o/{slug}/signup",
            RequestKind::NewOrganization => "POST /api/organizations",
            RequestKind::Review => "POST /api/platform/organizations/{org}/review",
            RequestKind::Audit => "GET /api/organizations/{org}/audit",
            RequestKind::Insert => "POST /requests",
            RequestKind::Answers => "PATCH /attempts/{id}",
            RequestKind::GetCounter => "get_counter",
            RequestKind::ListCounters => "list_counters",
            RequestKind::Increment => "increment",
            RequestKind::Refresh => "POST /auth/token (refresh)",
        }
    }

    /// Whether the server hashes a password for it.
    pub fn hashes(self) -> bool {
        matches!(self, RequestKind::SignIn | RequestKind::SignUp)
    }

    /// Whether it is part of the measured mix.
    pub fn is_measured(self) -> bool {
        self != RequestKind::Refresh
    }
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The connection failed, with the reason of the operating system.
    Connect(&'static str),
    ConnectTimeout,
    /// The server reset the connection during a request.
    Reset,
    /// The server closed the connection without a complete answer.
    Closed,
    /// Another error of the socket.
    Socket(&'static str),
    /// No complete answer within the time limit.
    Timeout,
    /// Open loop: no connection was free within the time limit, so it was not sent.
    NeverSent,
    /// Bytes that are not HTTP/1.1.
    Malformed(Malformed),
    /// Unexpected bytes after an answer.
    UnexpectedBytes,
    /// An unexpected status; the second part is `error` (OAuth) or `code` (problem document) of its body, or empty.
    Status(u16, String),
    /// The expected status with a wrong body.
    BadBody(&'static str),
}

impl Cause {
    pub(crate) fn connect(error: &io::Error) -> Cause {
        Cause::Connect(word(error))
    }

    pub(crate) fn transport(error: &io::Error) -> Cause {
        match error.kind() {
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::NotConnected => Cause::Reset,
            _ => Cause::Socket(word(error)),
        }
    }

    /// The cause of an answer with an unexpected status.
    pub fn status(response: &Response<'_>) -> Cause {
        let code = string_field(response.body, "error").or_else(|| string_field(response.body, "code"));
        let code = code.map_or(Cow::Borrowed(""), String::from_utf8_lossy);
        let code = code.chars().filter(char::is_ascii_graphic).take(CODE_BYTES_MAX).collect();
        Cause::Status(response.status, code)
    }
}

fn word(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "refused",
        io::ErrorKind::ConnectionReset => "reset",
        io::ErrorKind::ConnectionAborted => "aborted",
        io::ErrorKind::AddrNotAvailable | io::ErrorKind::AddrInUse => "out of ports",
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => "unreachable",
        io::ErrorKind::TimedOut => "timed out",
        _ => match error.raw_os_error() {
            Some(code) if is_out_of_descriptors(code) => "out of file descriptors",
            _ => "other",
        },
    }
}

fn is_out_of_descriptors(code: i32) -> bool {
    code == rustix::io::Errno::MFILE.raw_os_error() || code == rustix::io::Errno::NFILE.raw_os_error()
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Connect(word) => write!(f, "connect: {word}"),
            Cause::ConnectTimeout => f.write_str("connect: timeout"),
            Cause::Reset => f.write_str("reset"),
            Cause::Closed => f.write_str("closed without an answer"),
            Cause::Socket(word) => write!(f, "socket: {word}"),
            Cause::Timeout => f.write_str("timeout"),
            Cause::NeverSent => f.write_str("not sent (no free connection)"),
            Cause::Malformed(malformed) => write!(f, "not HTTP: {}", malformed.0),
            Cause::UnexpectedBytes => f.write_str("unexpected bytes"),
            Cause::Status(status, code) if code.is_empty() => write!(f, "{status}"),
            Cause::Status(status, code) => write!(f, "{status} {code}"),
            Cause::BadBody(what) => write!(f, "bad body: {what}"),
        }
    }
}

/// The verdict on an answer, or on its absence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Accepted,
    /// 429 or 503 with `Retry-After`, which is `after`.
    Refused {
        after: Duration,
        cause: Cause,
    },
    Failed(Cause),
}

impl Verdict {
    /// The verdict by status: accepted if it is `expected`, refused, or failed.
    pub fn by_status(response: &Response<'_>, expected: u16) -> Verdict {
        Verdict::by_statuses(response, &[expected])
    }

    /// The same with several expected ones.
    pub(crate) fn by_statuses(response: &Response<'_>, expected: &[u16]) -> Verdict {
        if expected.contains(&response.status) {
            return Verdict::Accepted;
        }
        let cause = Cause::status(response);
        match (response.status, has_retry_after(response)) {
            (429 | 503, true) => {
                let after = response.retry_after_s.map_or(RETRY_AFTER_DEFAULT, Duration::from_secs);
                Verdict::Refused { after, cause }
            }
            _ => Verdict::Failed(cause),
        }
    }
}

/// `Retry-After` may be a date, of which the reader keeps no number.
fn has_retry_after(response: &Response<'_>) -> bool {
    response.retry_after_s.is_some()
        || response.headers().iter().any(|(name, _)| name.eq_ignore_ascii_case("retry-after"))
}

impl Cause {
    /// Whether the server answered.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(self, Cause::Status(..) | Cause::BadBody(_))
    }

    /// Whether the client waited until its time limit.
    pub(crate) fn is_wait(&self) -> bool {
        matches!(self, Cause::Timeout | Cause::ConnectTimeout | Cause::NeverSent)
    }
}
