//! How names are resolved: by the operating system, or by the DNS servers of the setting `dns_servers`. And text records, which the
//! operating system does not look up.

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{RData, RecordType};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::time::timeout;

/// A question has an answer by then. `sarsen doctor` gives a check five seconds.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(4);

/// Resolves names.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    servers: Vec<SocketAddr>,
}

/// The text records of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Records {
    /// These; none: the name has no such record.
    Are(Vec<String>),
    /// They could not be looked up, for this reason.
    Unknown(String),
}

/// Looks up text records.
#[derive(Clone, Debug)]
pub struct TextRecords(Names);

impl TextRecords {
    pub(crate) fn new(names: Names) -> TextRecords {
        TextRecords(names)
    }

    /// Those of a name.
    pub async fn of(&self, name: &str) -> Records {
        let resolver = match self.0.resolver() {
            Ok(resolver) => resolver,
            Err(why) => return Records::Unknown(why),
        };
        // With a dot at its end it is looked up as it is, not below the domain of this machine.
        let question = resolver.lookup(format!("{name}."), RecordType::TXT);
        match timeout(ANSWER_TIME_MAX, question).await {
            Err(_) => Records::Unknown(format!("no answer within {} s", ANSWER_TIME_MAX.as_secs())),
            Ok(Err(error)) if error.is_no_records_found() => Records::Are(Vec::new()),
            Ok(Err(error)) => Records::Unknown(error.to_string()),
            Ok(Ok(found)) => {
                let texts = found.answers().iter().filter_map(|record| match &record.data {
                    RData::TXT(text) => Some(String::from_utf8_lossy(&text.txt_data.concat()).into_owned()),
                    _ => None,
                });
                Records::Are(texts.collect())
            }
        }
    }
}

impl Names {
    /// By these servers; none: by the operating system.
    pub(crate) fn new(servers: Vec<SocketAddr>) -> Names {
        Names { servers }
    }

    /// The addresses of a host, at least one. The error says why there is none.
    pub(crate) async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![address]);
        }
        let question = async {
            if self.servers.is_empty() { by_the_system(host).await } else { self.by_dns(host).await }
        };
        match timeout(ANSWER_TIME_MAX, question).await {
            Err(_) => Err(format!("no answer within {} s", ANSWER_TIME_MAX.as_secs())),
            Ok(Ok(addresses)) if addresses.is_empty() => Err("it has no address".to_owned()),
            Ok(answer) => answer,
        }
    }

    async fn by_dns(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        let found = self.resolver()?.lookup_ip(format!("{host}.")).await;
        found.map(|found| found.iter().collect()).map_err(|error| error.to_string())
    }

    fn resolver(&self) -> Result<TokioResolver, String> {
        let builder = if self.servers.is_empty() {
            TokioResolver::builder_tokio().map_err(|error| error.to_string())?
        } else {
            let servers = self.servers.iter().map(|place| {
                let mut server = NameServerConfig::udp_and_tcp(place.ip());
                server.connections.iter_mut().for_each(|connection| connection.port = place.port());
                server
            });
            let config = ResolverConfig::from_name_servers(servers.collect());
            let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
            let mut options = ResolverOpts::default();
            (options.timeout, options.attempts) = (Duration::from_secs(2), 1);
            *builder.options_mut() = options;
            builder
        };
        builder.build().map_err(|error| error.to_string())
    }
}

#[expect(clippy::disallowed_methods, reason = "every address is judged before it is used: connector.rs")]
async fn by_the_system(host: &str) -> Result<Vec<IpAddr>, String> {
    let found = tokio::net::lookup_host((host, 0)).await;
    found.map(|found| found.map(|place| place.ip()).collect()).map_err(|error| error.to_string())
}
