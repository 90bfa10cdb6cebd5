//! What the domain of a sender publishes for those who receive mails from it: SPF (RFC 7208), DMARC (RFC 9989), and the DKIM key of
//! the relay (RFC 6376). Whether the relay's own addresses are in the SPF record only the relay's provider knows.

use crate::commands::findings::{Finding, fail, ok, warn};
use server::outgoing::{Records, Sender, TextRecords};

/// Looks them up. A sender of this machine has no domain that others ask.
pub(in crate::commands) async fn check(
    names: &TextRecords,
    sender: &Sender,
    selector: Option<&str>,
) -> Vec<Finding> {
    let domain = sender.domain();
    if !domain.contains('.') {
        return vec![warn(
            "spf",
            format!("mail_from is of {domain}, which is no public domain; receivers refuse it"),
        )];
    }
    // At the same time, because a DNS server that is away is waited for.
    let (senders, policies, key) = tokio::join!(names.of(domain), policies(names, domain), async {
        let name = format!("{}._domainkey.{domain}", selector?);
        Some(dkim(&name, &names.of(&name).await))
    });
    let found = [spf(domain, &senders), dmarc(domain, &policies)];
    found.into_iter().chain(key).collect()
}

/// The records with a policy of the domain, or else of the nearest domain above it that has some.
async fn policies(names: &TextRecords, domain: &str) -> Records {
    let mut at = domain;
    loop {
        let found = with_tag(names.of(&format!("_dmarc.{at}")).await, "v=dmarc1");
        match at.split_once('.') {
            Some((_, above)) if found == Records::Are(Vec::new()) && above.contains('.') => at = above,
            _ => return found,
        }
    }
}

/// Those that begin with a tag.
fn with_tag(records: Records, tag: &str) -> Records {
    match records {
        Records::Are(texts) => {
            let has_tag = |text: &String| {
                let first = text.split([' ', ';']).next().unwrap_or_default();
                first.eq_ignore_ascii_case(tag)
            };
            Records::Are(texts.into_iter().filter(has_tag).collect())
        }
        unknown => unknown,
    }
}

fn spf(domain: &str, records: &Records) -> Finding {
    const CHECK: &str = "spf";
    match with_tag(records.clone(), "v=spf1") {
        Records::Unknown(why) => unknown(CHECK, domain, &why),
        Records::Are(found) => match found.as_slice() {
            [] => warn(
                CHECK,
                format!(
                    "{domain} has no SPF record, so receivers may refuse mails; publish the one that the relay's provider names"
                ),
            ),
            [only] if only.split_whitespace().any(|word| word == "+all" || word == "all") => {
                warn(CHECK, format!("{domain} lets everybody send ({only}); end it with -all or ~all"))
            }
            [only] => ok(CHECK, format!("{domain} has {only}; check that it names the relay")),
            several => warn(
                CHECK,
                format!(
                    "{domain} has {} SPF records, and receivers ignore all of them; publish one",
                    several.len()
                ),
            ),
        },
    }
}

fn dmarc(domain: &str, records: &Records) -> Finding {
    const CHECK: &str = "dmarc";
    match records {
        Records::Unknown(why) => unknown(CHECK, domain, why),
        Records::Are(found) => match found.as_slice() {
            [] => warn(
                CHECK,
                format!(
                    "{domain} has no DMARC record, which large receivers ask for; publish v=DMARC1; p=none at _dmarc.{domain} to begin with"
                ),
            ),
            [only] => ok(CHECK, format!("{domain} has {only}")),
            several => warn(
                CHECK,
                format!(
                    "{domain} has {} DMARC records, and receivers ignore all of them; publish one",
                    several.len()
                ),
            ),
        },
    }
}

fn dkim(name: &str, records: &Records) -> Finding {
    const CHECK: &str = "dkim";
    let texts = match records {
        Records::Unknown(why) => return unknown(CHECK, name, why),
        Records::Are(texts) => texts,
    };
    let key = |text: &String| {
        let tags = text.split(';').filter_map(|tag| tag.split_once('='));
        tags.into_iter()
            .find(|(tag, _)| tag.trim() == "p")
            .map(|(_, key)| key.split_whitespace().collect::<String>())
    };
    match texts.iter().filter_map(key).next() {
        None => fail(
            CHECK,
            format!("{name} has no key; publish the one of the relay, or correct mail_dkim_selector"),
        ),
        Some(key) if key.is_empty() => fail(
            CHECK,
            format!(
                "the key at {name} is withdrawn; publish the relay's present one, or correct mail_dkim_selector"
            ),
        ),
        Some(_) => ok(CHECK, format!("{name} has a key; check that it is the relay's")),
    }
}

fn unknown(check: &'static str, name: &str, why: &str) -> Finding {
    warn(
        check,
        format!("{name} cannot be looked up ({why}); check the DNS servers of this machine, or dns_servers"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn are(texts: &[&str]) -> Records {
        Records::Are(texts.iter().map(|text| (*text).to_owned()).collect())
    }

    #[test]
    fn records_are_judged_as_receivers_judge_them() {
        let spf = |texts: &[&str]| super::spf("example.com", &are(texts));
        let dmarc = |texts: &[&str]| super::dmarc("example.com", &with_tag(are(texts), "v=dmarc1"));
        let dkim = |texts: &[&str]| super::dkim("s1._domainkey.example.com", &are(texts));
        for (finding, state, expected) in [
            (spf(&[]), "warn", "has no SPF record"),
            (spf(&["v=spf10 -all", "google-site-verification=1"]), "warn", "has no SPF record"),
            (spf(&["v=spf1 include:_spf.relay.example -all", "other"]), "ok", "has v=spf1 include"),
            (spf(&["v=spf1 +all"]), "warn", "lets everybody send"),
            (spf(&["v=spf1 -all", "v=spf1 ~all"]), "warn", "has 2 SPF records"),
            (dmarc(&[]), "warn", "_dmarc.example.com"),
            (dmarc(&["v=DMARC1; p=reject"]), "ok", "p=reject"),
            (dmarc(&["v=DMARC1;p=none", "v=DMARC1; p=reject"]), "warn", "2 DMARC records"),
            (dkim(&[]), "fail", "has no key"),
            (dkim(&["v=DKIM1; k=rsa; p="]), "fail", "withdrawn"),
            (dkim(&["v=DKIM1; k=ed25519; p=MCow BQYDK2Vw"]), "ok", "has a key"),
        ] {
            assert_eq!(finding.state.word(), state, "{}", finding.message);
            assert!(finding.message.contains(expected), "{}", finding.message);
        }
        let away = super::spf("example.com", &Records::Unknown("timed out".to_owned()));
        assert!(away.message.contains("timed out") && away.state.word() == "warn", "{}", away.message);
    }
}
