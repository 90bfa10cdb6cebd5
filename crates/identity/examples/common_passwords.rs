//! Makes `crates/identity/src/passwords/common.bin`: reads a list with one password in each line from the standard input
//! and writes the file to the standard output. docs/design/0034-counters-and-common-passwords.md names the list.

use std::io::{Read as _, Write as _};

fn main() -> std::io::Result<()> {
    let mut list = String::new();
    std::io::stdin().read_to_string(&mut list)?;
    std::io::stdout().write_all(&identity::passwords::fingerprints(&list))
}
