//! Backups: are they made, and is there a copy of the secret key without which they are of no use?

use crate::api_client;
use crate::commands::findings::{Finding, fail, ok, warn};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::secret_key;
use crate::{files, output};
use server::SecretKey;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Beside the key, the fingerprint of the key whose copy was confirmed.
const COPIED: &str = ".copied";

/// The newest backup of the schedule.
pub(super) fn newest(config: &Config) -> Finding {
    const CHECK: &str = "backups";
    let Some(schedule) = config.backups() else {
        return match config.database.value.path() {
            Some(_) => warn(
                CHECK,
                "the server makes none; set backup_directory, or run sarsen backup by the clock, and rehearse a restore",
            ),
            None => ok(CHECK, "the database server's own; sarsen check URL checks a restored one"),
        };
    };
    if let Err(error) = files::check_private_folder(&schedule.folder) {
        return fail(CHECK, error.to_string());
    }
    let shown = schedule.folder.display();
    let now = server::Time::from_millis(api_client::now().saturating_mul(1000));
    let found = match schedule.found(now) {
        Ok(found) => found,
        Err(error) => {
            return fail(CHECK, format!("{shown}: {error}; create the folder, or start the server"));
        }
    };
    let Some(newest) = found.times.last() else {
        return warn(CHECK, format!("there is no backup in {shown} yet; start the server"));
    };
    let hours = now.since(*newest).as_secs() / 3600;
    let message = format!("{} in {shown}, the newest {hours} hours old", found.times.len());
    if now.since(*newest) > schedule.every * 2 + Duration::from_secs(3600) {
        return warn(CHECK, format!("{message}; see the log of the server for errors"));
    }
    if !found.ahead.is_empty() {
        let count = found.ahead.len();
        let text =
            "with names ahead of the clock of this machine, which the schedule neither counts nor removes";
        return warn(
            CHECK,
            format!("{message}; {count} {text}; check the clock, then rename or remove them"),
        );
    }
    let device = |path: &Path| std::fs::metadata(path).ok().map(|file| file.dev());
    if device(&schedule.folder) == device(&secret_key::beside_data(config)) {
        return ok(CHECK, format!("{message}, on the disk of the database; copy them to another machine"));
    }
    ok(CHECK, message)
}

/// Whether a copy of the secret key was confirmed.
pub(super) fn key_copy(config: &Config) -> Finding {
    const CHECK: &str = "copy of key";
    let path = &config.secret_key_file.value;
    let Ok(key) = secret_key::read(config) else { return warn(CHECK, "there is no valid key") };
    if config.secret_key.is_some() {
        return ok(CHECK, "the key comes from SARSEN_SECRET_KEY");
    }
    let noted = files::read(&marker(path)).ok().flatten();
    if noted.is_some_and(|noted| noted.trim() == secret_key::fingerprint(&key)) {
        return ok(CHECK, format!("a copy of {} was confirmed", path.display()));
    }
    warn(
        CHECK,
        format!(
            "no copy of {} was confirmed, and no backup works without it; copy it to another place, then run sarsen doctor \
             --key-copy FILE",
            path.display()
        ),
    )
}

/// Compares a copy of the key (`-`: on stdin) with the key, and notes that there is one.
pub(super) fn confirm(config: &Config, copy: &Path) -> Result<()> {
    let key = secret_key::read(config)?;
    let text = if copy == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().lock().read_to_string(&mut text).map_err(Error::io("cannot read stdin"))?;
        text
    } else {
        std::fs::read_to_string(copy).map_err(Error::file("read", copy))?
    };
    let path = &config.secret_key_file.value;
    if same_file(copy, path) {
        return Err(Error::usage(format!("{} is the key itself; give the copy", copy.display())));
    }
    let copied = SecretKey::parse(&text).map_err(|error| {
        Error::failed(format!("{} is no copy of the key ({error}); copy it again", copy.display()))
    })?;
    if secret_key::fingerprint(&copied) != secret_key::fingerprint(&key) {
        return Err(Error::failed("the copy is another key than the one in use; copy it again"));
    }
    files::replace_private(&marker(path), &format!("{}\n", secret_key::fingerprint(&key)))?;
    let confirmed = "The copy is the key in use. sarsen doctor will not ask again until the key changes.\n";
    output::after_change(output::print(confirmed))
}

fn same_file(left: &Path, right: &Path) -> bool {
    let number = |path: &Path| std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    number(left).is_some_and(|left| Some(left) == number(right))
}

fn marker(key_file: &Path) -> PathBuf {
    files::with_suffix(key_file, COPIED)
}
