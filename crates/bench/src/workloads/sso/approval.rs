//! Approval of a device code inside the loop: the browser of the account opens the page and allows, the device redeems.

use browser::{Form, KnownValues, Request, Submission, forms, local_path};
use tokio::time::Instant;

use crate::http::Response;
use crate::json_scan::string_field;
use crate::load::VirtualUser;
use crate::measure::{Cause, RequestKind, Verdict};
use crate::setup::Account;

/// The most requests until the code is allowed.
const STEPS_MAX: usize = 8;

/// The next step.
enum Next {
    Go(String),
    Fill(Submission),
    Done,
}

/// Opens `page`, allows, and redeems with `poll` (the bytes of a token request).
pub(super) async fn approve(
    user: &mut VirtualUser,
    account: &Account,
    page: &str,
    user_code: &str,
    poll: &[u8],
) -> Verdict {
    let verdict = allow(user, account, page, user_code).await;
    if verdict != Verdict::Accepted {
        return verdict;
    }
    let redeemed = |response: &Response<'_>| match Verdict::by_status(response, 200) {
        Verdict::Accepted if string_field(response.body, "access_token").is_none() => {
            Verdict::Failed(Cause::BadBody("no access_token"))
        }
        verdict => verdict,
    };
    user.send(RequestKind::Redemption, poll, Instant::now(), redeemed).await
}

async fn allow(user: &mut VirtualUser, account: &Account, page: &str, user_code: &str) -> Verdict {
    let known = KnownValues { user_code, ..KnownValues::default() };
    let mut cookies = account.cookies.clone();
    let mut path = local_path("/", page);
    let mut request = account.in_browser(Request::get(&*path), &cookies);
    let mut kind = RequestKind::ApprovalPage;
    let mut decided = false;
    for step in 1..=STEPS_MAX {
        let mut next = Next::Done;
        let judge = |response: &Response<'_>| match next_step(response, decided, &known) {
            Ok(Next::Go(_) | Next::Fill(_)) if step == STEPS_MAX => {
                Verdict::Failed(Cause::BadBody("the approval does not end"))
            }
            Ok(found) => {
                next = found;
                Verdict::Accepted
            }
            Err(verdict) => verdict,
        };
        let verdict = user.send(kind, &request, Instant::now(), judge).await;
        if verdict != Verdict::Accepted {
            return verdict;
        }
        if let Some(response) = user.response() {
            cookies.take_from(response.headers());
        }
        match next {
            Next::Done => return Verdict::Accepted,
            Next::Go(location) => {
                path = local_path(&path, &location);
                request = account.in_browser(Request::get(&*path), &cookies);
                kind = RequestKind::ApprovalPage;
            }
            Next::Fill(submission) => {
                let form = Request::submit(&path, account.origin(), &submission);
                path.clone_from(&form.path);
                request = account.in_browser(form, &cookies);
                kind = RequestKind::Approval;
                decided = submission.decides;
            }
        }
    }
    // The last step has its own verdict.
    Verdict::Accepted
}

fn next_step(response: &Response<'_>, decided: bool, known: &KnownValues<'_>) -> Result<Next, Verdict> {
    let location = response.headers().into_iter().find(|(name, _)| name.eq_ignore_ascii_case("location"));
    match (response.status, location) {
        (200 | 303, _) if decided => Ok(Next::Done),
        (302 | 303, Some((_, location))) => Ok(Next::Go(String::from_utf8_lossy(location).into_owned())),
        (200, _) => {
            let forms = forms(&String::from_utf8_lossy(response.body));
            let form = Form::next(&forms, known);
            form.map(|form| Next::Fill(form.fill(known)))
                .ok_or(Verdict::Failed(Cause::BadBody("an approval page without a form")))
        }
        _ => Err(Verdict::by_status(response, 200)),
    }
}
