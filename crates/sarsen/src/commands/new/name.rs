//! Which names a product may have: one that is a folder, a package and a slug of Sarsen at once.

use super::template::Template;
use crate::error::{Error, Result};

const LENGTH_MAX: usize = 40;

/// Names that a package manager or Sarsen keeps for itself.
const RESERVED: [&str; 14] = [
    "platform", "sarsen", "node", "npm", "test", "core", "std", "alloc", "con", "nul", "aux", "prn",
    "public", "target",
];

/// Fails unless `name` fits the template.
pub fn check(name: &str, template: Template) -> Result<()> {
    let letters =
        |text: &str| text.bytes().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit());
    let is_good = (2..=LENGTH_MAX).contains(&name.len())
        && name.starts_with(|letter: char| letter.is_ascii_lowercase())
        && name.split('-').all(|part| !part.is_empty() && letters(part));
    if !is_good {
        return Err(Error::usage(format!(
            "{name:?} is not a name for a product; use 2 to {LENGTH_MAX} characters of a-z, 0-9 and single -, starting with a \
             letter, like shop. The folder of that name is made here"
        )));
    }
    if RESERVED.contains(&name) || template.packages().contains(&name) {
        return Err(Error::usage(format!(
            "{name:?} is already the name of something that the product uses; choose another, like {name}-site"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_folder_a_package_and_a_slug() {
        for good in ["shop", "my-shop", "a1", "shop-2-go"] {
            assert!(check(good, Template::Express).is_ok(), "{good}");
        }
        let long = "a".repeat(LENGTH_MAX + 1);
        let wrong = [
            "",
            "a",
            "Shop",
            "1shop",
            "-shop",
            "shop-",
            "my--shop",
            "my_shop",
            "my shop",
            ".",
            "..",
            "../shop",
            "/tmp/shop",
            "a/b",
            "a\\b",
            "shöp",
            "shop\n",
            "--help",
            &long,
        ];
        for name in wrong {
            let error = check(name, Template::Express).expect_err(name).to_string();
            assert!(error.contains("use 2 to 40 characters"), "{error}");
        }
    }

    #[test]
    fn a_product_is_not_called_like_what_it_uses() {
        for name in ["express", "sarsen", "platform", "test"] {
            let error = check(name, Template::Express).expect_err(name).to_string();
            assert!(error.contains(&format!("like {name}-site")), "{error}");
        }
    }
}
