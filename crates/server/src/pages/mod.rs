//! The pages for people: rendered on the server, usable without JavaScript. `views/` has the HTML, the files
//! here choose the page.

pub(crate) mod account;
pub(crate) mod activate;
pub(crate) mod addresses;
pub(crate) mod agent;
pub(crate) mod assets;
pub(crate) mod browser;
pub(crate) mod code;
pub(crate) mod confirm;
pub(crate) mod consent;
pub(crate) mod console;
pub(crate) mod contact;
pub(crate) mod dev_sign_in;
pub(crate) mod flash;
pub(crate) mod forgot;
pub(crate) mod form_errors;
pub(crate) mod invitation;
pub(crate) mod kept_link;
pub(crate) mod language;
pub(crate) mod link;
pub(crate) mod password;
pub(crate) mod reset;
pub(crate) mod respond;
pub(crate) mod scope;
pub(crate) mod sent_again;
pub(crate) mod sentence;
pub(crate) mod set_up;
pub(crate) mod sign_in;
pub(crate) mod sign_up;
pub(crate) mod time;
pub(crate) mod verify;
pub(crate) mod views;
