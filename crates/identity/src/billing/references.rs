//! References: an id for a checkout (Stripe's `client_reference_id`) that names a customer and that only this server can
//! make. A buyer can change the id of a checkout in some set-ups, so a plain customer id would let them name anybody.
//!
//! A reference is `<customer id>_<mac>`. It is bound to its connection, does not expire, and is invalid after
//! `sarsen rekey`. Another customer's reference is of no use but to pay for that customer.

use super::connections::Connection;
use crate::audit::{self, Actor};
use crate::ids::{BillingConnectionId, CustomerId};
use crate::secrets::SecretKey;
use crate::{Result, customers, users};
use store::Tx;

/// The length of the MAC: 32 bytes in base64url.
const MAC_LENGTH: usize = 43;
const PURPOSE: &str = "billing reference";

/// Makes the reference of a customer.
pub fn make(key: &SecretKey, connection: &BillingConnectionId, customer: &CustomerId) -> String {
    let mac = key.derive(&[PURPOSE, connection.as_str(), customer.as_str()]);
    [customer.as_str(), "_", &mac].concat()
}

/// Checks that the customer can have a reference, and notes that one is made.
pub fn note(tx: &mut Tx<'_>, connection: &Connection, customer: &CustomerId, actor: &Actor) -> Result<()> {
    let (organization, id) = (&connection.organization, connection.id.as_str());
    let customer = customers::get(tx.snapshot(), organization, customer)?;
    if let Some(user) = &customer.user {
        users::in_organization(tx.snapshot(), organization, user)?;
    }
    audit::note(tx, organization, actor, "billing.reference_made", id, customer.id.as_str())
}

/// The customer of a reference that this server has made for this connection.
pub fn read(key: &SecretKey, connection: &BillingConnectionId, reference: &str) -> Option<CustomerId> {
    let (customer, rest) = reference.split_at_checked(reference.len().checked_sub(MAC_LENGTH + 1)?)?;
    let mac = rest.strip_prefix('_')?;
    let customer = CustomerId::parse(customer).ok()?;
    key.derives(&[PURPOSE, connection.as_str(), customer.as_str()], mac).then_some(customer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_names_its_customer_at_its_connection_only() {
        let (key, other) = (SecretKey::new(&[1; 32]), SecretKey::new(&[2; 32]));
        let (connection, elsewhere) = (BillingConnectionId::from_uuid(1), BillingConnectionId::from_uuid(2));
        for number in 0..50 {
            let customer = CustomerId::from_uuid(number);
            let reference = make(&key, &connection, &customer);
            // What Stripe allows.
            let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
            assert!(reference.len() <= 200 && reference.bytes().all(is_fine), "{reference}");
            assert_eq!(read(&key, &connection, &reference), Some(customer));
            assert_eq!(read(&key, &elsewhere, &reference), None);
            assert_eq!(read(&other, &connection, &reference), None);
            let forged =
                reference.replace(CustomerId::from_uuid(number).as_str(), CustomerId::from_uuid(99).as_str());
            assert_eq!(read(&key, &connection, &forged), None);
            for end in 0..reference.len() {
                assert_eq!(read(&key, &connection, &reference[..end]), None);
            }
        }
        for wrong in ["", "_", "customer_00000000000000000000000001", &"ä".repeat(60)] {
            assert_eq!(read(&key, &connection, wrong), None);
        }
    }
}
