//! The command whose commit is being published, for operators who ask why something ran again.

use std::cell::Cell;

/// The commands of a commit that declared changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Cause {
    #[default]
    Unknown,
    One(&'static str),
    Several,
}

thread_local! {
    static CAUSE: Cell<Cause> = const { Cell::new(Cause::Unknown) };
}

impl Cause {
    /// The cause of a commit that has the changes of both.
    pub(crate) fn and(self, other: Cause) -> Cause {
        match (self, other) {
            (Cause::Unknown, one) | (one, Cause::Unknown) => one,
            (one, other) if one == other => one,
            _ => Cause::Several,
        }
    }

    /// Publishes; watches that are called meanwhile, on this thread, see the cause.
    pub(crate) fn publish<T>(self, publish: impl FnOnce() -> T) -> T {
        CAUSE.set(self);
        let published = publish();
        CAUSE.set(Cause::Unknown);
        published
    }
}

/// For a watch that is being called: the name of the command whose commit it is, or `several commands` that shared one. `None`
/// for a commit of another process.
pub fn publishing_command() -> Option<&'static str> {
    match CAUSE.get() {
        Cause::Unknown => None,
        Cause::One(name) => Some(name),
        Cause::Several => Some("several commands"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_known_while_its_commit_is_published() {
        let one = Cause::Unknown.and(Cause::One("a")).and(Cause::One("a"));
        assert_eq!(one.publish(publishing_command), Some("a"));
        assert_eq!(one.and(Cause::One("b")).publish(publishing_command), Some("several commands"));
        assert_eq!((Cause::Unknown.publish(publishing_command), publishing_command()), (None, None));
    }
}
