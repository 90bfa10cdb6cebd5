//! What people see: server-rendered pages that work without JavaScript. `views/` draws them, the files
//! here decide what to draw.

pub(crate) mod account;
pub(crate) mod activate;
pub(crate) mod agent;
pub(crate) mod assets;
pub(crate) mod browser;
pub(crate) mod consent;
pub(crate) mod console;
pub(crate) mod flash;
pub(crate) mod invitation;
pub(crate) mod kept_link;
pub(crate) mod link;
pub(crate) mod password;
pub(crate) mod respond;
pub(crate) mod set_up;
pub(crate) mod sign_in;
pub(crate) mod sign_up;
pub(crate) mod views;
