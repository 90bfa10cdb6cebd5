//! A run from its start to the history that it leaves: rounds of writes, and rests between them.

use super::Args;
use super::backup::Backup;
use super::checker::check::check;
use super::checker::record::{Client, Era, Event, History, Micros, Query, RowState, Seen};
use super::faults::Fault;
use super::run::http::Connection;
use super::run::servers::Servers;
use super::run::watcher::Habit;
use super::run::{KEYS, Phase, Run, TEAMS, reader, watcher, writer};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long writers write before they rest.
const ROUND: Duration = Duration::from_secs(3);
/// How long mutations under way may take when writers begin to rest.
const REST_LIMIT: Duration = Duration::from_secs(60);
/// How long after the last mutation a client may hold an old state.
const QUIET_LIMIT: Duration = Duration::from_secs(15);
/// How long clients may take to read what a stopped server has sent.
const DRAIN: Duration = Duration::from_millis(500);

/// Runs. Returns the history, answers that no fault explains, and how many streams were opened.
pub fn drive(args: &Args) -> Result<(History, Vec<String>, usize), String> {
    let mut servers = Servers::start(args.recipe(), args.instances)?;
    let run = Run::new(servers.addresses.clone(), args.seed, args.pause);
    writer::seed(&run)?;
    let mut driver = Driver { args, run: &run, starts: vec![0], eras: Vec::new(), backup: None };
    let driven = std::thread::scope(|scope| {
        let run = &run;
        for number in 0..args.writers {
            scope.spawn(move || writer::write(run, number));
        }
        let habits = [Habit::Steady, Habit::Slow, Habit::Storm, Habit::Poll];
        for (number, habit) in habits.into_iter().cycle().take(args.watchers).enumerate() {
            scope.spawn(move || watcher::watch(run, number, habit));
        }
        for number in 0..args.readers {
            scope.spawn(move || reader::read(run, number, number % 3 != 2));
        }
        let driven = driver.rounds(&mut servers);
        run.begin(Phase::Over);
        driven
    });
    driven?;
    let seen = std::mem::take(&mut run.record().seen);
    let history = driver.history(seen)?;
    let mut record = run.record();
    let failures = std::mem::take(&mut record.failures);
    Ok((history, failures, record.streams))
}

struct Driver<'a> {
    args: &'a Args,
    run: &'a Run,
    starts: Vec<Micros>,
    eras: Vec<Era>,
    backup: Option<Backup>,
}

impl Driver<'_> {
    fn rounds(&mut self, servers: &mut Servers) -> Result<(), String> {
        let began = Instant::now();
        let mut random = self.run.random(u64::MAX - 1);
        let during: Vec<Fault> =
            self.args.fault.iter().copied().filter(|fault| *fault != Fault::Restore).collect();
        let mut round = 0;
        while began.elapsed().as_secs() < self.args.seconds {
            round += 1;
            self.run.begin(Phase::Writing);
            let until = Instant::now() + ROUND;
            while Instant::now() < until {
                self.run.pause(Duration::from_millis(u64::from(100 + random.below(900))));
                if !during.is_empty() {
                    let fault = during[random.below(during.len() as u32) as usize];
                    self.starts.extend(fault.happen(self.args, self.run, servers, &mut random)?);
                }
            }
            self.rest()?;
            if self.args.plant.is_some() {
                let seen = self.run.record().seen.clone();
                if !check(&self.history(seen)?).complaints.is_empty() {
                    return Ok(());
                }
            }
            if self.args.fault.contains(&Fault::Restore) {
                self.between_rounds(round, servers)?;
            }
        }
        Ok(())
    }

    /// Takes a backup after the first round, and restores it after the third; the same in every ten rounds.
    fn between_rounds(&mut self, round: u32, servers: &mut Servers) -> Result<(), String> {
        match (round % 10, &self.backup) {
            (1, _) => {
                servers.stop_all()?;
                // A new one has the same name as the old one, which goes with its value.
                self.backup = None;
                self.backup = Some(Backup::take(self.args.server_url(), &std::env::temp_dir())?);
            }
            (3, Some(backup)) => {
                let log = self.log()?;
                servers.stop_all()?;
                backup.restore()?;
                // Until the clients have read what the server had sent.
                self.run.pause(DRAIN);
                self.eras.push(Era { ended: Some(self.run.now()), log });
            }
            _ => return Ok(()),
        }
        self.starts.push(self.run.now());
        servers.restart_all()
    }

    /// Lets the writers rest, waits until every client holds the newest state, and records that it should.
    fn rest(&self) -> Result<(), String> {
        self.run.begin(Phase::Resting);
        if !self.run.until_rested(REST_LIMIT) {
            return Err("mutations are still under way a minute after the last one was sent".to_owned());
        }
        // A client that comes back receives what a planted bug has kept from it, so that the bug may not show later.
        let limit = if self.args.plant.is_some() { QUIET_LIMIT / 3 } else { QUIET_LIMIT };
        let until = Instant::now() + limit;
        let newest = self.newest(until)?;
        while Instant::now() < until && !self.is_quiet(&newest) {
            std::thread::park_timeout(Duration::from_millis(20));
        }
        let at = self.run.now();
        let mut record = self.run.record();
        let clients = 0..record.clients.len();
        record.seen.extend(clients.map(|client| Seen { client, at, event: Event::Quiet }));
        Ok(())
    }

    /// What a new client would see.
    fn newest(&self, until: Instant) -> Result<BTreeMap<Query, Vec<RowState>>, String> {
        let mut connection = Connection::default();
        let version = self.run.record().newest.clone();
        let mut newest = BTreeMap::new();
        for query in (0..KEYS).map(Query::Row).chain((0..TEAMS).map(Query::Team)) {
            let rows = loop {
                let asked = reader::ask(&mut connection, self.run.addresses[0], &query, version.as_ref())?;
                match asked {
                    Some(read) => break read.value,
                    None if Instant::now() > until => return Err("a query has no answer at rest".to_owned()),
                    None => std::thread::park_timeout(Duration::from_millis(20)),
                }
            };
            newest.insert(query, rows);
        }
        Ok(newest)
    }

    fn is_quiet(&self, newest: &BTreeMap<Query, Vec<RowState>>) -> bool {
        let record = self.run.record();
        record.clients.iter().zip(&record.held).all(|(client, held)| match client {
            Client::Watcher(query) => {
                held.value.as_ref().is_some_and(|value| newest.get(query) == Some(&value.rows))
            }
            Client::Reader { .. } => true,
        })
    }

    /// Everything up to now, with what clients have seen.
    fn history(&self, seen: Vec<Seen>) -> Result<History, String> {
        let log = self.log()?;
        let record = self.run.record();
        let last = Era { ended: None, log };
        Ok(History {
            versions: self.args.versions(),
            // With a replica, only answers to carried versions are promised to be new.
            reads_are_fresh: self.args.replica.is_none(),
            epoch_starts: if self.args.is_sqlite() { self.starts.clone() } else { Vec::new() },
            clients: record.clients.clone(),
            attempts: record.attempts.clone(),
            seen,
            eras: self.eras.iter().cloned().chain([last]).collect(),
        })
    }

    fn log(&self) -> Result<Vec<RowState>, String> {
        let mut connection = Connection::default();
        let mut states = Vec::new();
        for key in 0..KEYS {
            states.extend(reader::log(&mut connection, self.run.addresses[0], key)?);
        }
        Ok(states)
    }
}
