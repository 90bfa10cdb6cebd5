//! Why a mail was not taken.
//!
//! What a caller may log is in words of our own, with the codes of the reply: [`Refused`] as text. What the relay wrote may repeat the
//! address or parts of the mail, so it is apart, for the person at the terminal who asked ([`Refused::said`]).

use std::fmt;

/// The letters of the relay's text that are kept.
const SAID_MAX: usize = 300;

/// How far a mail came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It cannot be sent at all: an address or a field of it is not valid.
    Message,
    /// The name of the relay.
    Resolve,
    /// The connection to it.
    Connect,
    /// The encryption.
    Tls,
    /// The first answers of the relay.
    Greeting,
    /// User and password.
    Login,
    /// The sender.
    MailFrom,
    /// The recipient.
    RcptTo,
    /// The mail itself.
    Data,
}

/// Why a mail was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    step: Step,
    code: Option<u16>,
    status: Option<String>,
    why: String,
    said: Option<String>,
}

impl Refused {
    /// At this step, without an answer of the relay.
    pub(crate) fn at(step: Step, why: impl fmt::Display) -> Refused {
        Refused { step, code: None, status: None, why: why.to_string(), said: None }
    }

    /// By an answer of the relay with this text.
    pub(crate) fn answered(step: Step, code: u16, text: &str) -> Refused {
        let said = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
        Refused {
            said: Some(said.take(SAID_MAX).collect()),
            ..Refused::new(step, Some(code), status_in(text, code))
        }
    }

    /// By an answer with this code and enhanced status, as a relay would.
    pub fn new(step: Step, code: Option<u16>, status: Option<&str>) -> Refused {
        let what = match step {
            Step::Message => "the mail is not valid",
            Step::Resolve => "the relay cannot be resolved",
            Step::Connect => "the relay cannot be reached",
            Step::Tls => "the relay refuses encryption",
            Step::Greeting => "the relay refuses the connection",
            Step::Login => "the relay refuses user and password",
            Step::MailFrom => "the relay refuses the sender",
            Step::RcptTo => "the relay refuses the recipient",
            Step::Data => "the relay refuses the mail",
        };
        Refused { step, code, status: status.map(str::to_owned), why: what.to_owned(), said: None }
    }

    /// Whether it is no use to try again. What is wrong at the relay or with this server's settings can be mended; a recipient or a
    /// mail that is refused for good cannot.
    pub fn is_final(&self) -> bool {
        match self.step {
            Step::Message => true,
            Step::RcptTo | Step::Data => self.code.is_some_and(|code| code >= 500),
            _ => false,
        }
    }

    /// How far it came.
    pub fn step(&self) -> Step {
        self.step
    }

    /// Whether the recipient was refused.
    pub fn at_rcpt(&self) -> bool {
        self.step == Step::RcptTo
    }

    /// The code of the reply, such as 550.
    pub fn code(&self) -> Option<u16> {
        self.code
    }

    /// The enhanced status of the reply (RFC 3463), such as `5.1.1`.
    pub fn status(&self) -> Option<&str> {
        self.status.as_deref()
    }

    /// What the relay wrote. It may repeat what it was sent, so it is not for logs.
    pub fn said(&self) -> Option<&str> {
        self.said.as_deref()
    }

    /// A stable word for it.
    pub fn word(&self) -> &'static str {
        match self.step {
            Step::Message => "mail_invalid",
            Step::Resolve => "relay_unresolved",
            Step::Connect => "relay_unreachable",
            Step::Tls => "relay_not_encrypted",
            Step::Greeting => "relay_refused",
            Step::Login => "relay_login_refused",
            Step::MailFrom => "sender_refused",
            Step::RcptTo => "recipient_refused",
            Step::Data => "mail_refused",
        }
    }
}

/// In words of our own: no address of a person, no text of the relay, no secret.
impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, &self.status) {
            (Some(code), Some(status)) => write!(out, "{} ({code} {status})", self.why),
            (Some(code), None) => write!(out, "{} ({code})", self.why),
            (None, _) => out.write_str(&self.why),
        }
    }
}

/// The enhanced status at the beginning of a text, if it is of the same class as the code.
fn status_in(text: &str, code: u16) -> Option<&str> {
    let status = text.split_whitespace().next()?;
    let mut parts = status.split('.');
    let (class, rest) = (parts.next()?, [parts.next()?, parts.next()?]);
    let is_number =
        |part: &&str| (1..=3).contains(&part.len()) && part.bytes().all(|digit| digit.is_ascii_digit());
    let is_status = parts.next().is_none() && class == (code / 100).to_string() && rest.iter().all(is_number);
    is_status.then_some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_enhanced_status_stands_at_the_beginning_and_is_of_the_class_of_the_code() {
        for (text, code, status) in [
            ("5.1.1 no such user", 550, Some("5.1.1")),
            ("5.1.10 null MX", 556, Some("5.1.10")),
            ("4.2.2 over quota", 452, Some("4.2.2")),
            ("no such user 5.1.1", 550, None),
            ("5.1.1 no such user", 450, None),
            ("5.1 no", 550, None),
            ("5.1.1.1 no", 550, None),
            ("5.1.x no", 550, None),
            ("5.1.1000 no", 550, None),
            ("", 550, None),
        ] {
            assert_eq!(Refused::answered(Step::RcptTo, code, text).status(), status, "{text}");
        }
    }

    #[test]
    fn only_a_recipient_or_a_mail_is_refused_for_good() {
        let is_final = |step, code| Refused::new(step, Some(code), None).is_final();
        assert!(is_final(Step::RcptTo, 550) && is_final(Step::Data, 554));
        assert!(!is_final(Step::RcptTo, 450) && !is_final(Step::Data, 451));
        assert!(
            !is_final(Step::Login, 535) && !is_final(Step::MailFrom, 550) && !is_final(Step::Greeting, 554)
        );
        assert!(
            !Refused::at(Step::Data, "no answer").is_final() && Refused::at(Step::Message, "bad").is_final()
        );
    }

    #[test]
    fn what_is_logged_has_no_text_of_the_relay() {
        let refused = Refused::answered(Step::RcptTo, 550, "5.1.1 <ada@example.com>\r\nunknown");
        assert_eq!(refused.to_string(), "the relay refuses the recipient (550 5.1.1)");
        assert_eq!(refused.said(), Some("5.1.1 <ada@example.com>  unknown"));
    }
}
