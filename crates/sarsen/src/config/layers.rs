//! Where a value comes from: a flag, else the environment, else the file, else the default.

use super::flags::Flags;
use super::raw::Raw;
use super::{SECRET_KEY_VARIABLE, Setting, file, keys};
use crate::environment::Environment;
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// The configuration file, when none is named.
const FILE: &str = "sarsen.toml";
const PREFIX: &str = "SARSEN_";
/// Variables that begin like settings and are something else.
const NO_SETTINGS: [&str; 6] =
    [SECRET_KEY_VARIABLE, "SARSEN_CONFIG", "SARSEN_ORG", "SARSEN_SERVER", "SARSEN_BIN", "SARSEN_SOAK"];
/// … or that begin so. Kubernetes sets the last two in every pod beside a service named `sarsen`.
const NO_SETTINGS_WITH: [&str; 4] = ["SARSEN_TEST_", "SARSEN_BENCH_", "SARSEN_SERVICE_", "SARSEN_PORT"];

/// Where a value was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nowhere.
    Default,
    /// In the configuration file, in this line.
    File(PathBuf, usize),
    /// In the environment, in this variable.
    Environment(String),
    /// By this flag.
    Flag(String),
}

impl Place {
    /// Whether a path of it is meant from where the configuration file is.
    pub(super) fn is_beside_file(&self) -> bool {
        matches!(self, Place::Default | Place::File(..))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Default => out.write_str("default"),
            Place::File(path, line) => write!(out, "file {} line {line}", path.display()),
            Place::Environment(name) => write!(out, "environment {name}"),
            Place::Flag(name) => write!(out, "flag {name}"),
        }
    }
}

/// What was set, and where; of each setting the layer that counts.
pub(super) struct Layers {
    /// The configuration file, or where it would be.
    pub file: PathBuf,
    given: BTreeMap<&'static str, (Raw, Place)>,
}

impl Layers {
    /// Reads them all. Unknown names are refused.
    pub fn gather(flags: &Flags, environment: &Environment) -> Result<Layers> {
        let file = flags.config.clone().unwrap_or_else(|| PathBuf::from(FILE));
        let lines = match file::read(&file)? {
            None if flags.config.is_some() => {
                return Err(Error::usage(format!(
                    "there is no file {}; `sarsen init` makes one",
                    file.display()
                )));
            }
            lines => lines.unwrap_or_default(),
        };
        let mut given = BTreeMap::new();
        for line in lines {
            let place = Place::File(file.clone(), line.line);
            given.insert(known(&line.name, &place)?, (line.raw, place));
        }
        for variable in environment.names_with(PREFIX).filter(|name| is_setting(name)) {
            let place = Place::Environment(variable.to_owned());
            let name = known(&variable[PREFIX.len()..].to_lowercase(), &place)?;
            if let Some(text) = environment.get(variable) {
                given.insert(name, (Raw::Text(text.to_owned()), place));
            }
        }
        for (name, raw) in flags.given() {
            given.insert(name, (raw, Place::Flag(format!("--{}", name.replace('_', "-")))));
        }
        Ok(Layers { file, given })
    }

    /// The value of a setting.
    pub fn setting<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&Raw) -> Option<T>,
        default: impl FnOnce() -> T,
    ) -> Result<Setting<T>> {
        let Some((raw, place)) = self.given.get(name) else {
            return Ok(Setting { value: default(), place: Place::Default });
        };
        let value = read(raw).ok_or_else(|| {
            let key = keys::find(name);
            let shown = match key {
                Some(key) if !key.secret => format!("{name} = {raw}"),
                _ => format!("the value of {name}"),
            };
            let allowed = key.map_or("", |key| key.allowed);
            Error::usage(format!("{shown} ({place}) is not allowed; use {allowed}"))
        })?;
        Ok(Setting { value, place: place.clone() })
    }
}

fn is_setting(variable: &str) -> bool {
    !NO_SETTINGS.contains(&variable) && !NO_SETTINGS_WITH.iter().any(|prefix| variable.starts_with(prefix))
}

fn known(name: &str, place: &Place) -> Result<&'static str> {
    if let Some(key) = keys::find(name) {
        return Ok(key.name);
    }
    let meant = keys::nearest(name).map(|near| format!("did you mean {near}? ")).unwrap_or_default();
    Err(Error::usage(format!("unknown setting {name} ({place}); {meant}known are {}", keys::names())))
}
