//! The rules of a history:
//!
//! 1. A mutation that was answered is in the log, once, with the answered revisions. One that was refused is not.
//! 2. Every value, row change, `same` and answer shows a state between the newest commit that it surely holds and the
//!    newest that it can hold, with all rows of a commit or none.
//! 3. Versions that a client sees never go back within an epoch; a row's revisions never go back at all, but for a
//!    restore from a backup.
//! 4. Row changes apply to what the client holds.
//! 5. Equal digests of a query mean equal values, and so do equal versions where versions are exact.
//! 6. An answer is not older than the version that its request carried.
//! 7. When all writers rest, every client soon holds the newest state.

use super::held::Held;
use super::record::{Client, Event, History, Micros, Query, RowState, Seen, Version, Versions};
use super::truth::{Bounds, Truth, era_at};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Complaints of one run that are shown; one bug makes thousands.
const COMPLAINTS_MAX: usize = 20;

/// What is wrong with a history, and how much was looked at.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Each names the client and the moment.
    pub complaints: Vec<String>,
    /// States that were compared with the log.
    pub states: usize,
    /// Row changes among them.
    pub row_changes: usize,
    /// `same` among them.
    pub sames: usize,
    /// Answers among them that had to be as new as a carried version.
    pub carried: usize,
    /// Clients at rest that held the newest state.
    pub rests: usize,
}

/// Judges a history.
pub fn check(history: &History) -> Verdict {
    let mut verdict = Verdict::default();
    let mut truths = Vec::new();
    for era in 0..history.eras.len() {
        truths.push(Truth::of(history, era, &mut verdict.complaints));
    }
    let checker = Checker { history, truths, epochs: epochs(history) };
    let mut clients: Vec<State> = history.clients.iter().map(|_| State::default()).collect();
    let mut values = Values::default();
    for seen in &history.seen {
        if verdict.complaints.len() >= COMPLAINTS_MAX {
            break;
        }
        let judged = checker.judge(seen, &mut clients[seen.client], &mut values, &mut verdict);
        if let Err(why) = judged {
            let client = &history.clients[seen.client];
            let at = seen.at as f64 / 1e6;
            verdict.complaints.push(format!("client {} ({client:?}) at {at:.3} s: {why}", seen.client));
        }
    }
    verdict
}

struct Checker<'a> {
    history: &'a History,
    truths: Vec<Truth>,
    /// When each epoch began, where a start of the server begins one.
    epochs: HashMap<&'a str, Micros>,
}

/// What a client has seen.
#[derive(Default)]
struct State {
    held: Held,
    newest: Option<Version>,
    /// The era of the last event, and the newest revision seen of each row in it.
    era: usize,
    revs: HashMap<u32, u64>,
}

impl State {
    /// Rule 3 for versions.
    fn advance(&mut self, version: &Version) -> Result<(), String> {
        if let Some(newest) = &self.newest
            && version.compare(newest).is_some_and(std::cmp::Ordering::is_lt)
        {
            return Err(format!("version {} after {}", version.0, newest.0));
        }
        self.newest = Some(version.clone());
        Ok(())
    }

    /// Rule 3 for rows. A row that is not in the result has no revision to compare.
    fn advance_rows(&mut self, rows: &[RowState]) -> Result<(), String> {
        for row in rows {
            let newest = self.revs.entry(row.key).or_default();
            if row.rev < *newest {
                return Err(format!("row {} goes back from revision {newest} to {}", row.key, row.rev));
            }
            *newest = row.rev;
        }
        Ok(())
    }
}

/// Values that were seen, by what should identify them.
#[derive(Default)]
struct Values<'a> {
    by_digest: HashMap<(&'a Query, &'a str, usize), Vec<RowState>>,
    by_version: HashMap<(&'a Query, Version), Vec<RowState>>,
}

/// Rule 5.
fn same_value<K>(named: Entry<'_, K, Vec<RowState>>, name: &str, rows: &[RowState]) -> Result<(), String> {
    let known = named.or_insert_with(|| rows.to_vec());
    match name.is_empty() || known == rows {
        true => Ok(()),
        false => Err(format!("{name} means {} and {}", shown(known), shown(rows))),
    }
}

impl<'a> Checker<'a> {
    fn judge(
        &self,
        seen: &'a Seen,
        state: &mut State,
        values: &mut Values<'a>,
        verdict: &mut Verdict,
    ) -> Result<(), String> {
        let era = era_at(&self.history.eras, seen.at);
        if era != state.era {
            state.era = era;
            (state.revs, state.newest) = (HashMap::new(), None);
        }
        let has_versions = self.history.versions != Versions::None;
        let is_exact = self.history.versions == Versions::Exact;
        match (&self.history.clients[seen.client], &seen.event) {
            (Client::Watcher(query), Event::Quiet) => {
                let newest = self.truths[era].newest(query, seen.at);
                let held = state.held.value.as_ref().ok_or("it holds nothing when all writers rest")?;
                verdict.rests += 1;
                match held.rows == newest {
                    true => Ok(()),
                    false => Err(format!(
                        "all writers rest, but it holds {} and the newest state is {}",
                        shown(&held.rows),
                        shown(&newest)
                    )),
                }
            }
            (Client::Watcher(query), event) => {
                state.held.apply(event)?;
                let Some(held) = &state.held.value else { return Ok(()) };
                verdict.states += 1;
                verdict.row_changes += usize::from(matches!(event, Event::Rows { .. }));
                verdict.sames += usize::from(matches!(event, Event::Same { .. }));
                let named = values.by_digest.entry((query, digest(event), era));
                same_value(named, digest(event), &held.rows)?;
                if is_exact {
                    let named = values.by_version.entry((query, held.version.clone()));
                    same_value(named, &held.version.0, &held.rows)?;
                }
                let version = held.version.clone();
                let settled = held.settled.clone();
                let rows = held.rows.clone();
                let bounds = Bounds { settled: Some(&settled), received: seen.at, ..Bounds::default() };
                self.compare(era, query, &rows, bounds)?;
                if has_versions {
                    state.advance(&version)?;
                }
                state.advance_rows(&rows)
            }
            (
                Client::Reader { carries },
                Event::Answer { query, started, carried, version, settled, rows },
            ) => {
                verdict.states += 1;
                let is_older = carried.as_ref().and_then(|carried| version.compare(carried));
                if has_versions && is_older.is_some_and(std::cmp::Ordering::is_lt) {
                    let carried = carried.as_ref().map_or("", |carried| &carried.0);
                    return Err(format!("the request carried {carried}, the answer is of {}", version.0));
                }
                let answered_before = if self.history.reads_are_fresh { *started } else { 0 };
                let carried = carried.as_ref();
                let bounds = Bounds {
                    settled: Some(settled.as_ref().unwrap_or(version)),
                    carried: carried.map(|carried| (carried, *started)),
                    answered_before,
                    received: seen.at,
                };
                self.compare(era, query, rows, bounds)?;
                if !carries {
                    return Ok(());
                }
                // Without a version it begins again: it may have lost what it had seen.
                match carried {
                    Some(_) => verdict.carried += 1,
                    None => state.revs.clear(),
                }
                state.advance_rows(rows)
            }
            (Client::Reader { .. }, Event::Quiet) => Ok(()),
            (client, event) => Err(format!("{client:?} cannot see {event:?}")),
        }
    }

    /// Rule 2.
    fn compare(
        &self,
        era: usize,
        query: &Query,
        rows: &[RowState],
        bounds: Bounds<'_>,
    ) -> Result<(), String> {
        let began = bounds.settled.and_then(|version| self.epochs.get(version.epoch())).copied();
        let answered_before = bounds.answered_before.max(began.unwrap_or(0));
        let judged = self.truths[era].judge(query, rows, Bounds { answered_before, ..bounds });
        judged.map_err(|why| format!("{why}; shown {}", shown(rows)))
    }
}

fn digest(event: &Event) -> &str {
    match event {
        Event::Value { digest, .. } | Event::Rows { digest, .. } => digest,
        _ => "",
    }
}

/// Rows as `key@revision`.
fn shown(rows: &[RowState]) -> String {
    let rows: Vec<String> = rows.iter().map(|row| format!("{}@{}", row.key, row.rev)).collect();
    format!("[{}]", rows.join(" "))
}

/// When the server was started that drew each epoch: the last start before the epoch was seen. A state of the epoch has
/// all that was answered before that start.
fn epochs(history: &History) -> HashMap<&str, Micros> {
    let mut epochs = HashMap::new();
    if history.epoch_starts.is_empty() {
        return epochs;
    }
    for seen in &history.seen {
        let version = match &seen.event {
            Event::Value { version, .. } | Event::Rows { version, .. } | Event::Answer { version, .. } => {
                version
            }
            Event::Same { .. } | Event::Quiet => continue,
        };
        let began = history.epoch_starts.iter().copied().filter(|start| *start <= seen.at).max().unwrap_or(0);
        let known = epochs.entry(version.epoch()).or_insert(began);
        *known = (*known).min(began);
    }
    epochs
}
