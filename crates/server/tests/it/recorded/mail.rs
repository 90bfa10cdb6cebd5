//! The forms that mail: what they answer before anybody has looked at a mail.

use super::{Recording, get, is_recorded, post, recorded_server};
use browser::Cookies;
use outgoing::Relay;

#[tokio::test(flavor = "multi_thread")]
async fn mail() {
    if !is_recorded() {
        return;
    }
    let server = recorded_server(|settings| settings.mail = Some(Relay::kept()), true).await;
    let to = &mut Recording::of(&server);
    to.section("A forgotten password");
    let mut browser = Cookies::default();
    to.browse(&server, &mut browser, "no mail was asked for", get("/o/acme/code")).await;
    to.browse(&server, &mut browser, "nothing proves it", get("/o/acme/reset")).await;
    let page = to.browse(&server, &mut browser, "the page", get("/o/acme/forgot")).await;
    let csrf = page.input("csrf");
    let form = |path: &str, more: &[(&str, &str)]| post(path).form(&[&[("csrf", &*csrf)], more].concat());
    to.browse(&server, &mut browser, "no address", form("/o/acme/forgot", &[("email", "ada")])).await;
    to.browse(&server, &mut browser, "forged", post("/o/acme/forgot").form(&[("email", "ada@acme.test")]))
        .await;
    to.browse(&server, &mut browser, "asked", form("/o/acme/forgot", &[("email", "ada@acme.test")])).await;
    to.browse(&server, &mut browser, "the page for the code", get("/o/acme/code")).await;
    to.browse(&server, &mut browser, "no code", form("/o/acme/code", &[("code", "1234")])).await;
    to.browse(&server, &mut browser, "a wrong code", form("/o/acme/code", &[("code", "1234 5678")])).await;
    let set = [("link", "link_01kbb3e2v7f7pr7j5vxb0j8zq0"), ("password", "correct horse battery")];
    to.browse(&server, &mut browser, "nothing proves it", form("/o/acme/reset", &set)).await;
    to.browse(&server, &mut browser, "a link that is none", get("/o/acme/link?token=x")).await;

    to.section("The confirmation of an address");
    let account = [("email", "bob@acme.test"), ("name", "Bob"), ("password", "correct horse battery")];
    to.browse(&server, &mut browser, "an account", form("/o/acme/signup", &account)).await;
    to.browse(&server, &mut browser, "its page", get("/o/acme/account")).await;
    to.browse(&server, &mut browser, "forged", post("/o/acme/verify").form(&[])).await;
    to.browse(&server, &mut browser, "asked", form("/o/acme/verify", &[])).await;
    to.browse(&server, &mut browser, "the page for the code", get("/o/acme/code")).await;
    to.browse(&server, &mut browser, "a wrong code", form("/o/acme/code", &[("code", "1234 5678")])).await;
    to.browse(&server, &mut browser, "no link was opened", get("/o/acme/confirm")).await;
    to.browse(&server, &mut browser, "no link was opened", form("/o/acme/confirm", &[])).await;
    let signed_out = &mut Cookies::default();
    let page = to.browse(&server, signed_out, "the sign-in", get("/o/acme/login")).await;
    let csrf = page.input("csrf");
    let asked = post("/o/acme/verify").form(&[("csrf", &csrf)]);
    to.browse(&server, signed_out, "signed out", asked).await;
    insta::assert_snapshot!("mail", to.finish());
    server.stop().await;
}
