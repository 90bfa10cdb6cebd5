//! The jobs of one part of the queue, counted by their sources: by network, by organization, by known browser. A source is
//! a network at an organization; its jobs weigh the same.

use super::fair_queue::{Limit, Origin};
use std::collections::{HashMap, HashSet, VecDeque};
use web::network::{Counted, Network};

/// The numbers of the jobs that wait, oldest first, and the counts of those that wait or ran lately.
#[derive(Default)]
pub(super) struct Part {
    waiting: usize,
    networks: HashMap<Network, OfNetwork>,
    sites: HashMap<Counted, Shared>,
    organizations: HashMap<String, Shared>,
    /// By browser and account.
    known: HashMap<String, Vec<(u64, Network)>>,
    /// The latest jobs that ran.
    recent: VecDeque<Origin>,
}

#[derive(Default)]
struct OfNetwork {
    waiting: usize,
    recent: usize,
    /// By organization.
    jobs: HashMap<String, Vec<u64>>,
}

/// What the networks of a site, or those with jobs about an organization, have together.
#[derive(Default)]
struct Shared {
    waiting: usize,
    recent: usize,
    /// Those with jobs that wait.
    networks: HashSet<Network>,
}

/// Jobs that weigh the same.
pub(super) struct Source<'p> {
    /// The jobs of their network that wait or ran lately, or half of those of its site, if that is more.
    pub network_weight: usize,
    /// The jobs of their organization that do.
    pub organization_weight: usize,
    /// Their numbers, oldest first.
    pub jobs: &'p [u64],
}

impl Part {
    /// Adds a job that waits. It may be older than others.
    pub fn add(&mut self, number: u64, origin: &Origin) {
        self.waiting += 1;
        let network = self.networks.entry(origin.network).or_default();
        network.waiting += 1;
        let jobs = network.jobs.entry(origin.organization.clone()).or_default();
        jobs.insert(jobs.partition_point(|one| *one < number), number);
        self.organizations.entry(origin.organization.clone()).or_default().add(origin.network);
        if let Some(site) = origin.network.site() {
            self.sites.entry(site).or_default().add(origin.network);
        }
        if let Some(known) = &origin.known {
            self.known.entry(known.clone()).or_default().push((number, origin.network));
        }
    }

    /// Removes a job that waits.
    pub fn remove(&mut self, number: u64, origin: &Origin) {
        self.waiting -= 1;
        let (mut is_last, mut is_last_of_network) = (false, false);
        if let Some(network) = self.networks.get_mut(&origin.network) {
            network.waiting -= 1;
            if let Some(jobs) = network.jobs.get_mut(&origin.organization) {
                if let Ok(place) = jobs.binary_search(&number) {
                    jobs.remove(place);
                }
                is_last = jobs.is_empty();
            }
            if is_last {
                network.jobs.remove(&origin.organization);
            }
            is_last_of_network = network.waiting == 0;
        }
        if let Some(organization) = self.organizations.get_mut(&origin.organization) {
            organization.remove(origin.network, is_last);
        }
        if let Some(site) = origin.network.site()
            && let Some(site) = self.sites.get_mut(&site)
        {
            site.remove(origin.network, is_last_of_network);
        }
        if let Some(known) = &origin.known
            && let Some(jobs) = self.known.get_mut(known)
        {
            jobs.retain(|(one, _)| *one != number);
            if jobs.is_empty() {
                self.known.remove(known);
            }
        }
        self.drop_if_empty(origin);
    }

    /// Counts a job that ran.
    pub fn note_run(&mut self, origin: Origin) {
        self.networks.entry(origin.network).or_default().recent += 1;
        self.organizations.entry(origin.organization.clone()).or_default().recent += 1;
        if let Some(site) = origin.network.site() {
            self.sites.entry(site).or_default().recent += 1;
        }
        self.recent.push_back(origin);
    }

    /// Counts only the latest `most` of the jobs that ran.
    pub fn forget_all_but(&mut self, most: usize) {
        while self.recent.len() > most
            && let Some(origin) = self.recent.pop_front()
        {
            if let Some(network) = self.networks.get_mut(&origin.network) {
                network.recent -= 1;
            }
            if let Some(organization) = self.organizations.get_mut(&origin.organization) {
                organization.recent -= 1;
            }
            if let Some(site) = origin.network.site()
                && let Some(site) = self.sites.get_mut(&site)
            {
                site.recent -= 1;
            }
            self.drop_if_empty(&origin);
        }
    }

    /// How many jobs that ran are counted.
    #[cfg(test)]
    pub fn recently(&self) -> usize {
        self.recent.len()
    }

    /// Whether it keeps nothing.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty()
            && self.sites.is_empty()
            && self.organizations.is_empty()
            && self.known.is_empty()
            && self.waiting == 0
    }

    fn drop_if_empty(&mut self, origin: &Origin) {
        if self.networks.get(&origin.network).is_some_and(|one| one.waiting + one.recent == 0) {
            self.networks.remove(&origin.network);
        }
        let organization = self.organizations.get(&origin.organization);
        if organization.is_some_and(|one| one.weight() == 0) {
            self.organizations.remove(&origin.organization);
        }
        if let Some(site) = origin.network.site()
            && self.sites.get(&site).is_some_and(|one| one.weight() == 0)
        {
            self.sites.remove(&site);
        }
    }

    /// How many jobs wait that a limit concerns, for a job from `new`.
    pub fn waiting(&self, limit: Limit, new: &Origin) -> usize {
        match limit {
            Limit::Known => {
                let known = new.known.as_ref().and_then(|known| self.known.get(known));
                known.map_or(0, Vec::len)
            }
            Limit::Network => self.networks.get(&new.network).map_or(0, |one| one.waiting),
            Limit::Site => self.site(new).map_or(0, |one| one.waiting),
            Limit::Organization => self.organizations.get(&new.organization).map_or(0, |one| one.waiting),
            Limit::Part => self.waiting,
        }
    }

    /// The sources of these jobs.
    pub fn sources(&self, limit: Limit, new: &Origin) -> Vec<Source<'_>> {
        match limit {
            Limit::Known => {
                let known = new.known.as_ref().and_then(|known| self.known.get(known));
                let each = known.into_iter().flatten();
                each.map(|(number, network)| self.source_of(*network, number)).collect()
            }
            Limit::Network => self
                .networks
                .get(&new.network)
                .map_or(Vec::new(), |one| self.all_of(new.network, one).collect()),
            Limit::Site => {
                let networks = self.site(new).into_iter().flat_map(|site| &site.networks);
                let networks = networks.filter_map(|one| Some((*one, self.networks.get(one)?)));
                networks.flat_map(|(network, one)| self.all_of(network, one)).collect()
            }
            Limit::Organization => {
                let organization = self.organizations.get(&new.organization);
                let networks = organization.into_iter().flat_map(|one| &one.networks);
                networks
                    .filter_map(|one| self.source(*one, self.networks.get(one)?, &new.organization))
                    .collect()
            }
            Limit::Part => {
                self.networks.iter().flat_map(|(network, one)| self.all_of(*network, one)).collect()
            }
        }
    }

    fn all_of<'p>(&'p self, network: Network, jobs: &'p OfNetwork) -> impl Iterator<Item = Source<'p>> {
        jobs.jobs.keys().filter_map(move |organization| self.source(network, jobs, organization))
    }

    fn source<'p>(&'p self, network: Network, jobs: &'p OfNetwork, organization: &str) -> Option<Source<'p>> {
        Some(Source {
            network_weight: self.weight(network),
            organization_weight: self.organization_weight(organization),
            jobs: jobs.jobs.get(organization)?,
        })
    }

    /// One job of a known browser, which no organization makes heavier.
    fn source_of<'p>(&self, network: Network, number: &'p u64) -> Source<'p> {
        let network_weight = self.weight(network);
        Source { network_weight, organization_weight: 0, jobs: std::slice::from_ref(number) }
    }

    fn site(&self, new: &Origin) -> Option<&Shared> {
        self.sites.get(&new.network.site()?)
    }

    /// The weight of an organization, as in [`Source::organization_weight`].
    pub fn organization_weight(&self, organization: &str) -> usize {
        self.organizations.get(organization).map_or(0, Shared::weight)
    }

    /// The weight of a network, as in [`Source::network_weight`].
    pub fn weight(&self, network: Network) -> usize {
        let own = self.networks.get(&network).map_or(0, |one| one.waiting + one.recent);
        let site = network.site().and_then(|site| self.sites.get(&site));
        own.max(site.map_or(0, |site| site.weight().div_ceil(2)))
    }
}

impl Shared {
    fn weight(&self) -> usize {
        self.waiting + self.recent
    }

    fn add(&mut self, network: Network) {
        self.waiting += 1;
        self.networks.insert(network);
    }

    /// Removes a job of a network, which may be the last one that it has here.
    fn remove(&mut self, network: Network, is_last: bool) {
        self.waiting -= 1;
        if is_last {
            self.networks.remove(&network);
        }
    }
}
