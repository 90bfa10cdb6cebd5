//! OAuth scopes as people read them: on the consent page, on that of a device, and on their account's.

use identity::scopes::{ANY_ORGANIZATION, PLATFORM, organization_of};
use texts::Language;

/// What a scope allows. One that we do not know is shown as it is.
pub(crate) fn describe(language: &Language, scope: &str) -> String {
    let key = match scope {
        "openid" => "scope.openid",
        "profile" => "scope.profile",
        "email" => "scope.email",
        "offline_access" => "scope.offline_access",
        PLATFORM => "scope.platform",
        ANY_ORGANIZATION => "scope.any_organization",
        _ => {
            return match organization_of(scope) {
                Some(slug) => language.fill("scope.organization", &[("organization", slug)]),
                None => scope.to_owned(),
            };
        }
    };
    language.text(key).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use texts::Languages;

    #[test]
    fn a_scope_of_others_has_no_word_of_ours() {
        let languages = Languages::built_in();
        let describe = |scope: &str| describe(languages.english(), scope);
        assert_eq!(describe("org:acme"), "Administer the organization acme");
        for scope in ["org:", "org:Acme", "org:acme\u{a0}Call\u{a0}us", "org:\u{202e}acme", "fly"] {
            assert_eq!(describe(scope), scope);
        }
    }
}
