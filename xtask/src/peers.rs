//! Somebody else's clients of the services `kv`, `http` and `stream`, the servers that they are compared with, and the engines
//! that start fleets.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::debian::{self, Tool};
use xtask::root;

/// The variable that tells tests where the commands are.
pub const VARIABLE: &str = "MUXBENCH_PEERS";

/// What there is to run: the command that shows it is there, its package, and what to do on another system.
const TOOLS: &[Tool] = &[
    ("memcached", "-V", "memcached", "install memcached 1.6 (https://memcached.org)"),
    (
        "memcslap",
        "--version",
        "libmemcached-tools",
        "install the tools of libmemcached 1.1 (https://awesomized.github.io/libmemcached)",
    ),
    ("ab", "-V", "apache2-utils", "install Apache's ab (https://httpd.apache.org)"),
    ("h2load", "--version", "nghttp2-client", "install nghttp2's h2load (https://nghttp2.org)"),
    ("httperf", "--version", "httperf", "install httperf 0.9 (https://github.com/httperf/httperf)"),
    ("iperf3", "--version", "iperf3", "install iperf3 (https://github.com/esnet/iperf)"),
    ("curl", "--version", "curl", "install curl (https://curl.se)"),
    ("ip", "-V", "iproute2", "install iproute2 (https://wiki.linuxfoundation.org/networking/iproute2)"),
    ("nft", "--version", "nftables", "install nftables (https://netfilter.org/projects/nftables)"),
    ("mpirun", "--version", "openmpi-bin", "install Open MPI 4.1 (https://www.open-mpi.org)"),
];

/// Those that end with an error when they say their version, as `srun` does without a configuration, or of whom only root may have
/// the folder in its PATH.
const OTHERS: &[Tool] = &[
    ("wrk", "-v", "wrk", "install wrk 4 (https://github.com/wg/wrk)"),
    ("nginx", "-v", "nginx", "install nginx (https://nginx.org)"),
    ("srun", "-V", "slurm-wlm", "install Slurm 22.05 (https://slurm.schedmd.com)"),
    ("munged", "-V", "munge", "install MUNGE (https://dun.github.io/munge)"),
];

/// Those that a tool comes with, whose every call does something.
const BESIDE: &[&str] = &["memccapable", "scontrol", "slurmctld", "slurmd"];

/// Where commands are that only root may have in its PATH.
const FOLDERS_OF_ROOT: &[&str] = &["/usr/sbin", "/usr/local/sbin"];

/// Installs what is missing, and gives a folder that has all of them, as links.
///
/// # Errors
/// When one is missing and cannot be installed: why, and what to do.
pub fn prepare() -> anyhow::Result<PathBuf> {
    debian::require(TOOLS)?;
    for (tool, argument, package, otherwise) in OTHERS {
        if find(tool).is_none_or(|path| Command::new(path).arg(argument).output().is_err()) {
            eprintln!("{tool}: it is not here; installing Debian's {package}");
            debian::install(package, otherwise).with_context(|| format!("`{tool}` does not run"))?;
        }
    }
    let folder = root().join("target/peers");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let tools = TOOLS.iter().chain(OTHERS).map(|tool| tool.0).chain(BESIDE.iter().copied());
    for tool in tools {
        let path = find(tool).with_context(|| format!("`{tool}` is in no folder of PATH; install it into one"))?;
        put_link(&path, &folder.join(tool))?;
    }
    Ok(folder)
}

/// Where a command is.
fn find(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(FOLDERS_OF_ROOT.iter().map(PathBuf::from));
    folders.map(|folder| folder.join(tool)).find(|path| path.is_file())
}

/// A link to `path`. Several of us may be at it.
fn put_link(path: &Path, link: &Path) -> anyhow::Result<()> {
    if fs::read_link(link).is_ok_and(|there| there == path) {
        return Ok(());
    }
    let new = link.with_extension(std::process::id().to_string());
    symlink(path, &new).and_then(|()| fs::rename(&new, link)).with_context(|| link.display().to_string())
}
