//! The kinds of callers of an operation. For each, the server has an extractor that checks the credentials.

/// A kind of caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Any administrator of the organization in the path; a program that may read.
    Administrator,
    /// An admin or owner of it, while it is active; a program that may write.
    Admin,
    /// An owner of it, while it is active.
    Owner,
    /// An owner of it, in any state.
    OwnerOfDeleted,
    /// An owner of it, or the user in the path.
    OwnerOrSelf,
    /// A user of the organization `platform`.
    PlatformUser,
    /// An owner of the server.
    PlatformOwner,
}

/// A kind of caller as a type.
pub trait By: 'static {
    /// Which one.
    const CALLER: Caller;
}

macro_rules! callers {
    ($($name:ident)*) => { $(
        #[doc = concat!("[`Caller::", stringify!($name), "`]")]
        pub struct $name;

        impl By for $name {
            const CALLER: Caller = Caller::$name;
        }
    )* };
}

callers! { Administrator Admin Owner OwnerOfDeleted OwnerOrSelf PlatformUser PlatformOwner }
