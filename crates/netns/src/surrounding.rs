//! The testbed in which this process runs. `muxbench lab` keeps the testbed while a command, such as a launcher of workers,
//! runs on its hosts. The command requests measurements over a Unix socket.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::IpAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use load::LoadConfig;
use process::folder::PrivateFolder;
use process::stop::{POLL_INTERVAL, Stop};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::addresses;
use super::testbed::Testbed;
use crate::network::Network;
use crate::record::{Applied, NetworkRecord, RelayCounts};

/// The environment variable with the path of the socket.
pub const SOCKET: &str = "MUXBENCH_LAB";
/// The environment variable with the paths of the hosts' namespaces, the server's first.
pub const HOSTS: &str = "MUXBENCH_LAB_HOSTS";
/// The timeout for an answer. A measurement takes about a second, or a minute if nearly all packets are lost.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// The timeout for receiving a question or sending an answer.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(5);

/// A question, sent as one line.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum LabQuestion {
    /// The specification of the network, and its means.
    Network,
    Measure,
    /// The relay's counts since the last `Measure` or `RelayCounts`.
    RelayCounts,
}

/// The testbed in which this process runs.
#[derive(Debug)]
pub struct Surrounding {
    socket: PathBuf,
    /// The specification of the network.
    pub network: Network,
    /// The means of the network's conditions.
    pub applied: Applied,
}

impl Surrounding {
    /// The testbed that the environment names; `None` if it names none.
    pub fn here() -> anyhow::Result<Option<Self>> {
        std::env::var_os(SOCKET).filter(|path| !path.is_empty()).map(|path| Self::at(path.into())).transpose()
    }

    fn at(socket: PathBuf) -> anyhow::Result<Self> {
        let (network, applied) = ask(&socket, LabQuestion::Network, &Stop::default())?;
        Ok(Self { socket, network, applied })
    }

    /// The source addresses for a client whose host has `address`; empty if no host has it, or if the kernel can choose.
    pub fn sources(&self, config: &LoadConfig, address: IpAddr) -> Result<Vec<IpAddr>, String> {
        let mut hosts = 1..=self.network.clients.get();
        let Some(host) = hosts.find(|host| addresses::address(*host, address.is_ipv6(), 1) == address) else {
            return Ok(Vec::new());
        };
        let of_first = load::io::source_ports::sources_in(config, |ports| addresses::sources(config, ports))?;
        Ok(addresses::sources_of(host, &of_first))
    }

    /// Measures the network, which takes about a second.
    pub fn measure(&self, stop: &Stop) -> anyhow::Result<NetworkRecord> {
        ask(&self.socket, LabQuestion::Measure, stop)
    }

    /// The relay's counts since the last measurement or call; `None` without a relay.
    pub fn relay_counts(&self) -> anyhow::Result<Option<RelayCounts>> {
        ask(&self.socket, LabQuestion::RelayCounts, &Stop::default())
    }
}

fn ask<T: DeserializeOwned>(socket: &Path, question: LabQuestion, stop: &Stop) -> anyhow::Result<T> {
    let exchange = || -> anyhow::Result<String> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(POLL_INTERVAL))?;
        writeln!(stream, "{}", serde_json::to_string(&question)?)?;
        Ok(String::from_utf8(read_to_end(stream, stop)?)?)
    };
    let answer = exchange().with_context(|| {
        format!("the lab at {SOCKET}={} does not answer; start this command by `muxbench lab`", socket.display())
    })?;
    let answer: Result<T, String> = serde_json::from_str(&answer).context("the lab sent an invalid answer")?;
    answer.map_err(|reason| anyhow!(reason))
}

/// Reads to the end of the stream, with a timeout, unless `stop` aborts.
fn read_to_end(mut stream: UnixStream, stop: &Stop) -> anyhow::Result<Vec<u8>> {
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return Ok(all),
            Ok(count) => all.extend(&piece[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                stop.check()?;
                ensure!(Instant::now() < deadline, "no answer within {} s", ANSWER_TIMEOUT.as_secs());
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Answers questions about a testbed.
pub struct LabSocket {
    listener: UnixListener,
    /// The path of the socket.
    pub path: PathBuf,
    _folder: PrivateFolder,
}

impl LabSocket {
    /// Creates the socket.
    pub fn new() -> anyhow::Result<Self> {
        let folder = PrivateFolder::new().context("cannot create a folder for the lab's socket")?;
        let address = folder.address().map_err(anyhow::Error::msg)?;
        let path = address.path().context("the address is a path")?.to_owned();
        let listener = UnixListener::bind(&path).with_context(|| format!("cannot listen on {}", path.display()))?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, path, _folder: folder })
    }

    /// Answers the questions that have arrived. Drops connections that fail.
    pub fn answer(&self, testbed: &mut Testbed) {
        while let Ok((stream, _)) = self.listener.accept() {
            let _ = answer(stream, testbed);
        }
    }
}

fn answer(mut stream: UnixStream, testbed: &mut Testbed) -> anyhow::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(QUESTION_TIMEOUT))?;
    stream.set_write_timeout(Some(QUESTION_TIMEOUT))?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line)?;
    let text = match serde_json::from_str(&line)? {
        LabQuestion::Network => to_json(Ok((testbed.network(), testbed.applied()))),
        LabQuestion::Measure => to_json(testbed.measure(&Stop::default())),
        LabQuestion::RelayCounts => to_json(testbed.relay_counts()),
    }?;
    Ok(stream.write_all(text.as_bytes())?)
}

fn to_json<T: Serialize>(outcome: anyhow::Result<T>) -> serde_json::Result<String> {
    serde_json::to_string(&outcome.map_err(|error| format!("{error:#}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Links;

    #[test]
    fn missing_lab_is_reported_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let error = Surrounding::at(folder.path().join("socket")).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains("does not answer") && error.contains("muxbench lab"), "{error}");
    }

    #[test]
    fn client_sources_are_addresses_of_its_host() {
        let applied = Applied { links: Links::Veth, delay: None, loss: None, bandwidth: None };
        let network = "lab:clients=5".parse().unwrap();
        let surrounding = Surrounding { socket: PathBuf::new(), network, applied };
        let target = ([198, 18, 0, 1], 80);
        let sources = |connections, host: [u8; 4]| {
            let config = LoadConfig::small(target).with(|it| it.connections = connections);
            surrounding.sources(&config, host.into()).unwrap()
        };
        assert_eq!(sources(400, [198, 18, 3, 1]), [] as [IpAddr; 0], "the kernel can choose");
        // So many connections need the ports of several addresses.
        let many = sources(100_000, [198, 18, 3, 1]);
        assert!(many.len() > 1 && many.iter().all(|it| it.to_string().starts_with("198.18.3.")), "{many:?}");
        assert_eq!(sources(100_000, [10, 0, 0, 1]), [] as [IpAddr; 0], "the host is outside the lab");
    }

    #[test]
    fn abort_does_not_wait_for_a_measurement() {
        let (stream, _keeper) = UnixStream::pair().unwrap();
        stream.set_read_timeout(Some(POLL_INTERVAL)).unwrap();
        let stop = Stop::default();
        std::thread::scope(|scope| {
            let reading = scope.spawn(|| read_to_end(stream, &stop));
            stop.abort();
            assert_eq!(reading.join().unwrap().unwrap_err().to_string(), "stopped");
        });
    }

    #[test]
    fn failure_in_the_lab_is_returned_to_the_command() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let keeper = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            stream
                .write_all(to_json::<Network>(Err(anyhow!("the network loses nearly everything"))).unwrap().as_bytes())
                .unwrap();
            line
        });
        let error = Surrounding::at(socket).unwrap_err();
        assert_eq!(error.to_string(), "the network loses nearly everything");
        assert_eq!(keeper.join().unwrap(), "\"network\"\n");
    }
}
