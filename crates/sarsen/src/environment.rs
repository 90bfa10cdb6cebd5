//! The environment of this process, read once and passed as an argument.

use crate::error::{Error, Result};
use std::collections::BTreeMap;

/// Variables and their values.
#[derive(Clone, Debug, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The variables of this process. A variable of ours that is not UTF-8 is an error; others are left out.
    pub fn of_this_process() -> Result<Environment> {
        let mut variables = BTreeMap::new();
        for (name, value) in std::env::vars_os() {
            match (name.into_string(), value.into_string()) {
                (Ok(name), Ok(value)) => {
                    variables.insert(name, value);
                }
                (Ok(name), Err(_)) if name.starts_with("SARSEN_") => {
                    return Err(Error::usage(format!("the value of {name} is not UTF-8 text")));
                }
                _ => {}
            }
        }
        Ok(Environment(variables))
    }

    /// These variables, and no others.
    pub fn of(variables: &[(&str, &str)]) -> Environment {
        Environment(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    /// The value of a variable. An empty value counts as none.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The names that begin with `prefix`.
    pub fn names_with<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.keys().map(String::as_str).filter(move |name| name.starts_with(prefix))
    }
}
