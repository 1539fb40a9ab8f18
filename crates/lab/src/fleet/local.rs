//! Clients that are processes of this machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use load::Event;
use load::config::LoadConfig;
use load::merge::Account;

use super::{
    Draft, Fleet, Gathered, Look, Member, await_ready, await_report, deadline_of, draft_of, monotonic_ns, placed,
};
use crate::child::Child;
use crate::network::Host;
use crate::runner::LoadOrder;

/// Between the last client's being ready and the beginning of all: as long as telling them may take, in nanoseconds...
const LEAD_NS: u64 = 5_000_000;
/// ...and so much longer for each of them.
const LEAD_NS_PER_CLIENT: u64 = 2_000_000;

/// As many processes as a trial asks for, which are started for it.
pub struct Local {
    program: PathBuf,
    /// Of a lab, if there is one.
    hosts: Vec<Host>,
    clients: Vec<Client>,
    /// When those that measure must have given their account.
    deadline: Instant,
}

struct Client {
    child: Child<Event>,
    config: LoadConfig,
    samples: Option<Draft>,
}

impl Local {
    /// Clients are `load` of this muxbench.
    pub fn new(program: PathBuf) -> Self {
        Self { program, hosts: Vec::new(), clients: Vec::new(), deadline: Instant::now() }
    }
}

/// What starts a client: it writes its samples to a file.
pub(super) fn command(program: &Path, samples: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["load", "--control", "--samples"]).arg(samples);
    command
}

impl Fleet for Local {
    fn place(&mut self, hosts: &[Host]) -> anyhow::Result<()> {
        self.hosts = hosts.to_vec();
        Ok(())
    }

    fn broadcast(&mut self, order: &LoadOrder, draft: &Path) -> anyhow::Result<()> {
        self.clients.clear();
        let parts = order.config.parts();
        let count = parts.len();
        // With a view to all that the trial opens: by themselves each would begin with the first address.
        let sources = match self.hosts.as_slice() {
            [] if count > 1 => load::ports::sources(&order.config).map_err(anyhow::Error::msg)?,
            // Of a lab, as was chosen for the first host; of a client alone, its own business.
            _ => order.config.sources.clone(),
        };
        for (number, config) in parts.into_iter().enumerate() {
            let host = self.hosts.get(number % self.hosts.len().max(1));
            let sources = host.map_or_else(|| sources.clone(), |host| host.sources(&sources));
            let (name, path, config) = if count == 1 {
                ("the client".to_owned(), draft.to_owned(), config)
            } else {
                let config = LoadConfig { sources, ..config };
                let config = placed(config, &order.config.cpus, number, count);
                (format!("client {} of {count}", number + 1), draft_of(draft, number), config)
            };
            let order = LoadOrder { config: config.clone(), trial: order.trial.clone() };
            let mut command = command(&self.program, &path);
            if let Some(host) = host {
                host.enter(&mut command);
            }
            // Of one alone they stay where they are.
            let samples = Some(Draft::new(path, count == 1));
            self.clients.push(Client { child: Child::start(name, command, &order)?, config, samples });
        }
        Ok(())
    }

    fn barrier(&mut self, look: &mut Look<'_>) -> anyhow::Result<u64> {
        for client in &mut self.clients {
            await_ready(&mut client.child, &client.config, look)?;
        }
        let start_ns = monotonic_ns() + LEAD_NS + LEAD_NS_PER_CLIENT * self.clients.len() as u64;
        for client in &mut self.clients {
            client.child.say(&format!("begin {start_ns}"))?;
            self.deadline = deadline_of(&client.config);
        }
        Ok(start_ns)
    }

    fn gather(&mut self, look: &mut Look<'_>) -> anyhow::Result<Vec<Gathered>> {
        let mut gathered = Vec::new();
        for client in &mut self.clients {
            let report = await_report(&mut client.child, self.deadline, look)?;
            let samples = client.samples.take().expect("its account is taken once");
            let account =
                Account { config: client.config.clone(), machine: String::new(), place: String::new(), report };
            gathered.push(Gathered { account, samples });
        }
        Ok(gathered)
    }

    fn dismiss(&mut self) {
        // Those that have given their account end in order; others are killed when dropped.
        for client in self.clients.iter_mut().filter(|client| client.samples.is_none()) {
            client.child.end();
        }
        self.clients.clear();
    }
}

impl Member for Child<Event> {
    fn name(&self) -> String {
        self.called().to_owned()
    }

    fn next(&mut self, deadline: Instant) -> anyhow::Result<Option<Event>> {
        Child::next(self, deadline)
    }

    fn give_up(&mut self) -> String {
        self.kill();
        self.last_words()
    }
}
