//! The subscribers of a group. A group may have hundreds of thousands, which may all leave at once.

use crate::stream::Stream;
use std::collections::HashMap;
use std::sync::Arc;

/// Beyond this many, a map knows the place of each.
const LIST_MAX: usize = 32;

/// A subscriber: a slot of a stream.
pub(crate) struct Member {
    pub(crate) stream: Arc<Stream>,
    pub(crate) slot: u32,
}

/// See the module. Most groups have few, so the list comes without a map.
#[derive(Default)]
pub(crate) struct Members {
    list: Vec<Member>,
    #[expect(clippy::box_collection, reason = "most groups have no map, and there may be many groups")]
    places: Option<Box<HashMap<(u64, u32), usize>>>,
}

impl Members {
    pub(crate) fn add(&mut self, stream: Arc<Stream>, slot: u32) {
        let id = stream.id;
        self.list.push(Member { stream, slot });
        if self.places.is_none() && self.list.len() > LIST_MAX {
            let all = self.list.iter().enumerate();
            let places = all.map(|(place, member)| ((member.stream.id, member.slot), place)).collect();
            self.places = Some(Box::new(places));
        } else if let Some(places) = &mut self.places {
            places.insert((id, slot), self.list.len() - 1);
        }
    }

    /// Removes the member that was added for this slot of a stream.
    pub(crate) fn remove(&mut self, stream: u64, slot: u32) {
        let place = match &mut self.places {
            Some(places) => places.remove(&(stream, slot)),
            None => self.list.iter().position(|member| member.slot == slot && member.stream.id == stream),
        };
        let Some(place) = place.filter(|place| *place < self.list.len()) else { return };
        self.list.swap_remove(place);
        if let (Some(moved), Some(places)) = (self.list.get(place), &mut self.places) {
            places.insert((moved.stream.id, moved.slot), place);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Member> {
        self.list.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}
