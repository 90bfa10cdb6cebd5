//! A load balancer in front of one or more instances, for the clients of a test.
//!
//! It tries the next instance when a connection is refused, or closed before an answer, and on 503 with `Retry-After`.
//! Any other error fails the test.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use ureq::http::{Request, Response};
use ureq::{Agent, AsSendBody};

/// How long a request is retried.
const PATIENCE: Duration = Duration::from_secs(20);
/// The pause after a round in which no instance accepted the request.
const PAUSE: Duration = Duration::from_millis(20);

/// Clones share the instances; each has its own connections.
pub struct Balancer {
    agent: Agent,
    instances: Arc<[Instance]>,
    turn: Arc<AtomicUsize>,
}

struct Instance {
    address: String,
    answers: AtomicUsize,
}

impl Balancer {
    /// In front of the instances at these addresses, `http://…` without a slash at the end.
    pub fn new(instances: &[String]) -> Balancer {
        let instance = |address: &String| Instance { address: address.clone(), answers: AtomicUsize::new(0) };
        Balancer { agent: agent(), instances: instances.iter().map(instance).collect(), turn: Arc::default() }
    }

    /// The number of answers of an instance.
    pub fn answers(&self, instance: usize) -> usize {
        self.instances[instance].answers.load(Ordering::SeqCst)
    }

    /// Sends a request, which is made for an instance, and returns the answer.
    pub fn send<B: AsSendBody>(&self, request: impl Fn(&str) -> Request<B>) -> Response<String> {
        let began = Instant::now();
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        for tried in 1.. {
            let instance = &self.instances[(first + tried) % self.instances.len()];
            let wrong = match self.agent.run(request(&instance.address)) {
                Ok(answer) if is_put_off(&answer) => format!("{answer:?}"),
                Ok(answer) => {
                    instance.answers.fetch_add(1, Ordering::SeqCst);
                    return read(answer).expect("an answer that has begun is complete");
                }
                Err(error) if was_not_taken(&error) => format!("{error:?}"),
                Err(error) => panic!("{}: a balancer does not retry this: {error:?}", instance.address),
            };
            assert!(began.elapsed() < PATIENCE, "{}: {wrong}", instance.address);
            if tried % self.instances.len() == 0 {
                std::thread::park_timeout(PAUSE);
            }
        }
        unreachable!("it tries until it fails");
    }
}

impl Clone for Balancer {
    fn clone(&self) -> Balancer {
        Balancer { agent: agent(), instances: self.instances.clone(), turn: self.turn.clone() }
    }
}

/// An agent that follows no redirect and treats every status as an answer.
pub fn agent() -> Agent {
    let config = Agent::config_builder().http_status_as_error(false).max_redirects(0).proxy(None);
    config.timeout_global(Some(PATIENCE)).build().new_agent()
}

/// The whole answer.
pub fn read(answer: Response<ureq::Body>) -> Result<Response<String>, ureq::Error> {
    let (head, mut body) = answer.into_parts();
    Ok(Response::from_parts(head, body.read_to_string()?))
}

fn is_put_off<T>(answer: &Response<T>) -> bool {
    answer.status() == 503 && answer.headers().contains_key("retry-after")
}

fn was_not_taken(error: &ureq::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, UnexpectedEof};
    let kinds = [BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, UnexpectedEof];
    matches!(error, ureq::Error::Io(error) if kinds.contains(&error.kind()))
}
