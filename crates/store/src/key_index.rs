//! The index from keys to what depends on them: cached entries, held requests, live queries. One index for all.
//!
//! An owner (a cache, or the watches of `watch.rs`) has numbered slots and installs each with the keys that it depends
//! on and with the position of its read. [`KeyIndex::install`] refuses if one of the keys has been published since;
//! otherwise the owner is called for every later change. Both happen under one lock, so that no change is missed.
//!
//! Keys are stored as digests: two that collide cause one call too many, never one too few. A million cached entries
//! depend on several million keys, so the index is made for them: the map has parts that grow one after the other, and
//! the few places of a key are a list.

use crate::history::History;
use crate::sync::Mutex;
use crate::version::Position;
use crate::{Key, Uptime};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, BuildHasherDefault, Hasher, RandomState};
use std::sync::{Arc, Weak};

/// What depends on keys. Calls come from the thread that publishes, so they must be quick and must not block.
pub(crate) trait Owner: Send + Sync {
    /// Keys of these slots have changed. A slot may have been freed and taken again meanwhile.
    fn touched(&self, slots: &[u32]);

    /// All rows of a table may have changed, by the table's digest.
    fn touched_table(&self, table: u64);

    /// Everything may have changed.
    fn touched_all(&self);
}

/// Digests of a key and of its table. They are equal for the key of a whole table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest {
    pub(crate) key: u64,
    pub(crate) table: u64,
}

impl Digest {
    pub(crate) fn is_table(self) -> bool {
        self.key == self.table
    }

    /// What an owner keeps of it.
    pub(crate) fn stored(self) -> StoredDigest {
        StoredDigest(self.key)
    }
}

/// The digest of a key, half as large. Some of its bits are those of its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredDigest(u64);

/// The bits of a digest that are those of its table; the map uses the others.
const TABLE_BITS: u64 = 0xffff << 40;

impl StoredDigest {
    /// False if the key is not one of this table.
    pub(crate) fn may_be_of(self, table: u64) -> bool {
        (self.0 ^ table) & TABLE_BITS == 0
    }
}

/// What the index takes for a key of an owner.
pub(crate) const DIGEST_BYTES: usize = 40;
/// The parts of the map.
const PARTS: usize = 64;
/// The places of a key are a list up to here.
const LIST_MAX: usize = 16;

/// The number of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OwnerId(u32);

/// An owner's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Place {
    owner: u32,
    slot: u32,
}

pub(crate) struct KeyIndex {
    hasher: RandomState,
    clock: Arc<dyn Uptime>,
    /// Locked for a few map operations, never while an owner is called.
    state: Mutex<State>,
}

struct State {
    parts: Box<[Places]>,
    owners: Vec<Weak<dyn Owner>>,
    history: History,
}

type Places = HashMap<u64, Dependents, BuildHasherDefault<Identity>>;

/// The hash of a digest, which is a hash already.
#[derive(Default)]
pub(crate) struct Identity(u64);

impl Hasher for Identity {
    fn write_u64(&mut self, digest: u64) {
        self.0 = digest;
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |all, byte| all.rotate_left(8) ^ u64::from(*byte));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The places that depend on a key: usually one. The boxes keep the common case small.
#[expect(clippy::box_collection, reason = "the boxes make the common case half the size")]
enum Dependents {
    One(Place),
    Few(Box<Vec<Place>>),
    Many(Box<HashSet<Place>>),
}

impl KeyIndex {
    pub(crate) fn new(start: Position, clock: Arc<dyn Uptime>) -> KeyIndex {
        let state = State {
            parts: (0..PARTS).map(|_| Places::default()).collect(),
            owners: Vec::new(),
            history: History::new(start),
        };
        KeyIndex { hasher: RandomState::new(), clock, state: Mutex::new(state) }
    }

    pub(crate) fn add_owner(&self, owner: Weak<dyn Owner>) -> OwnerId {
        let mut state = self.state.lock();
        state.owners.push(owner);
        OwnerId((state.owners.len() - 1) as u32)
    }

    pub(crate) fn digests(&self, keys: &[Key]) -> Box<[Digest]> {
        keys.iter().map(|key| self.digest(key)).collect()
    }

    fn digest(&self, key: &Key) -> Digest {
        let table = self.hasher.hash_one(key.table_name());
        if key.is_table() {
            return Digest { key: table, table };
        }
        let key = self.hasher.hash_one(key.as_str());
        Digest { key: key & !TABLE_BITS | table & TABLE_BITS, table }
    }

    /// Calls the owner for changes of these keys from now on. Refuses if one was published after `seen`, or if that is no
    /// longer known.
    pub(crate) fn install(&self, owner: OwnerId, slot: u32, digests: &[Digest], seen: Position) -> bool {
        let mut state = self.state.lock();
        if !state.history.unchanged_since(seen, digests) {
            return false;
        }
        let place = Place { owner: owner.0, slot };
        for digest in digests {
            match state.part(digest.key).entry(digest.key) {
                std::collections::hash_map::Entry::Vacant(vacant) => {
                    vacant.insert(Dependents::One(place));
                }
                std::collections::hash_map::Entry::Occupied(mut occupied) => occupied.get_mut().add(place),
            }
        }
        true
    }

    /// Ends what [`KeyIndex::install`] began.
    pub(crate) fn remove(&self, owner: OwnerId, slot: u32, digests: &[StoredDigest]) {
        let mut state = self.state.lock();
        let place = Place { owner: owner.0, slot };
        for StoredDigest(key) in digests {
            let part = state.part(*key);
            if part.get_mut(key).is_some_and(|dependents| dependents.drop_last(place)) {
                part.remove(key);
            }
        }
    }

    /// Notes a change and calls every owner that depends on one of its keys, the last that was added first. One change at a
    /// time.
    pub(crate) fn publish(&self, position: Position, keys: &[Key]) {
        let (mut tables, mut places) = (Vec::new(), Vec::new());
        let is_everything = keys.iter().any(Key::is_everything);
        let owners: Vec<Weak<dyn Owner>> = {
            let mut state = self.state.lock();
            let State { parts, owners, history } = &mut *state;
            let now = self.clock.now();
            if is_everything {
                history.note_everything(position);
            } else {
                for digest in keys.iter().map(|key| self.digest(key)) {
                    history.note(position, now, digest);
                    if digest.is_table() {
                        tables.push(digest.table);
                    } else {
                        // Who depends on the whole table is in the index under the table's digest.
                        let found = [digest.key, digest.table].map(|key| parts.get(part_of(key))?.get(&key));
                        found.into_iter().flatten().for_each(|dependents| dependents.append_to(&mut places));
                    }
                }
            }
            if !is_everything && tables.is_empty() && places.is_empty() {
                return;
            }
            owners.clone()
        };
        places.sort_unstable();
        places.dedup();
        // The watches are the first owner and come last: who was called by one finds no older entry in a cache.
        for (number, owner) in owners.iter().enumerate().rev() {
            let (number, Some(owner)) = (number as u32, owner.upgrade()) else { continue };
            if is_everything {
                owner.touched_all();
                continue;
            }
            tables.iter().for_each(|table| owner.touched_table(*table));
            let (from, to) = (
                places.partition_point(|place| place.owner < number),
                places.partition_point(|place| place.owner <= number),
            );
            let slots: Vec<u32> =
                places.get(from..to).unwrap_or_default().iter().map(|place| place.slot).collect();
            if !slots.is_empty() {
                owner.touched(&slots);
            }
        }
    }

    /// The number of keys that something depends on.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.state.lock().parts.iter().map(Places::len).sum()
    }
}

impl State {
    fn part(&mut self, key: u64) -> &mut Places {
        &mut self.parts[part_of(key)]
    }
}

/// From bits that the map itself does not use.
fn part_of(key: u64) -> usize {
    (key >> 34) as usize % PARTS
}

impl Dependents {
    fn add(&mut self, place: Place) {
        match self {
            Dependents::One(only) if *only == place => {}
            Dependents::One(only) => *self = Dependents::Few(Box::new(vec![*only, place])),
            Dependents::Few(list) if list.contains(&place) => {}
            Dependents::Few(list) if list.len() < LIST_MAX => list.push(place),
            Dependents::Few(list) => {
                let all = list.iter().copied().chain([place]).collect();
                *self = Dependents::Many(Box::new(all));
            }
            Dependents::Many(all) => {
                all.insert(place);
            }
        }
    }

    /// Removes a place. Returns true if none is left.
    fn drop_last(&mut self, place: Place) -> bool {
        match self {
            Dependents::One(only) => *only == place,
            Dependents::Few(list) => {
                list.retain(|one| *one != place);
                list.is_empty()
            }
            Dependents::Many(all) => {
                all.remove(&place);
                all.is_empty()
            }
        }
    }

    fn append_to(&self, places: &mut Vec<Place>) {
        match self {
            Dependents::One(only) => places.push(*only),
            Dependents::Few(list) => places.extend(list.iter()),
            Dependents::Many(all) => places.extend(all.iter()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BootTime;

    /// Notes its calls.
    #[derive(Default)]
    struct Noting(Mutex<Vec<String>>);

    impl Owner for Noting {
        fn touched(&self, slots: &[u32]) {
            self.0.lock().push(format!("{slots:?}"));
        }

        fn touched_table(&self, _table: u64) {
            self.0.lock().push("table".to_owned());
        }

        fn touched_all(&self) {
            self.0.lock().push("all".to_owned());
        }
    }

    fn users(id: &str) -> Key {
        Key::row("users", "id", id)
    }

    fn add(index: &KeyIndex) -> (Arc<Noting>, OwnerId) {
        let noting = Arc::new(Noting::default());
        let owner: Arc<dyn Owner> = noting.clone();
        let id = index.add_owner(Arc::downgrade(&owner));
        (noting, id)
    }

    #[test]
    fn each_owner_is_called_once_with_its_own_slots() {
        let index = KeyIndex::new(Position(0), Arc::new(BootTime));
        let ((one, first), (other, second)) = (add(&index), add(&index));
        let install =
            |owner, slot, keys: &[Key]| index.install(owner, slot, &index.digests(keys), Position(0));
        assert!(install(first, 7, &[users("ada"), users("grace")]));
        assert!(install(first, 8, &[users("ada"), Key::table("plans")]));
        assert!(install(second, 7, &[Key::table("users")]));
        index.publish(Position(1), &[users("ada"), users("grace")]);
        index.publish(Position(2), &[Key::row("plans", "id", "pro"), users("eve")]);
        index.publish(Position(3), &[Key::table("users")]);
        index.publish(Position(4), &[Key::table("seats"), Key::everything()]);
        assert_eq!(*one.0.lock(), ["[7, 8]", "[8]", "table", "all"]);
        assert_eq!(*other.0.lock(), ["[7]", "[7]", "table", "all"]);
    }

    #[test]
    fn what_is_removed_leaves_nothing_behind() {
        let index = KeyIndex::new(Position(0), Arc::new(BootTime));
        let (noting, owner) = add(&index);
        let keys = index.digests(&[users("ada"), users("ada"), Key::table("plans")]);
        for slot in 0..3 {
            assert!(index.install(owner, slot, &keys, Position(0)));
        }
        assert_eq!(index.len(), 2);
        let stored: Vec<StoredDigest> = keys.iter().map(|digest| digest.stored()).collect();
        (0..3).for_each(|slot| index.remove(owner, slot, &stored));
        assert_eq!(index.len(), 0);
        index.publish(Position(1), &[users("ada")]);
        assert!(noting.0.lock().is_empty());
        assert!(!index.install(owner, 0, &keys, Position(0)) && index.len() == 0, "it has changed since");
    }

    #[test]
    fn a_key_calls_each_of_its_places_however_many_there_are() {
        let index = KeyIndex::new(Position(0), Arc::new(BootTime));
        let (noting, owner) = add(&index);
        let keys = index.digests(&[users("ada")]);
        let stored: Vec<StoredDigest> = keys.iter().map(|digest| digest.stored()).collect();
        let count = 3 * LIST_MAX as u32;
        for slot in 0..count {
            assert!(index.install(owner, slot, &keys, Position(0)));
            index.publish(Position(0), &[users("ada")]);
            let all: Vec<u32> = (0..=slot).collect();
            assert_eq!(noting.0.lock().pop(), Some(format!("{all:?}")));
        }
        for slot in 0..count {
            index.remove(owner, slot, &stored);
            index.publish(Position(0), &[users("ada")]);
            let rest: Vec<u32> = (slot + 1..count).collect();
            assert_eq!(noting.0.lock().pop(), (!rest.is_empty()).then(|| format!("{rest:?}")));
        }
        assert_eq!(index.len(), 0);
    }

    #[test]
    fn a_stored_digest_finds_its_table() {
        let index = KeyIndex::new(Position(0), Arc::new(BootTime));
        let [table, row, other] =
            [Key::table("users"), users("ada"), Key::table("plans")].map(|key| index.digest(&key));
        assert!(row.stored().may_be_of(table.key) && table.stored().may_be_of(row.table));
        // Two tables in 65,536 have the same bits, and the seed is random.
        assert!(!row.stored().may_be_of(other.table) || (row.table ^ other.table) & TABLE_BITS == 0);
    }
}
