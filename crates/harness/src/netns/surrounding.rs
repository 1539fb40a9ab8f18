//! A lab that somebody else keeps, with us on its hosts: `muxbench lab` makes it and keeps it while a command runs, and what runs
//! there asks by a Unix socket what its network is and does. So an engine can start ranks on the hosts of a lab.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::IpAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use load::LoadConfig;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::addresses;
use super::testbed::Testbed;
use crate::model::network::{Applied, NetworkReport, RelayCounts};
use crate::process::stop::{POLL_INTERVAL, Stop};
use crate::spec::network::Network;
use crate::spec::transport::SocketFolder;

/// The variable that names the socket, for what runs on a lab's hosts.
pub const SOCKET: &str = "MUXBENCH_LAB";
/// The one with the paths of the hosts' namespaces, the server's first, for what starts processes there.
pub const HOSTS: &str = "MUXBENCH_LAB_HOSTS";
/// A measurement takes about a second; of a network that is hardly there, a minute.
const PATIENCE: Duration = Duration::from_secs(120);
/// What a question may take to come.
const QUESTION_MAX: Duration = Duration::from_secs(5);

/// What is asked, in a line.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SearchGoal {
    /// What was asked of it, and how it is made.
    Network,
    /// What it does, measured now.
    Measure,
    /// What the relay did since then.
    Account,
}

/// The lab that we are in.
#[derive(Debug)]
pub struct Surrounding {
    socket: PathBuf,
    network: Network,
    applied: Applied,
}

impl Surrounding {
    /// The one that our environment names; `None` if it names none.
    ///
    /// # Errors
    /// When nobody keeps it any more.
    pub fn here() -> anyhow::Result<Option<Self>> {
        std::env::var_os(SOCKET).filter(|path| !path.is_empty()).map(|path| Self::at(path.into())).transpose()
    }

    fn at(socket: PathBuf) -> anyhow::Result<Self> {
        let (network, applied) = ask(&socket, SearchGoal::Network, &Stop::default())?;
        Ok(Self { socket, network, applied })
    }

    /// What was asked of its network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// How it is made.
    pub fn applied(&self) -> Applied {
        self.applied
    }

    /// Where the connections of a client come from whose host has `address`; nothing if the kernel may choose.
    ///
    /// # Errors
    /// When even all its addresses have too few ports.
    pub fn sources(&self, config: &LoadConfig, address: IpAddr) -> Result<Vec<IpAddr>, String> {
        let first = |host: &u32| addresses::address(*host, address.is_ipv6(), 1);
        // Whoever is none of its hosts has addresses that are not known here.
        let Some(host) = (1..=self.network.clients.get()).find(|host| first(host) == address) else {
            return Ok(Vec::new());
        };
        let of_the_first = load::ports::sources_in(config, |ports| addresses::sources(config, ports))?;
        Ok(addresses::sources_of(host, &of_the_first))
    }

    /// What it does, measured now; takes about a second.
    ///
    /// # Errors
    /// As [`Testbed::measure`]; and when nobody keeps it any more.
    pub fn measure(&self, stop: &Stop) -> anyhow::Result<NetworkReport> {
        ask(&self.socket, SearchGoal::Measure, stop)
    }

    /// What its relay did since it was measured; `None` where there is none.
    ///
    /// # Errors
    /// As [`Testbed::account`]; and when nobody keeps it any more.
    pub fn relay_counts(&self) -> anyhow::Result<Option<RelayCounts>> {
        ask(&self.socket, SearchGoal::Account, &Stop::default())
    }
}

fn ask<T: DeserializeOwned>(socket: &Path, question: SearchGoal, stop: &Stop) -> anyhow::Result<T> {
    let said = || -> anyhow::Result<String> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(POLL_INTERVAL))?;
        writeln!(stream, "{}", serde_json::to_string(&question)?)?;
        Ok(String::from_utf8(all_of(stream, stop)?)?)
    };
    let said = said().with_context(|| {
        format!("{SOCKET}={}: whoever keeps the lab does not answer; start this by `muxbench lab`", socket.display())
    })?;
    let answer: Result<T, String> = serde_json::from_str(&said).context("the answer of who keeps the lab")?;
    answer.map_err(|reason| anyhow!(reason))
}

/// What comes until the end, unless that takes too long or an end is wanted.
fn all_of(mut stream: UnixStream, stop: &Stop) -> anyhow::Result<Vec<u8>> {
    let deadline = Instant::now() + PATIENCE;
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return Ok(all),
            Ok(count) => all.extend(&piece[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                stop.check()?;
                ensure!(Instant::now() < deadline, "nothing for {} s", PATIENCE.as_secs());
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Answers for a lab.
pub struct Keeper {
    listener: UnixListener,
    socket: PathBuf,
    _folder: SocketFolder,
}

impl Keeper {
    /// Can be asked from now on.
    ///
    /// # Errors
    /// When there can be no socket.
    pub fn new() -> anyhow::Result<Self> {
        let folder = SocketFolder::new().context("no folder for the lab's socket")?;
        let address = folder.address().map_err(anyhow::Error::msg)?;
        let socket = address.path().context("it is of a Unix socket")?.to_owned();
        let listener = UnixListener::bind(&socket).with_context(|| socket.display().to_string())?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, socket, _folder: folder })
    }

    /// Where it is asked.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Answers who has come, one after the other, and does not wait for any. One who goes wrong is let go.
    pub fn answer(&self, lab: &mut Testbed) {
        while let Ok((stream, _)) = self.listener.accept() {
            let _ = answer(stream, lab);
        }
    }
}

fn answer(mut stream: UnixStream, lab: &mut Testbed) -> anyhow::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(QUESTION_MAX))?;
    stream.set_write_timeout(Some(QUESTION_MAX))?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line)?;
    let text = match serde_json::from_str(&line)? {
        SearchGoal::Network => said(Ok((lab.network(), lab.applied()))),
        SearchGoal::Measure => said(lab.measure(&Stop::default())),
        SearchGoal::Account => said(lab.relay_counts()),
    }?;
    Ok(stream.write_all(text.as_bytes())?)
}

fn said<T: Serialize>(outcome: anyhow::Result<T>) -> serde_json::Result<String> {
    serde_json::to_string(&outcome.map_err(|error| format!("{error:#}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::network::Links;

    #[test]
    fn a_lab_that_nobody_keeps_is_told_with_its_socket() {
        let folder = tempfile::tempdir().unwrap();
        let error = Surrounding::at(folder.path().join("socket")).unwrap_err();
        let said = format!("{error:#}");
        assert!(said.contains("does not answer") && said.contains("muxbench lab"), "{said}");
    }

    #[test]
    fn a_client_s_connections_come_from_its_own_host() {
        let applied = Applied { links: Links::Veth, delay: None, loss: None, bandwidth: None };
        let network = "lab:clients=5".parse().unwrap();
        let surrounding = Surrounding { socket: PathBuf::new(), network, applied };
        let service = wire::ServiceSpec::Fixed { request_bytes: 1, response_bytes: 1 };
        let target = ([198, 18, 0, 1], 80);
        let sources = |connections, host: [u8; 4]| {
            let config = LoadConfig { connections, ..LoadConfig::new(target, service.clone()) };
            surrounding.sources(&config, host.into()).unwrap()
        };
        assert_eq!(sources(400, [198, 18, 3, 1]), [] as [IpAddr; 0], "the kernel may choose");
        // More than one address has ports for.
        let many = sources(100_000, [198, 18, 3, 1]);
        assert!(many.len() > 1 && many.iter().all(|it| it.to_string().starts_with("198.18.3.")), "{many:?}");
        assert_eq!(sources(100_000, [10, 0, 0, 1]), [] as [IpAddr; 0], "of no host of the lab");
    }

    #[test]
    fn a_keeper_that_measures_is_not_waited_for_when_an_end_is_wanted() {
        let (stream, _keeper) = UnixStream::pair().unwrap();
        stream.set_read_timeout(Some(POLL_INTERVAL)).unwrap();
        let stop = Stop::default();
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| all_of(stream, &stop));
            stop.abort();
            assert_eq!(asked.join().unwrap().unwrap_err().to_string(), "stopped");
        });
    }

    #[test]
    fn what_goes_wrong_there_is_said_here() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let keeper = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            stream
                .write_all(said::<Network>(Err(anyhow!("hardly anything comes through"))).unwrap().as_bytes())
                .unwrap();
            line
        });
        let error = Surrounding::at(socket).unwrap_err();
        assert_eq!(error.to_string(), "hardly anything comes through");
        assert_eq!(keeper.join().unwrap(), "\"network\"\n");
    }
}
