//! Network namespaces without a name, and what is done in them.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;

use anyhow::{Context, anyhow, bail};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use crate::process::secrets::remove_secrets;

/// A network namespace. It is there as long as this is, or a process or socket is in it.
#[derive(Clone, Debug)]
pub struct Namespace(Arc<OwnedFd>);

/// Where tools of root are, whatever PATH says.
const FOLDERS: &str = "/usr/sbin:/sbin";

/// A tool that takes many commands at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// ip(8).
    Ip,
    /// tc(8).
    Tc,
    /// nft(8).
    Nft,
}

impl Tool {
    fn name(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::Tc => "tc",
            Self::Nft => "nft",
        }
    }

    /// Debian's package that has it.
    fn package(self) -> &'static str {
        match self {
            Self::Ip | Self::Tc => "iproute2",
            Self::Nft => "nftables",
        }
    }

    fn command(self) -> Command {
        let mut command = Command::new(self.name());
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:{FOLDERS}")).env("LC_ALL", "C");
        remove_secrets(&mut command);
        command.args(match self {
            Self::Ip | Self::Tc => ["-batch", "-"],
            Self::Nft => ["-f", "-"],
        });
        command
    }
}

impl Namespace {
    /// A new one, with nothing in it but a loopback interface that is down.
    ///
    /// # Errors
    /// As unshare(2) has them.
    pub fn new() -> io::Result<Self> {
        let made = thread::spawn(|| {
            // SAFETY: only the network is unshared, and only of this thread; descriptors stay common to all.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET)? };
            Ok(Self(Arc::new(File::open("/proc/thread-self/ns/net")?.into())))
        });
        made.join().unwrap_or_else(|_| Err(io::Error::other("a thread of ours failed")))
    }

    /// A path by which others can open it while we live.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// What tells it from all others.
    ///
    /// # Errors
    /// As fstat(2) has them.
    pub fn number(&self) -> io::Result<u64> {
        Ok(rustix::fs::fstat(&*self.0)?.st_ino)
    }

    /// Has a command run in it.
    pub fn enter(&self, command: &mut Command) {
        let namespace = self.0.clone();
        // SAFETY: setns is a system call and no more; the descriptor is open until the command is dropped.
        unsafe { command.pre_exec(move || move_to(&namespace)) };
    }

    /// Does something in it: sockets that are made then are of this host.
    ///
    /// # Errors
    /// As setns(2) has them.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        thread::scope(|scope| {
            let worker = scope.spawn(|| {
                move_to(&self.0)?;
                Ok(work())
            });
            worker.join().unwrap_or_else(|_| Err(io::Error::other("a thread of ours failed")))
        })
    }

    /// Sets a variable of the kernel, as in `net/ipv4/tcp_tw_reuse`.
    ///
    /// # Errors
    /// When it is not there, or cannot have that value.
    pub fn set(&self, name: &str, value: &str) -> io::Result<()> {
        self.within(|| std::fs::write(format!("/proc/sys/{name}"), value))?
    }

    /// Starts a command in it, which ends when this process does.
    ///
    /// # Errors
    /// As execve(2) and setns(2) have them.
    pub fn spawn(&self, mut command: Command) -> io::Result<Child> {
        self.enter(&mut command);
        server::external::spawn::spawn(command)
    }

    /// Has a tool do `commands`, one a line.
    ///
    /// # Errors
    /// When the tool is missing, or one of them fails: what it says.
    pub fn tell(&self, tool: Tool, commands: &str) -> anyhow::Result<()> {
        if commands.is_empty() {
            return Ok(());
        }
        let mut command = tool.command();
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = self.spawn(command).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                anyhow!("`{}` is not installed; install it (on Debian: apt install {})", tool.name(), tool.package())
            }
            _ => anyhow!("`{}` cannot be started: {error}", tool.name()),
        })?;
        let mut input = child.stdin.take().context("standard input is piped")?;
        // One that ends before it has read all says why.
        let _ = input.write_all(commands.as_bytes());
        drop(input);
        let output = child.wait_with_output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("`{}` fails: {}", tool.name(), said.trim().replace('\n', "; "));
        }
        Ok(())
    }
}

/// Moves the calling thread, or the process that it is about to become.
pub(crate) fn move_to(namespace: &impl AsFd) -> io::Result<()> {
    Ok(rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}

impl From<File> for Namespace {
    fn from(opened: File) -> Self {
        Self(Arc::new(opened.into()))
    }
}
