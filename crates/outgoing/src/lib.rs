//! The one way out: every connection that this server opens to a machine that it was told about goes through a [`Connector`].
//!
//! - `judge.rs`: which addresses may be connected to. `allowed.rs`: the exceptions of the server's owner.
//! - `connector.rs`: resolves a name, judges every address and connects to one that was judged. `names.rs`: how names are resolved.
//!   `proxy.rs`: through a proxy.
//! - `wire.rs`: a connection with bounds, and its encryption. `trust.rs`: whose certificates are trusted.
//! - `message.rs`: a mail. `smtp/`: hands mails to a relay. `mailbox.rs`: keeps them in memory instead. `relay.rs`: one of the two.
//!   `refused.rs`: why a mail was not taken.
//!
//! It promises: nothing is sent to a private address that the owner did not list, also when a name changes between two questions;
//! nothing is sent without encryption, but to such a listed address; an exchange ends by its deadline, whatever the peer does.

mod allowed;
mod connector;
mod judge;
mod mailbox;
mod message;
mod names;
mod proxy;
mod refused;
mod relay;
mod smtp;
mod trust;
mod wire;

pub use allowed::{Allowed, InvalidAllowed};
pub use connector::{Connector, Policy};
pub use mailbox::{KeptMail, Mailbox};
pub use message::{Message, Sender};
pub use names::{Records, TextRecords};
pub use proxy::Proxy;
pub use refused::{Refused, Step};
pub use relay::{Accepted, Relay};
pub use smtp::{Encryption, RelayAddress, SEND_TIME_MAX};
pub use trust::Trust;
