//! A server in memory that makes histories: right ones, and such with one bug planted.

use crate::history::checker::held::Held;
use crate::history::checker::record::{
    Attempt, Client, Era, Event, History, Outcome, Query, RowState, Seen, Version, Versions,
};
use crate::history::random::Random;
use std::collections::BTreeMap;

const KEYS: u32 = 5;
const TEAMS: u32 = 2;
/// Between two commits, in microseconds. Mutations take up to two of them, so they cross.
const STEP: u64 = 1_000;

/// What the planted server does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Frames carry the version of a commit that their snapshot does not have yet.
    PublishBeforeCommit,
    /// What changed while a client was away is not sent, and `same` is.
    DropOnReconnect,
    /// A re-run that failed counts as unchanged.
    UnchangedOnFailedRun,
    /// The feed is read by sequence: a commit that came late is passed over.
    OrderBySequence,
    /// Row changes are made against a state that the client does not hold, and say so.
    WrongBase,
    /// The same, and the change claims the base that the client holds.
    HiddenWrongBase,
    /// A mutation that moves a row declares only its new team.
    MissingKey,
    /// A mutation declares the key of the next row.
    OtherRow,
    /// A query sees what is rolled back later.
    DirtyRead,
    /// A refused mutation stays in the database.
    Kept,
    /// A mutation that was sent again is applied again.
    AppliedTwice,
    /// An answered mutation is lost by a crash.
    Lost,
    /// Half of a commit is shown.
    Torn,
    /// A replica answers that has not reached the version which the request carried.
    OlderThanCarried,
    /// A client is sent an older frame after a newer one.
    Backwards,
    /// Two values have one digest.
    SameDigest,
    /// A row of another state stands in a list.
    MixedSnapshots,
}

/// The database after each commit, from the empty one on.
struct World {
    states: Vec<BTreeMap<u32, RowState>>,
    attempts: Vec<Attempt>,
    log: Vec<RowState>,
}

/// Makes a history of some commits.
pub fn history(seed: u64, commits: usize, versions: Versions, bug: Option<Bug>) -> History {
    let mut random = Random::new(seed);
    let mut world = World { states: vec![BTreeMap::new()], attempts: Vec::new(), log: Vec::new() };
    for number in 1..=commits {
        world.commit(number, &mut random, bug);
    }
    let mut history = History {
        versions,
        reads_are_fresh: bug.is_none_or(|bug| bug != Bug::OlderThanCarried),
        epoch_starts: vec![0],
        clients: Vec::new(),
        attempts: Vec::new(),
        seen: Vec::new(),
        eras: Vec::new(),
    };
    for query in (0..KEYS).map(Query::Row).chain((0..TEAMS).map(Query::Team)) {
        let client = history.clients.len();
        history.clients.push(Client::Watcher(query.clone()));
        world.watch(client, &query, &mut random, bug, &mut history.seen);
    }
    for carries in [true, true, false] {
        let client = history.clients.len();
        history.clients.push(Client::Reader { carries });
        world.read(client, carries, &mut random, bug, &mut history.seen);
    }
    if bug == Some(Bug::Lost) {
        let last = world.log.last().map(|row| row.id.clone());
        world.log.retain(|row| Some(&row.id) != last.as_ref());
    }
    history.attempts = world.attempts;
    history.eras = vec![Era { ended: None, log: world.log }];
    history
}

impl World {
    /// Commits number `number` at `number * STEP`; now and then one is refused beside it.
    fn commit(&mut self, number: usize, random: &mut Random, bug: Option<Bug>) {
        let at = number as u64 * STEP;
        let started = at - random.below(STEP as u32 * 2).min(at as u32 - 1) as u64;
        let ended = at + 1 + u64::from(random.below(STEP as u32 * 2));
        let mut state = self.states.last().cloned().unwrap_or_default();
        if random.chance(0.1) {
            let id = format!("refused-{number}");
            self.attempts.push(Attempt { id: id.clone(), started, outcome: Outcome::Refused });
            if bug == Some(Bug::Kept) {
                self.change(&mut state, 0, &id, random);
            }
        }
        let id = format!("write-{number}");
        let mut keys = vec![random.below(KEYS)];
        if random.chance(0.3) {
            keys.push((keys[0] + 1) % KEYS);
        }
        let mut revs = Vec::new();
        for key in &keys {
            revs.push((*key, self.change(&mut state, *key, &id, random)));
            if bug == Some(Bug::AppliedTwice) && number.is_multiple_of(7) {
                self.change(&mut state, *key, &id, random);
            }
        }
        let outcome = match random.chance(0.05) && bug.is_none() {
            true => Outcome::Unknown,
            false => Outcome::Committed { ended, version: version(number), revs },
        };
        self.attempts.push(Attempt { id, started, outcome });
        self.states.push(state);
    }

    fn change(
        &mut self,
        state: &mut BTreeMap<u32, RowState>,
        key: u32,
        id: &str,
        random: &mut Random,
    ) -> u64 {
        let rev = state.get(&key).map_or(0, |row| row.rev) + 1;
        let value = i64::from(random.below(50));
        let row = RowState { key, rev, id: id.to_owned(), value, team: random.below(TEAMS) };
        state.insert(key, row.clone());
        self.log.push(row);
        rev
    }

    fn rows(&self, query: &Query, at: usize) -> Vec<RowState> {
        let holds = |row: &&RowState| match query {
            Query::Row(key) => row.key == *key,
            Query::Team(team) => row.team == *team,
        };
        let mut rows: Vec<RowState> = self.states[at].values().filter(holds).cloned().collect();
        rows.sort_by_key(|row| (row.value, row.key));
        rows
    }

    /// The state that a client is given instead of that after commit `at`.
    fn shown(&self, query: &Query, at: usize, random: &mut Random, bug: Option<Bug>) -> Vec<RowState> {
        let rows = self.rows(query, at);
        match bug {
            Some(Bug::PublishBeforeCommit | Bug::OlderThanCarried) => self.rows(query, at.saturating_sub(1)),
            // One that is older, but not so old that it had not begun when the newest was answered.
            Some(Bug::OrderBySequence) if at > 2 && random.chance(0.3) => self.rows(query, at - 2),
            Some(Bug::DirtyRead) if random.chance(0.1) && !rows.is_empty() => {
                let mut rows = rows;
                rows[0].id = format!("refused-{at}");
                rows
            }
            Some(Bug::Torn | Bug::MixedSnapshots) if at > 0 => {
                let back = if bug == Some(Bug::Torn) { 1 } else { 5.min(at) };
                let old = &self.states[at - back];
                let mut rows = rows;
                if let Some(row) = rows.first_mut()
                    && let Some(older) = old.get(&row.key)
                    && older.team == row.team
                {
                    *row = older.clone();
                }
                rows.sort_by_key(|row| (row.value, row.key));
                rows
            }
            _ => rows,
        }
    }

    /// Whether the server runs a query again because of a commit that changes its result.
    fn notices(&self, query: &Query, at: usize, random: &mut Random, bug: Option<Bug>) -> bool {
        match (bug, query) {
            (Some(Bug::MissingKey), Query::Team(team)) => {
                let leaves = |(key, row): (&u32, &RowState)| {
                    row.team == *team && self.states[at].get(key).is_some_and(|row| row.team != *team)
                };
                !self.states[at - 1].iter().any(leaves)
            }
            (Some(Bug::OtherRow), Query::Row(_)) => false,
            (Some(Bug::UnchangedOnFailedRun), _) => random.chance(0.3),
            _ => true,
        }
    }

    fn watch(
        &self,
        client: usize,
        query: &Query,
        random: &mut Random,
        bug: Option<Bug>,
        seen: &mut Vec<Seen>,
    ) {
        let mut held = Held::default();
        let mut server: Vec<RowState> = Vec::new();
        let (mut moment, mut is_behind) = (1, true);
        for at in 0..self.states.len() {
            let is_last = at + 1 == self.states.len();
            let is_changed = at > 0 && self.rows(query, at) != self.rows(query, at - 1);
            is_behind |= is_changed && self.notices(query, at, random, bug);
            let reconnects = at > 0 && random.chance(0.1) && (is_behind || !is_changed);
            // A slow client passes over states, but not over the last one.
            if !is_behind && !reconnects || at > 0 && !is_last && !reconnects && random.chance(0.4) {
                continue;
            }
            moment = moment.max(at as u64 * STEP + 1);
            let rows = self.shown(query, at, random, bug);
            is_behind = false;
            let event = if reconnects && (bug == Some(Bug::DropOnReconnect) || rows == server) {
                Event::Same { version: Some(version(at)), settled: None }
            } else if at > 0 && rows == server {
                continue;
            } else if held.value.is_some() && random.chance(0.5) && bug != Some(Bug::SameDigest) {
                self.change_event(&held, &server, &rows, at, bug)
            } else {
                let digest = if bug == Some(Bug::SameDigest) { "same".to_owned() } else { digest(&rows) };
                let backwards = bug == Some(Bug::Backwards) && at > 3 && random.chance(0.5);
                let of = if backwards { at - 3 } else { at };
                let rows = if backwards { self.rows(query, of) } else { rows.clone() };
                Event::Value { version: version(of), settled: None, digest, rows }
            };
            server = rows;
            // What cannot be applied is recorded too: the checker must see it.
            let _ = held.apply(&event);
            seen.push(Seen { client, at: moment, event });
        }
        seen.push(Seen { client, at: moment + 10 * STEP, event: Event::Quiet });
    }

    fn change_event(
        &self,
        held: &Held,
        server: &[RowState],
        rows: &[RowState],
        at: usize,
        bug: Option<Bug>,
    ) -> Event {
        let base_rows = match bug {
            // As if the client held what was sent one change later.
            Some(Bug::HiddenWrongBase) => rows,
            _ => server,
        };
        let held = held.value.as_ref().map_or_else(|| version(0), |value| value.version.clone());
        let base = if bug == Some(Bug::WrongBase) { version(at + 1) } else { held };
        let is_kept = |row: &&RowState| rows.iter().any(|new| new.key == row.key);
        Event::Rows {
            version: version(at),
            settled: None,
            base,
            digest: digest(rows),
            set: rows.iter().filter(|row| !base_rows.contains(row)).cloned().collect(),
            gone: server.iter().filter(|row| !is_kept(row)).map(|row| row.key).collect(),
            order: (bug != Some(Bug::HiddenWrongBase)).then(|| rows.iter().map(|row| row.key).collect()),
        }
    }

    fn read(
        &self,
        client: usize,
        carries: bool,
        random: &mut Random,
        bug: Option<Bug>,
        seen: &mut Vec<Seen>,
    ) {
        let mut carried = None;
        for at in 0..self.states.len() {
            if random.chance(0.5) {
                continue;
            }
            let query = match random.chance(0.5) {
                true => Query::Row(random.below(KEYS)),
                false => Query::Team(random.below(TEAMS)),
            };
            let started = at as u64 * STEP;
            let older = if bug == Some(Bug::OlderThanCarried) {
                at.saturating_sub(random.below(8) as usize)
            } else {
                at
            };
            let rows = self.shown(&query, older, random, bug);
            let sent = carried.clone().filter(|_| carries);
            // The answer says that it is new enough: its rows are not.
            let event =
                Event::Answer { query, started, carried: sent, version: version(at), settled: None, rows };
            carried = Some(version(at));
            seen.push(Seen { client, at: started + 1, event });
        }
    }
}

fn version(number: usize) -> Version {
    Version(format!("00000000000000e1.{number:016x}"))
}

fn digest(rows: &[RowState]) -> String {
    format!("{:?}", rows.iter().map(|row| (row.key, row.rev)).collect::<Vec<_>>())
}
