//! Unnamed network namespaces, and processes in them.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;

use anyhow::{Context, anyhow, bail};
use process::secrets::remove_secrets;
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

/// A network namespace. The kernel removes it when this value, its clones, and all its processes and sockets are gone.
#[derive(Clone, Debug)]
pub struct Namespace(Arc<OwnedFd>);

/// The folders of system tools, which PATH may lack.
const FOLDERS: &str = "/usr/sbin:/sbin";

/// A tool that reads commands from standard input.
#[derive(Clone, Copy)]
pub struct Tool {
    name: &'static str,
    arguments: [&'static str; 2],
    /// The Debian package.
    package: &'static str,
}

impl Tool {
    pub const IP: Self = Self { name: "ip", arguments: ["-batch", "-"], package: "iproute2" };
    pub const TC: Self = Self { name: "tc", arguments: ["-batch", "-"], package: "iproute2" };
    pub const NFT: Self = Self { name: "nft", arguments: ["-f", "-"], package: "nftables" };
}

impl Namespace {
    /// Creates a namespace with only a loopback interface, which is down.
    pub fn new() -> io::Result<Self> {
        let made = thread::spawn(|| {
            // SAFETY: the call unshares the network of this thread only; all threads keep sharing descriptors.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET)? };
            Self::open("/proc/thread-self/ns/net")
        });
        made.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
    }

    pub fn open(path: &str) -> io::Result<Self> {
        Ok(Self(Arc::new(File::open(path)?.into())))
    }

    /// A path by which other processes can open the namespace while this value exists.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// The inode number, which identifies the namespace.
    pub fn inode(&self) -> io::Result<u64> {
        Ok(rustix::fs::fstat(&*self.0)?.st_ino)
    }

    /// Makes `command` run in the namespace.
    pub fn enter(&self, command: &mut Command) {
        let namespace = self.0.clone();
        // SAFETY: the closure only calls setns(2); the descriptor stays open until the command is dropped.
        unsafe { command.pre_exec(move || move_to(&namespace)) };
    }

    /// Calls `work` on a thread in the namespace. Sockets that it creates belong to the namespace.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        thread::scope(|scope| {
            let worker = scope.spawn(|| {
                move_to(&self.0)?;
                Ok(work())
            });
            worker.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
        })
    }

    /// Sets a kernel parameter, such as `net/ipv4/tcp_tw_reuse`.
    pub fn set(&self, name: &str, value: &str) -> io::Result<()> {
        self.within(|| std::fs::write(format!("/proc/sys/{name}"), value))?
    }

    /// Starts a command in the namespace. The kernel kills the command when this process ends.
    pub fn spawn(&self, mut command: Command) -> io::Result<Child> {
        self.enter(&mut command);
        server::external::spawn::spawn(command)
    }

    /// Runs a tool with commands, one per line.
    pub fn run_tool(&self, tool: Tool, commands: &str) -> anyhow::Result<()> {
        if commands.is_empty() {
            return Ok(());
        }
        let Tool { name, arguments, package } = tool;
        let mut command = Command::new(name);
        let path = std::env::var("PATH").unwrap_or_default();
        command.args(arguments).env("PATH", format!("{path}:{FOLDERS}")).env("LC_ALL", "C");
        remove_secrets(&mut command);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = self.spawn(command).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                anyhow!("`{name}` is not installed; install it (on Debian: apt install {package})")
            }
            _ => anyhow!("cannot start `{name}`: {error}"),
        })?;
        let mut input = child.stdin.take().context("standard input is piped")?;
        // If writing fails, the tool has ended early and reports the reason.
        let _ = input.write_all(commands.as_bytes());
        drop(input);
        let output = child.wait_with_output()?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            bail!("`{name}` failed: {}", errors.trim().replace('\n', "; "));
        }
        Ok(())
    }
}

fn move_to(namespace: &impl AsFd) -> io::Result<()> {
    Ok(rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}
