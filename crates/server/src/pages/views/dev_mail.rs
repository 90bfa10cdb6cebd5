//! The mails of a server that sends none: the list, and one of them.

use maud::{Markup, html};
use texts::Language;

use super::{SARSEN, parts::address, wide_shell};

/// A mail in the list.
pub struct MailLine<'a> {
    pub href: String,
    pub to: &'a str,
    pub subject: &'a str,
    pub at: String,
}

/// The list, newest first.
pub struct DevMails<'a> {
    pub mails: &'a [MailLine<'a>],
}

impl DevMails<'_> {
    pub fn markup(&self, language: &Language) -> Markup {
        let body = html! {
            div.stack {
                h1 { "Mails" }
                p.lead { "This server keeps the mails that it would send, until it stops." }
                @if self.mails.is_empty() {
                    p { "There are none yet." }
                } @else {
                    ul.rows {
                        @for mail in self.mails {
                            li {
                                p { a href=(mail.href) { bdi { (mail.subject) } } }
                                p.small { "To " (address(mail.to)) " · " (mail.at) }
                            }
                        }
                    }
                }
            }
        };
        wide_shell(language, "Mails", SARSEN, body)
    }
}

/// One mail.
pub struct DevMail<'a> {
    pub to: &'a str,
    pub from: &'a str,
    pub reply_to: Option<&'a str>,
    pub subject: &'a str,
    pub at: &'a str,
    pub text: &'a str,
    /// This server's own address: links to it are links here too.
    pub server: &'a str,
    /// The same mail as HTML, if it has that.
    pub html_href: Option<&'a str>,
    pub list_href: &'a str,
}

impl DevMail<'_> {
    pub fn markup(&self, language: &Language) -> Markup {
        let body = html! {
            div.stack {
                h1 { bdi { (self.subject) } }
                dl.facts {
                    dt { "From" } dd { bdi { (self.from) } }
                    dt { "To" } dd { (address(self.to)) }
                    @if let Some(reply_to) = self.reply_to { dt { "Reply to" } dd { (address(reply_to)) } }
                    dt { "Sent" } dd { (self.at) }
                }
                pre { (self.text_with_links()) }
                p.row {
                    @if let Some(href) = self.html_href { a href=(href) { "The same as HTML" } }
                    a href=(self.list_href) { "All mails" }
                }
            }
        };
        wide_shell(language, self.subject, SARSEN, body)
    }

    /// Other addresses stay text: nobody has checked where they lead.
    fn text_with_links(&self) -> Markup {
        let own = format!("{}/", self.server);
        html! {
            @for line in self.text.split_inclusive(char::is_whitespace) {
                @let word = line.trim_end();
                @if word.starts_with(&own) { a href=(word) { (word) } (line[word.len()..]) } @else { (line) }
            }
        }
    }
}
