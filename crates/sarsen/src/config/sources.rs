//! The source of a value: a flag, then the environment, then the file, then the default.

use super::flags::Flags;
use super::value::RawValue;
use super::{SECRET_KEY_VARIABLE, SMTP_PASSWORD_VARIABLE, Setting, file, settings};
use crate::environment::Environment;
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// The default configuration file.
const FILE: &str = "sarsen.toml";
const PREFIX: &str = "SARSEN_";
/// Variables with the prefix of settings that are no settings: of other commands, of the examples of the documentation, of the
/// test suite …
const NO_SETTINGS: [&str; 10] = [
    SECRET_KEY_VARIABLE,
    SMTP_PASSWORD_VARIABLE,
    "SARSEN_BIN",
    "SARSEN_CONFIG",
    "SARSEN_KEY",
    "SARSEN_MOVE_FROM",
    "SARSEN_MOVE_TO",
    "SARSEN_ORG",
    "SARSEN_SERVER",
    "SARSEN_SOAK",
];
/// … and prefixes of such: of the test suite, of the bench, and two that Kubernetes sets beside a service named `sarsen`.
const NO_SETTINGS_WITH: [&str; 4] = ["SARSEN_TEST_", "SARSEN_BENCH_", "SARSEN_SERVICE_", "SARSEN_PORT"];

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The default.
    Default,
    /// This line of the configuration file.
    File(PathBuf, usize),
    /// This variable of the environment.
    Environment(String),
    /// This flag.
    Flag(String),
}

impl Source {
    /// Whether a path of it is relative to the folder of the configuration file.
    pub(super) fn is_beside_file(&self) -> bool {
        matches!(self, Source::Default | Source::File(..))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Default => out.write_str("default"),
            Source::File(path, line) => write!(out, "file {} line {line}", path.display()),
            Source::Environment(name) => write!(out, "environment {name}"),
            Source::Flag(name) => write!(out, "flag {name}"),
        }
    }
}

/// Every setting that was set, from the source that wins.
pub(super) struct Sources {
    /// The configuration file; it need not exist.
    pub file: PathBuf,
    given: BTreeMap<&'static str, (RawValue, Source)>,
}

impl Sources {
    /// Reads all sources. An unknown name is an error.
    pub fn gather(flags: &Flags, environment: &Environment) -> Result<Sources> {
        let file = flags.config.clone().unwrap_or_else(|| PathBuf::from(FILE));
        let lines = match file::read(&file)? {
            None if flags.config.is_some() => {
                return Err(Error::usage(format!(
                    "there is no file {}; `sarsen init` writes one",
                    file.display()
                )));
            }
            lines => lines.unwrap_or_default(),
        };
        let mut given = BTreeMap::new();
        for line in lines {
            let source = Source::File(file.clone(), line.line);
            given.insert(known(&line.name, &source)?, (line.raw, source));
        }
        for variable in environment.names_with(PREFIX).filter(|name| is_setting(name, environment)) {
            let source = Source::Environment(variable.to_owned());
            let name = known(&variable[PREFIX.len()..].to_lowercase(), &source)?;
            if let Some(text) = environment.get(variable) {
                given.insert(name, (RawValue::Text(text.to_owned()), source));
            }
        }
        for (name, raw) in flags.given() {
            given.insert(name, (raw, Source::Flag(format!("--{}", name.replace('_', "-")))));
        }
        Ok(Sources { file, given })
    }

    /// One setting from the source that wins, whatever is wrong with others.
    pub fn find(name: &'static str, flags: &Flags, environment: &Environment) -> Option<RawValue> {
        let flag = flags.given().into_iter().find(|(known, _)| *known == name).map(|(_, raw)| raw);
        let variable = || environment.get(&format!("{PREFIX}{}", name.to_uppercase()));
        let line = || {
            let file = flags.config.clone().unwrap_or_else(|| PathBuf::from(FILE));
            file::read(&file).ok()??.into_iter().find(|line| line.name == name).map(|line| line.raw)
        };
        flag.or_else(|| variable().map(|text| RawValue::Text(text.to_owned()))).or_else(line)
    }

    /// The value of a setting.
    pub fn setting<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&RawValue) -> Option<T>,
        default: impl FnOnce() -> T,
    ) -> Result<Setting<T>> {
        let Some((raw, source)) = self.given.get(name) else {
            return Ok(Setting { value: default(), source: Source::Default });
        };
        let value = read(raw).ok_or_else(|| {
            let key = settings::find(name);
            let shown = match key {
                Some(key) if !key.secret => format!("{name} = {raw}"),
                _ => format!("the value of {name}"),
            };
            let allowed = key.map_or("", |key| key.allowed);
            Error::usage(format!("{shown} ({source}) is not allowed; use {allowed}"))
        })?;
        Ok(Setting { value, source: source.clone() })
    }
}

/// Whether a variable is meant as a setting.
pub(super) fn is_setting(variable: &str, environment: &Environment) -> bool {
    !NO_SETTINGS.contains(&variable)
        && !NO_SETTINGS_WITH.iter().any(|prefix| variable.starts_with(prefix))
        && !is_service_link(variable, environment)
}

/// Whether a variable is one of those that Kubernetes sets for a service, such as `SARSEN_DB_PORT_5432_TCP` for `sarsen-db`.
/// Each service has a `…_SERVICE_HOST`.
fn is_service_link(variable: &str, environment: &Environment) -> bool {
    ["_SERVICE_", "_PORT"].iter().flat_map(|part| variable.match_indices(part)).any(|(end, _)| {
        let service = &variable[..end];
        service.len() > PREFIX.len() && environment.get(&format!("{service}_SERVICE_HOST")).is_some()
    })
}

fn known(name: &str, source: &Source) -> Result<&'static str> {
    if let Some(key) = settings::find(name) {
        return Ok(key.name);
    }
    let meant = settings::nearest(name).map(|near| format!("did you mean {near}? ")).unwrap_or_default();
    Err(Error::usage(format!("unknown setting {name} ({source}); {meant}settings are {}", settings::names())))
}
