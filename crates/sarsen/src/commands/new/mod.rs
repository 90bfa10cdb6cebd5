//! `sarsen new`: writes a product that signs users in and shows their plan, ready for `sarsen dev`.
//!
//! - `name.rs`: which names a product may have. `template.rs`: the files of each template, which are in the folder
//!   `templates` of this crate. `install.rs`: fetches the packages that a template locks. `crates.rs`: those of ours that no
//!   registry has yet.
//!
//! It overwrites nothing, and writes no secret: `sarsen dev` makes those.

mod crates;
mod install;
mod name;
mod template;

use crate::error::{Error, Result};
use crate::output;
use crates::Crates;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use template::Template;

/// Write a new product: a site with a sign-in and a page on which the plan changes while it is open.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n\
                  \x20   sarsen new shop --template express && cd shop && sarsen dev -- npm run dev\n\
                  \x20   sarsen new shop --template express --no-install\n\
                  \x20   sarsen new shop --template live --crates ../sarsen/crates\n\
                  \n\
                  Exact versions of all packages are in the lock file of the template. They come from the registry that npm\n\
                  or pip is set to, and no script of a package is run.")]
pub struct Args {
    /// The name of the product and of its folder: a-z, 0-9 and -
    name: String,
    /// What it is written with
    #[arg(long, value_enum)]
    template: Template,
    /// Folder with the crates of Sarsen, which `--template live` needs until a registry has them
    #[arg(long, value_name = "DIR")]
    crates: Option<PathBuf>,
    /// Write the files only
    #[arg(long)]
    no_install: bool,
}

/// Runs it.
pub fn run(args: &Args) -> Result<()> {
    name::check(&args.name, args.template)?;
    let folder = Path::new(&args.name);
    let crates = find_crates(args)?;
    require_empty(folder)?;
    let files = args.template.files(&args.name);
    for (path, text) in &files {
        write(&folder.join(path), text)?;
    }
    output::tell(&format!("Wrote {} files to {}/.", files.len(), args.name));
    if let Some(crates) = crates {
        crates.add_to(folder)?;
    }
    if !args.no_install {
        install::install(args.template, folder)?;
    }
    output::after_change(output::print(&next_steps(args)))
}

fn find_crates(args: &Args) -> Result<Option<Crates>> {
    match (&args.crates, args.template) {
        (Some(folder), Template::Live) => Crates::find(folder).map(Some),
        (None, Template::Live) => Err(Error::usage(
            "the crates of Sarsen are in no registry yet; give --crates DIR with the folder `crates` of Sarsen's repository, \
             or one with files such as sarsen-live-0.1.0.crate",
        )),
        (Some(_), _) => Err(Error::usage("--crates goes with --template live only")),
        (None, _) => Ok(None),
    }
}

/// A folder that is not there, or has nothing in it.
fn require_empty(folder: &Path) -> Result<()> {
    let Ok(there) = folder.symlink_metadata() else { return Ok(()) };
    let is_empty =
        there.is_dir() && fs::read_dir(folder).map_err(Error::file("read", folder))?.next().is_none();
    match is_empty {
        true => Ok(()),
        false => Err(Error::failed(format!(
            "{} exists and is not an empty folder; nothing was written. Choose another name, or move it away",
            folder.display()
        ))),
    }
}

/// Writes a new file, and the folders above it. Fails when there is one.
fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(Error::file("create", folder))?;
    }
    let mut file = fs::File::create_new(path).map_err(Error::file("create", path))?;
    file.write_all(text.as_bytes()).map_err(Error::file("write", path))
}

fn next_steps(args: &Args) -> String {
    let name = &args.name;
    let install = match args.no_install {
        true => format!("    {}\n", args.template.install_line()),
        false => String::new(),
    };
    let start = args.template.start_line();
    format!("\nStart it:\n\n    cd {name}\n{install}    {start}\n\n{name}/README.md says what is where.\n")
}
