//! What cached objects take in memory.

use crate::api_keys::ApiKey;
use crate::clients::Client;
use crate::entitlements::Entitlement;
use crate::keys::Ring;
use crate::organizations::Status;
use crate::users::User;
use store::Weigh;

/// A parsed key pair with its tables, about.
const SIGNING_KEY_BYTES: usize = 8 << 10;

/// The sum over fields.
fn sum<const N: usize>(fields: [&dyn Weigh; N]) -> usize {
    fields.into_iter().map(Weigh::heap_bytes).sum()
}

impl Weigh for Client {
    fn heap_bytes(&self) -> usize {
        let ids = sum([&self.id, &self.organization, &self.service]);
        let names = sum([
            &self.organization_slug,
            &self.organization_name,
            &self.service_slug,
            &self.service_name,
            &self.name,
        ]);
        let lists =
            sum([&self.grants, &self.redirect_uris, &self.post_logout_redirect_uris, &self.secret_hashes]);
        ids + names + lists + self.scope.heap_bytes()
    }
}

impl Weigh for ApiKey {
    fn heap_bytes(&self) -> usize {
        let ids = sum([&self.id, &self.organization, &self.service, &self.created_by]);
        let names = sum([&self.organization_slug, &self.service_slug, &self.name, &self.hint]);
        ids + names + self.scope.heap_bytes()
    }
}

impl Weigh for User {
    fn heap_bytes(&self) -> usize {
        sum([&self.id, &self.organization, &self.email, &self.profile.name])
    }
}

impl Weigh for Entitlement {
    fn heap_bytes(&self) -> usize {
        sum([&self.plan, &self.features, &self.limits, &self.status, &self.customer])
    }
}

impl Weigh for Status {
    fn heap_bytes(&self) -> usize {
        0
    }
}

impl Weigh for Ring {
    fn heap_bytes(&self) -> usize {
        self.len() * SIGNING_KEY_BYTES
    }
}
