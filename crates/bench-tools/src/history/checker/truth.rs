//! The order in which the database committed, row by row, and which states a client can have seen when.
//!
//! A row's revisions are the order of its commits. Between rows there are three more orders: a mutation that was answered
//! before another was sent comes before it; a mutation commits all its rows at once; a version says what it includes.
//! A state of several rows must respect all of them.

use super::record::{Attempt, Era, History, Micros, Outcome, Query, RowState, Version, Versions};
use std::collections::{BTreeMap, HashMap};

/// The commits of an era.
pub struct Truth {
    versions: Versions,
    rows: BTreeMap<u32, RowHistory>,
}

#[derive(Default)]
struct RowHistory {
    /// Revision 1 first.
    entries: Vec<Entry>,
    /// Times of answers, and the newest revision that was answered by then.
    by_end: Vec<(Micros, u64)>,
    /// Versions of answers, by epoch, and the newest revision that was answered with one up to it.
    by_version: HashMap<String, Vec<Known>>,
}

struct Known {
    version: Version,
    ended: Micros,
    rev: u64,
    /// The newest revision among this and those of smaller versions.
    rev_last: u64,
}

struct Entry {
    row: RowState,
    /// The latest start among this and the earlier revisions.
    started_last: Micros,
    /// Other rows of the same commit, with their revisions.
    together: Vec<(u32, u64)>,
}

/// What a state must include, and can include.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounds<'a> {
    /// It shows what was answered with this version or an earlier one.
    pub settled: Option<&'a Version>,
    /// The version that its request carried: it shows what was answered with that before the request was sent.
    pub carried: Option<(&'a Version, Micros)>,
    /// It shows what was answered before this moment.
    pub answered_before: Micros,
    /// It shows nothing that was sent after this moment.
    pub received: Micros,
}

impl Truth {
    /// Reads the log of an era with what the writers know of its mutations. `complaints` gets what does not fit together.
    pub fn of(history: &History, era: usize, complaints: &mut Vec<String>) -> Truth {
        let attempts: HashMap<&str, &Attempt> =
            history.attempts.iter().map(|attempt| (attempt.id.as_str(), attempt)).collect();
        let mut truth = Truth { versions: history.versions, rows: BTreeMap::new() };
        let log = &history.eras[era].log;
        let mut places: HashMap<&str, Vec<(u32, u64)>> = HashMap::new();
        for row in log {
            places.entry(&row.id).or_default().push((row.key, row.rev));
        }
        let mut sorted: Vec<&RowState> = log.iter().collect();
        sorted.sort_by_key(|row| (row.key, row.rev));
        for row in sorted {
            let Some(attempt) = attempts.get(row.id.as_str()) else {
                complaints.push(format!("the log has {}, which no writer sent", row.id));
                continue;
            };
            let at = &places[row.id.as_str()];
            if matches!(attempt.outcome, Outcome::Refused) {
                complaints.push(format!("{} was refused but is in the log", row.id));
            }
            let history = truth.rows.entry(row.key).or_default();
            if row.rev != history.entries.len() as u64 + 1 {
                complaints.push(format!("row {}: revision {} is not the next one", row.key, row.rev));
            }
            history.push(row, attempt, at.iter().copied().filter(|(key, _)| *key != row.key).collect());
        }
        for attempt in &history.attempts {
            let at = places.get(attempt.id.as_str()).map_or(&[][..], Vec::as_slice);
            complaints.extend(misfits(attempt, at, began(history, era), history.eras[era].ended));
        }
        for row in truth.rows.values_mut() {
            row.index();
        }
        truth
    }

    /// The state of a row at a revision.
    fn entry(&self, key: u32, rev: u64) -> Option<&Entry> {
        let place = usize::try_from(rev.checked_sub(1)?).ok()?;
        self.rows.get(&key)?.entries.get(place)
    }

    /// The state of what a query asks for, after everything that was sent up to this moment.
    pub fn newest(&self, query: &Query, at: Micros) -> Vec<RowState> {
        let last = self.rows.iter().filter_map(|(key, history)| self.entry(*key, history.at_most(at)));
        let mut rows: Vec<RowState> =
            last.map(|entry| entry.row.clone()).filter(|row| holds(query, row)).collect();
        rows.sort_by_key(|row| (row.value, row.key));
        rows
    }

    /// Whether a query can have had this result within these bounds.
    pub fn judge(&self, query: &Query, rows: &[RowState], bounds: Bounds<'_>) -> Result<(), String> {
        if !rows.is_sorted_by_key(|row| (row.value, row.key)) {
            return Err("the list is not in its order".to_owned());
        }
        let mut shown: BTreeMap<u32, u64> = BTreeMap::new();
        for row in rows {
            let known = self.entry(row.key, row.rev).is_some_and(|entry| entry.row == *row);
            if !known {
                return Err(format!("{row:?} was never committed"));
            }
            if !holds(query, row) {
                return Err(format!("{row:?} is not what was asked for"));
            }
            if shown.insert(row.key, row.rev).is_some() {
                return Err(format!("row {} comes twice", row.key));
            }
        }
        if let Query::Row(key) = query {
            shown.entry(*key).or_insert(0);
        }
        self.can_be(query, &shown, bounds)
    }

    /// Raises the least revision of every row until all orders are respected, or one cannot be.
    fn can_be(&self, query: &Query, shown: &BTreeMap<u32, u64>, bounds: Bounds<'_>) -> Result<(), String> {
        let mut least: BTreeMap<u32, u64> = BTreeMap::new();
        let mut answered_before = bounds.answered_before;
        for (key, history) in &self.rows {
            let shown = shown.get(key).copied();
            let mut low = shown.unwrap_or(0);
            let settled = bounds.settled.filter(|_| self.versions != Versions::None);
            let settled = settled.map(|version| (version, history.surely_at(version)));
            let carried = bounds.carried.filter(|_| self.versions != Versions::None);
            let carried = carried.map(|(version, asked)| (version, history.surely_carried(version, asked)));
            for (version, included) in settled.into_iter().chain(carried) {
                if let Some(rev) = shown.filter(|rev| *rev < included) {
                    let why = format!("but version {} includes revision {included}", version.0);
                    return Err(format!("row {key} is at revision {rev}, {why}"));
                }
                low = low.max(included);
            }
            least.insert(*key, low);
        }
        loop {
            let before = (least.clone(), answered_before);
            for (key, history) in &self.rows {
                let mut low = least[key].max(history.surely_before(answered_before));
                if let Query::Team(team) = query
                    && !shown.contains_key(key)
                {
                    low = history.first_outside(*team, low).ok_or_else(|| {
                        format!("row {key} is missing, though it was in team {team} from revision {low} on")
                    })?;
                }
                let rev = low.min(history.entries.len() as u64);
                if let Some(entry) = rev.checked_sub(1).and_then(|at| history.entries.get(at as usize)) {
                    answered_before = answered_before.max(entry.started_last);
                    for (other, other_rev) in history.together_up_to(rev) {
                        let least = least.entry(other).or_default();
                        *least = (*least).max(other_rev);
                    }
                }
                let at_least = least.entry(*key).or_default();
                *at_least = (*at_least).max(low);
            }
            for (key, rev) in shown {
                let low = least.get(key).copied().unwrap_or(0);
                if *rev < low {
                    return Err(format!(
                        "row {key} is at revision {rev}, but the state includes revision {low}"
                    ));
                }
            }
            if before == (least.clone(), answered_before) {
                break;
            }
        }
        for (key, low) in &least {
            if *low > self.rows[key].at_most(bounds.received) {
                return Err(format!("row {key} is at revision {low}, which is newer than the state can be"));
            }
        }
        Ok(())
    }
}

/// Whether a row belongs to the result of a query.
fn holds(query: &Query, row: &RowState) -> bool {
    match query {
        Query::Row(key) => row.key == *key,
        Query::Team(team) => row.team == *team,
    }
}

/// When an era began.
fn began(history: &History, era: usize) -> Micros {
    era.checked_sub(1).and_then(|before| history.eras[before].ended).unwrap_or(0)
}

/// What a mutation's answer and its entries in the log say differently.
fn misfits(attempt: &Attempt, at: &[(u32, u64)], began: Micros, era_ended: Option<Micros>) -> Option<String> {
    let Outcome::Committed { ended, revs, .. } = &attempt.outcome else { return None };
    // An era does not have what was written after the backup that it began with.
    if *ended < began || era_ended.is_some_and(|end| attempt.started > end) {
        return None;
    }
    let (mut at, mut revs) = (at.to_vec(), revs.clone());
    at.sort_unstable();
    revs.sort_unstable();
    match (at == revs, at.is_empty()) {
        (true, _) => None,
        (false, true) => Some(format!("{} was answered but is not in the log", attempt.id)),
        (false, false) => Some(format!("{} was answered with {revs:?}, but the log has {at:?}", attempt.id)),
    }
}

impl RowHistory {
    fn push(&mut self, row: &RowState, attempt: &Attempt, together: Vec<(u32, u64)>) {
        let rev = row.rev;
        if let Outcome::Committed { ended, version, .. } = &attempt.outcome {
            self.by_end.push((*ended, rev));
            let known = Known { version: version.clone(), ended: *ended, rev, rev_last: rev };
            self.by_version.entry(version.epoch().to_owned()).or_default().push(known);
        }
        let earlier = self.entries.last().map_or(0, |entry| entry.started_last);
        let started_last = attempt.started.max(earlier);
        self.entries.push(Entry { row: row.clone(), started_last, together });
    }

    fn index(&mut self) {
        self.by_end.sort_unstable();
        rising(self.by_end.iter_mut().map(|(_, rev)| rev));
        for versions in self.by_version.values_mut() {
            versions.sort_by(|one, other| one.version.0.cmp(&other.version.0));
            rising(versions.iter_mut().map(|known| &mut known.rev_last));
        }
    }

    fn surely_before(&self, moment: Micros) -> u64 {
        let count = self.by_end.partition_point(|(ended, _)| *ended < moment);
        count.checked_sub(1).map_or(0, |last| self.by_end[last].1)
    }

    fn surely_at(&self, version: &Version) -> u64 {
        let Some(versions) = self.by_version.get(version.epoch()) else { return 0 };
        let count = versions.partition_point(|known| known.version.0 <= version.0);
        count.checked_sub(1).map_or(0, |last| versions[last].rev_last)
    }

    /// What was answered with this very version before a request was sent that carries it. Answers with earlier versions
    /// are not implied where a transaction that began later may end earlier.
    fn surely_carried(&self, version: &Version, asked: Micros) -> u64 {
        let Some(versions) = self.by_version.get(version.epoch()) else { return 0 };
        let first = versions.partition_point(|known| known.version.0 < version.0);
        let same = versions[first..].iter().take_while(|known| known.version == *version);
        same.filter(|known| known.ended < asked).map(|known| known.rev).max().unwrap_or(0)
    }

    /// The first revision from `low` on at which the row is not in the team.
    fn first_outside(&self, team: u32, low: u64) -> Option<u64> {
        let is_outside = |rev: &u64| {
            let entry = rev.checked_sub(1).and_then(|at| self.entries.get(at as usize));
            entry.is_none_or(|entry| entry.row.team != team)
        };
        (low..=self.entries.len() as u64).find(is_outside)
    }

    /// Rows of the same commits as the revisions up to this one, each with its newest revision.
    fn together_up_to(&self, rev: u64) -> impl Iterator<Item = (u32, u64)> {
        // Revisions of two rows rise together, so the last commit with a row has that row's newest revision. Further
        // back than this, the commits have long been answered, which `surely_before` knows.
        const BACK: usize = 64;
        let end = (rev as usize).min(self.entries.len());
        self.entries[end.saturating_sub(BACK)..end].iter().flat_map(|entry| entry.together.iter().copied())
    }

    /// The newest revision that can be shown at this moment.
    fn at_most(&self, received: Micros) -> u64 {
        self.entries.partition_point(|entry| entry.started_last <= received) as u64
    }
}

/// Makes each number at least as large as those before it.
fn rising<'a>(numbers: impl Iterator<Item = &'a mut u64>) {
    let mut largest = 0;
    for number in numbers {
        largest = largest.max(*number);
        *number = largest;
    }
}

/// The era of a moment.
pub fn era_at(eras: &[Era], at: Micros) -> usize {
    let is_over = |era: &Era| era.ended.is_some_and(|ended| ended < at);
    eras.iter().take_while(|era| is_over(era)).count().min(eras.len() - 1)
}
