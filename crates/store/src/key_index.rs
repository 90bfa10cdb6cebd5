//! The index from keys to what depends on them: cached entries, held requests, live queries. One index for all.
//!
//! An owner (a cache, or the watches of `watch.rs`) has numbered slots and installs each with the keys that it depends
//! on and with the position of its read. [`KeyIndex::install`] refuses if one of the keys has been published since;
//! otherwise the owner is called for every later change. Both happen under one lock, so that no change is missed.
//!
//! Keys are stored as digests: two that collide cause one call too many, never one too few. A million cached entries
//! depend on several million keys, so the index is made for them: a key of an entry takes ten bytes in a table, which
//! has parts that grow one after the other. Only a key with many places has a set of its own, which is divided too when it
//! is large.

use crate::dense;
use crate::history::History;
use crate::sync::Mutex;
use crate::version::Position;
use crate::{Key, Uptime};
use hashbrown::HashTable;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hasher, RandomState};
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
        StoredDigest([0, 16, 32].map(|shift| (self.key >> shift) as u16))
    }
}

/// 48 bits of the digest of a key, without padding: all that the index looks at, and ten bits of its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredDigest([u16; 3]);

/// The bits of a digest that are those of its table; the index uses the others.
const TABLE_BITS: u64 = 0xff << 40 | 0b11 << 32;

impl StoredDigest {
    /// False if the key is not one of this table.
    pub(crate) fn may_be_of(self, table: u64) -> bool {
        (self.digest() ^ table) & TABLE_BITS == 0
    }

    fn digest(self) -> u64 {
        self.0.into_iter().rev().fold(0, |all, part| all << 16 | u64::from(part))
    }
}

/// What the index takes for a key of an owner: a [`Dependent`] and a byte, in a table that is half full (`dense.rs`).
pub(crate) const DIGEST_BYTES: usize = 20;
/// The parts of the index.
const PARTS: usize = 64;
/// A key with more places than this has a set of its own: a table is slow with many equal keys.
const FEW: usize = 16;
/// A set of more places than this is divided.
const UNDIVIDED_MAX: usize = 8192;

/// The number of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OwnerId(u16);

impl OwnerId {
    /// That of all owners for whom there is no number. Nothing is installed for them.
    const TOO_MANY: OwnerId = OwnerId(u16::MAX);
}

/// An owner's slot, without padding: an index of a million entries has several million. The upper half of the slot's
/// number comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    owner: u16,
    slot: [u16; 2],
}

impl Place {
    fn new(owner: OwnerId, slot: u32) -> Place {
        Place { owner: owner.0, slot: [(slot >> 16) as u16, slot as u16] }
    }

    fn slot(self) -> u32 {
        let [upper, lower] = self.slot.map(u32::from);
        upper << 16 | lower
    }

    fn hash(&self) -> u64 {
        spread(self.slot() ^ u32::from(self.owner) << 16)
    }
}

pub(crate) struct KeyIndex {
    hasher: RandomState,
    clock: Arc<dyn Uptime>,
    /// Locked for a few map operations, never while an owner is called.
    state: Mutex<State>,
}

struct State {
    parts: Box<[Part]>,
    owners: Vec<Weak<dyn Owner>>,
    history: History,
}

/// The keys whose digests belong to one part.
#[derive(Default)]
struct Part {
    few: HashTable<Dependent>,
    /// The places of the keys that have more than [`FEW`]. They are not in `few`.
    many: HashMap<[u16; 2], Places>,
}

/// The places of a key that has many: one table, or [`PARTS`] of them that grow one after the other.
struct Places {
    tables: Vec<HashTable<Place>>,
    len: usize,
}

/// A place that depends on a key.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Dependent {
    /// Bits of the key's digest that its part does not imply.
    key: [u16; 2],
    place: Place,
}

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

impl KeyIndex {
    pub(crate) fn new(start: Position, clock: Arc<dyn Uptime>) -> KeyIndex {
        let state = State {
            parts: (0..PARTS).map(|_| Part::default()).collect(),
            owners: Vec::new(),
            history: History::new(start),
        };
        KeyIndex { hasher: RandomState::new(), clock, state: Mutex::new(state) }
    }

    pub(crate) fn add_owner(&self, owner: Weak<dyn Owner>) -> OwnerId {
        let mut state = self.state.lock();
        state.owners.push(owner);
        u16::try_from(state.owners.len() - 1).map_or(OwnerId::TOO_MANY, OwnerId)
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
    /// longer known, or if there are more than 65,535 owners.
    pub(crate) fn install(&self, owner: OwnerId, slot: u32, digests: &[Digest], seen: Position) -> bool {
        let place = Place::new(owner, slot);
        let mut state = self.state.lock();
        if owner == OwnerId::TOO_MANY || !state.history.unchanged_since(seen, digests) {
            return false;
        }
        digests.iter().for_each(|digest| state.part(digest.key).add(digest.key, place));
        true
    }

    /// Ends what [`KeyIndex::install`] began.
    pub(crate) fn remove(&self, owner: OwnerId, slot: u32, digests: &[StoredDigest]) {
        let place = Place::new(owner, slot);
        let mut state = self.state.lock();
        for key in digests.iter().map(|stored| stored.digest()) {
            state.part(key).remove(key, place);
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
                        for key in [digest.key, digest.table] {
                            places.extend(
                                parts.get(part_of(key)).into_iter().flat_map(|part| part.places(key)),
                            );
                        }
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
            let (Ok(number), Some(owner)) = (u16::try_from(number), owner.upgrade()) else { continue };
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
                places.get(from..to).unwrap_or_default().iter().map(|place| place.slot()).collect();
            if !slots.is_empty() {
                owner.touched(&slots);
            }
        }
    }

    /// The number of keys that something depends on.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let state = self.state.lock();
        let len = |part: &Part| {
            let few: std::collections::HashSet<_> = part.few.iter().map(|one| one.key).collect();
            few.len() + part.many.len()
        };
        state.parts.iter().map(len).sum()
    }
}

impl State {
    fn part(&mut self, key: u64) -> &mut Part {
        &mut self.parts[part_of(key)]
    }
}

/// From bits that a [`Dependent`] does not have.
fn part_of(key: u64) -> usize {
    (key >> 34) as usize % PARTS
}

/// What a [`Dependent`] keeps of a digest.
fn kept_of(key: u64) -> [u16; 2] {
    [(key >> 16) as u16, key as u16]
}

fn hash_of(kept: [u16; 2]) -> u64 {
    let [upper, lower] = kept.map(u32::from);
    spread(upper << 16 | lower)
}

/// The tables want a hash in which the upper bits differ too.
fn spread(bits: u32) -> u64 {
    u64::from(bits).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Part {
    fn add(&mut self, key: u64, place: Place) {
        let key = kept_of(key);
        if !self.many.contains_key(&key) {
            let dependent = Dependent { key, place };
            let others = self.few.iter_hash(hash_of(key)).filter(|one| one.key == key);
            if others.clone().any(|one| *one == dependent) {
                return;
            }
            if others.count() < FEW {
                dense::insert(&mut self.few, hash_of(key), dependent, Dependent::hash);
                return;
            }
        }
        let places = self.many.entry(key).or_insert_with(Places::new);
        while let Ok(one) = self.few.find_entry(hash_of(key), |one| one.key == key) {
            places.add(one.remove().0.place);
        }
        places.add(place);
    }

    fn remove(&mut self, key: u64, place: Place) {
        let key = kept_of(key);
        let dependent = Dependent { key, place };
        if dense::remove(&mut self.few, hash_of(key), |one| *one == dependent, Dependent::hash).is_some() {
            return;
        }
        let Some(places) = self.many.get_mut(&key) else { return };
        places.remove(place);
        // Not at once: the next place would build the set again.
        if places.len <= FEW / 2 {
            for place in self.many.remove(&key).into_iter().flat_map(|places| places.tables).flatten() {
                dense::insert(&mut self.few, hash_of(key), Dependent { key, place }, Dependent::hash);
            }
        }
    }

    fn places(&self, key: u64) -> impl Iterator<Item = Place> {
        let key = kept_of(key);
        let few = self.few.iter_hash(hash_of(key)).filter(move |one| one.key == key).map(|one| one.place);
        few.chain(self.many.get(&key).into_iter().flat_map(|places| places.tables.iter().flatten().copied()))
    }
}

impl Dependent {
    fn hash(&self) -> u64 {
        hash_of(self.key)
    }
}

impl Places {
    fn new() -> Places {
        Places { tables: vec![HashTable::new()], len: 0 }
    }

    /// From bits that a table itself does not use.
    fn table(&mut self, place: Place) -> &mut HashTable<Place> {
        let number = (place.hash() >> 48) as usize % self.tables.len();
        &mut self.tables[number]
    }

    fn add(&mut self, place: Place) {
        if self.table(place).find(place.hash(), |one| *one == place).is_some() {
            return;
        }
        self.len += 1;
        if self.len > UNDIVIDED_MAX && self.tables.len() == 1 {
            let divided = (0..PARTS).map(|_| HashTable::new()).collect();
            for place in std::mem::replace(&mut self.tables, divided).into_iter().flatten() {
                dense::insert(self.table(place), place.hash(), place, Place::hash);
            }
        }
        dense::insert(self.table(place), place.hash(), place, Place::hash);
    }

    fn remove(&mut self, place: Place) {
        let removed = dense::remove(self.table(place), place.hash(), |one| *one == place, Place::hash);
        self.len -= usize::from(removed.is_some());
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
        let count = UNDIVIDED_MAX as u32 + 9;
        let called = |expected: Vec<u32>| {
            index.publish(Position(0), &[users("ada")]);
            let expected = (!expected.is_empty()).then(|| format!("{expected:?}"));
            assert_eq!(noting.0.lock().pop(), expected);
        };
        let (few, undivided) = (FEW as u32, UNDIVIDED_MAX as u32);
        let looked_at = [1, few / 2, few, few + 1, few * 2, undivided, undivided + 1, count];
        for slot in 0..count {
            assert!(index.install(owner, slot, &keys, Position(0)));
            assert!(index.install(owner, slot, &keys, Position(0)), "the same once more");
            if looked_at.contains(&(slot + 1)) {
                called((0..=slot).collect());
            }
        }
        for slot in 0..count {
            index.remove(owner, slot, &stored);
            if looked_at.contains(&(count - slot)) || slot + 1 == count {
                called((slot + 1..count).collect());
            }
        }
        assert_eq!(index.len(), 0);
    }

    #[test]
    fn a_stored_digest_finds_its_table() {
        let index = KeyIndex::new(Position(0), Arc::new(BootTime));
        let [table, row, other] =
            [Key::table("users"), users("ada"), Key::table("plans")].map(|key| index.digest(&key));
        assert!(row.stored().may_be_of(table.key) && table.stored().may_be_of(row.table));
        // Two tables in 1,024 have the same bits, and the seed is random.
        assert!(!row.stored().may_be_of(other.table) || (row.table ^ other.table) & TABLE_BITS == 0);
    }
}
