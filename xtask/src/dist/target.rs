//! What is released, and with which compiler.

/// One kind of machine.
#[derive(Debug, PartialEq, Eq)]
pub struct Target {
    pub triple: &'static str,
    /// The oldest C library that the program runs with.
    pub glibc: &'static str,
    pub compiler: Compiler,
}

/// Who turns Rust into machine code. C is always compiled, and everything linked, by `zig cc`, which has the symbols of
/// every version of the C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compiler {
    /// The one that builds everything else.
    OfTheTree,
    /// Debian's, for a target whose standard library the tree's has not got.
    Debian,
}

pub static ALL: [Target; 2] = [
    Target { triple: "x86_64-unknown-linux-gnu", glibc: "2.17", compiler: Compiler::OfTheTree },
    Target { triple: "aarch64-unknown-linux-gnu", glibc: "2.28", compiler: Compiler::Debian },
];

pub fn named(triple: &str) -> Result<&'static Target, String> {
    let known = ALL.iter().map(|target| target.triple).collect::<Vec<_>>().join(", ");
    let found = ALL.iter().find(|target| target.triple == triple);
    found.ok_or_else(|| format!("--target takes one of {known}, not `{triple}`"))
}

impl Target {
    /// The name that all files of this target begin with.
    pub fn stem(&self) -> String {
        format!("sarsen-{}-{}", super::source::VERSION, self.triple)
    }
}
