//! The server of a trial: its readiness, its counters, and the failures that it causes.

use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use process::child::Process;
use process::stop::Stop;
use server::control::ServerEvent;
use server::spec::model::PerConnection;
use server::{Moved, Snapshot};
use wire::{Address, Ports};

use super::marks::Mark;
use crate::host::monitors;
use crate::host::ticks::Reading;
use crate::record::Trial;
use crate::samples::Unwritten;

/// The timeout for a server to start or to answer. It may have to read the counters of ten thousand processes.
pub(super) const SERVER_TIMEOUT: Duration = Duration::from_secs(30);
/// The time for a server to report its failure after a client has noticed it.
const CAUSE_TIMEOUT: Duration = Duration::from_secs(3);
/// The time after which a server that still answers has not failed.
const ALIVE: Duration = Duration::from_millis(500);

/// The failure that a server reported. The server reports it only once, so no other error may replace it.
#[derive(Debug, thiserror::Error)]
#[error("the server: {0}")]
struct ServerFailed(String);

pub(super) struct RunningServer {
    pub(super) process: Box<dyn Process<ServerEvent>>,
    pub(super) stop: Stop,
}

/// A server that listens.
#[derive(Clone)]
pub(super) struct Listening {
    pub(super) address: Address,
    pub(super) ports: Option<Ports>,
    /// The certificates that clients must trust.
    pub(super) certificates: Option<String>,
    /// The counters before the first connection.
    pub(super) snapshot: Snapshot,
}

impl RunningServer {
    /// Waits until the server listens.
    pub(super) fn wait_ready(&mut self, timeout: Duration) -> anyhow::Result<Listening> {
        match self.process.wait_event(&self.stop, Instant::now() + timeout)? {
            Some(ServerEvent::Ready { address, ports, certificates, snapshot }) => {
                Ok(Listening { address, ports, certificates, snapshot })
            }
            Some(ServerEvent::Failed { reason }) => Err(ServerFailed(reason).into()),
            Some(ServerEvent::Mark { .. } | ServerEvent::Moved { .. }) => bail!("the server is not ready"),
            None => Err(self.kill_silent(format_args!("is not ready after {} s", timeout.as_secs()))),
        }
    }

    /// Requests the server's counters.
    pub(super) fn mark(&mut self) -> anyhow::Result<Mark> {
        let ticks_before = Reading::now();
        match self.ask("mark")? {
            ServerEvent::Mark { snapshot } => {
                // This takes a millisecond, which does not belong to the window.
                let monitors = monitors::Reading::now();
                Ok(Mark { server: snapshot, ticks_before, ticks_after: Reading::now(), monitors })
            }
            _ => bail!("the server did not send its counters"),
        }
    }

    /// Requests the number of bytes that the server has moved.
    pub(super) fn moved(&mut self) -> anyhow::Result<Moved> {
        match self.ask("moved")? {
            ServerEvent::Moved { moved } => Ok(moved),
            _ => bail!("the server did not send the bytes it moved"),
        }
    }

    fn ask(&mut self, question: &str) -> anyhow::Result<ServerEvent> {
        self.process.send(question).map_err(|error| self.cause(error))?;
        match self.process.wait_event(&self.stop, Instant::now() + SERVER_TIMEOUT)? {
            Some(ServerEvent::Failed { reason }) => Err(ServerFailed(reason).into()),
            Some(event) => Ok(event),
            None => Err(self.kill_silent(format_args!("does not answer within {} s", SERVER_TIMEOUT.as_secs()))),
        }
    }

    fn kill_silent(&mut self, problem: std::fmt::Arguments<'_>) -> anyhow::Error {
        self.process.kill();
        anyhow!("the server {problem} ({})", self.process.exit_report())
    }

    /// Returns the server's failure, which caused `error`; `error` itself if the server reports none.
    pub(super) fn cause(&mut self, error: anyhow::Error) -> anyhow::Error {
        if error.is::<ServerFailed>() {
            return error;
        }
        self.failure_within(CAUSE_TIMEOUT).unwrap_or(error)
    }

    /// Waits for the next event, and returns it if it is a failure or an error.
    fn failure_within(&mut self, timeout: Duration) -> Option<anyhow::Error> {
        match self.process.next_event(Instant::now() + timeout) {
            Ok(Some(ServerEvent::Failed { reason })) => Some(ServerFailed(reason).into()),
            Err(error) => Some(error),
            Ok(_) => None,
        }
    }

    /// Returns the cause of a client's `error`. If the server refused connections, names the resource it lacked.
    pub(super) fn cause_of_client_error(&mut self, trial: &Trial, error: anyhow::Error) -> anyhow::Error {
        if error.is::<ServerFailed>() || error.is::<Unwritten>() || self.stop.is_aborted() {
            return error;
        }
        let count = match self.mark() {
            Ok(mark) => mark.server.totals.refused.unwrap_or(0),
            Err(failed) if failed.is::<ServerFailed>() => return failed,
            Err(_) => return self.cause(error),
        };
        if count == 0 {
            // A server that has answered before its end reports its failure instead of the second answer.
            return self.failure_within(ALIVE).or_else(|| self.mark().err()).unwrap_or(error);
        }
        let (resource, limits) = match trial.architecture.ours().map(|it| it.model.per_connection) {
            Some(PerConnection::Thread) => ("threads", "ulimit -u, kernel.threads-max, the cgroup's pids.max, memory"),
            Some(PerConnection::Process) => ("processes", "ulimit -u, kernel.pid_max, the cgroup's pids.max, memory"),
            Some(PerConnection::Nothing | PerConnection::Stack) | None => ("descriptors", "ulimit -n, fs.file-max"),
        };
        self.cause(anyhow!(
            "{error:#}; the server refused {count} connections because it ran out of {resource}: raise its limit ({limits})"
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use process::child::Child;

    use super::*;
    use crate::exec::fake;

    fn shell(script: &str, stop: &Stop) -> RunningServer {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        RunningServer { process: Box::new(Child::start("the server", command, &42).unwrap()), stop: stop.clone() }
    }

    #[test]
    fn failure_reported_by_the_server_is_the_cause() {
        let trial = fake::trials(1).remove(0);
        let script = r#"read line; echo '{"event":"failed","reason":"out of luck"}'; exit 1"#;
        for is_read_already in [false, true] {
            let stop = Stop::default();
            let mut server = shell(script, &stop);
            let error = if is_read_already { server.mark().err().unwrap() } else { anyhow!("a connection was reset") };
            let cause = server.cause_of_client_error(&trial, error);
            assert_eq!(cause.to_string(), "the server: out of luck");
        }
    }

    #[test]
    fn aborted_run_does_not_wait_for_a_silent_server() {
        let stop = Stop::default();
        let mut server = shell("exec sleep 1000", &stop);
        stop.abort();
        let outcomes = [server.mark().map(drop), server.moved().map(drop)];
        assert_eq!(outcomes.map(|outcome| outcome.unwrap_err().to_string()), ["stopped"; 2]);
    }
}
