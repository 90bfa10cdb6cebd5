//! What a load balancer does before several instances, for the clients of a test; or, with one instance, nothing.
//!
//! A connection that is refused, or closed before an answer has begun, is tried at the next instance, and so is 503
//! with `Retry-After`. Nothing else is: any other error is the test's failure.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use ureq::http::{Request, Response};
use ureq::{Agent, AsSendBody};

/// How long a request may go from one instance to the next.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two rounds in which no instance has taken the request.
const PAUSE: Duration = Duration::from_millis(20);

/// Shared by all who come through it; each clone has connections of its own.
pub struct Balancer {
    agent: Agent,
    doors: Arc<[Door]>,
    turn: Arc<AtomicUsize>,
}

struct Door {
    address: String,
    answers: AtomicUsize,
}

impl Balancer {
    /// Before the instances at these addresses, `http://…` without a slash at the end.
    pub fn new(doors: &[String]) -> Balancer {
        let door = |address: &String| Door { address: address.clone(), answers: AtomicUsize::new(0) };
        Balancer { agent: agent(), doors: doors.iter().map(door).collect(), turn: Arc::default() }
    }

    /// How many answers an instance has given.
    pub fn answers(&self, door: usize) -> usize {
        self.doors[door].answers.load(Ordering::SeqCst)
    }

    /// The answer to a request, made for the instance that it goes to.
    pub fn send<B: AsSendBody>(&self, request: impl Fn(&str) -> Request<B>) -> Response<String> {
        let began = Instant::now();
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        for tried in 1.. {
            let door = &self.doors[(first + tried) % self.doors.len()];
            let wrong = match self.agent.run(request(&door.address)) {
                Ok(answer) if is_put_off(&answer) => format!("{answer:?}"),
                Ok(answer) => {
                    door.answers.fetch_add(1, Ordering::SeqCst);
                    return read(answer).expect("an answer that has begun is complete");
                }
                Err(error) if was_not_taken(&error) => format!("{error:?}"),
                Err(error) => panic!("{}: no balancer would try that again: {error:?}", door.address),
            };
            assert!(began.elapsed() < PATIENCE, "{}: {wrong}", door.address);
            if tried % self.doors.len() == 0 {
                std::thread::park_timeout(PAUSE);
            }
        }
        unreachable!("it tries until it fails");
    }
}

impl Clone for Balancer {
    fn clone(&self) -> Balancer {
        Balancer { agent: agent(), doors: self.doors.clone(), turn: self.turn.clone() }
    }
}

/// Follows nothing and takes every status for an answer.
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
