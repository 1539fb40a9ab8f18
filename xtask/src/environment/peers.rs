//! External programs that tests run: clients of services, servers to compare with, and launchers of distributed runs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::Context;
use xtask::root;

use super::debian::{self, Tool};

pub const TOOLS: &[Tool] = &[
    ("memcached", "-V", "memcached", "install memcached 1.6 (https://memcached.org)"),
    (
        "memcslap",
        "--version",
        "libmemcached-tools",
        "install the tools of libmemcached 1.1 (https://awesomized.github.io/libmemcached)",
    ),
    ("redis-server", "--version", "redis-server", "install Redis 7 (https://redis.io)"),
    ("redis-benchmark", "--version", "redis-tools", "install the tools of Redis 7 (https://redis.io)"),
    ("ab", "-V", "apache2-utils", "install Apache's ab (https://httpd.apache.org)"),
    ("h2load", "--version", "nghttp2-client", "install nghttp2's h2load (https://nghttp2.org)"),
    ("httperf", "--version", "httperf", "install httperf 0.9 (https://github.com/httperf/httperf)"),
    ("iperf3", "--version", "iperf3", "install iperf3 (https://github.com/esnet/iperf)"),
    ("curl", "--version", "curl", "install curl (https://curl.se)"),
    ("ip", "-V", "iproute2", "install iproute2 (https://wiki.linuxfoundation.org/networking/iproute2)"),
    ("nft", "--version", "nftables", "install nftables (https://netfilter.org/projects/nftables)"),
    ("mpirun", "--version", "openmpi-bin", "install Open MPI 4.1 (https://www.open-mpi.org)"),
    ("wrk", "-v", "wrk", "install wrk 4 (https://github.com/wg/wrk)"),
    ("nginx", "-v", "nginx", "install nginx (https://nginx.org)"),
    ("lighttpd", "-v", "lighttpd", "install lighttpd (https://www.lighttpd.net)"),
    ("srun", "-V", "slurm-wlm", "install Slurm 22.05 (https://slurm.schedmd.com)"),
    ("munged", "-V", "munge", "install MUNGE (https://dun.github.io/munge)"),
];

/// Commands from the packages of `TOOLS`. They are not tried, because running them has effects.
const COMPANIONS: &[&str] = &["memccapable", "scontrol", "slurmctld", "slurmd"];

/// Installs missing commands and returns a folder with links to all commands.
pub fn prepare() -> anyhow::Result<PathBuf> {
    debian::require(TOOLS)?;
    let folder = root().join("target/peers");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let tools = TOOLS.iter().map(|tool| tool.0).chain(COMPANIONS.iter().copied());
    for tool in tools {
        let path =
            debian::find(tool).with_context(|| format!("no `{tool}` in PATH; install it into a folder of PATH"))?;
        replace_link(&path, &folder.join(tool))?;
    }
    Ok(folder)
}

/// Replaces a link atomically, because several test commands may replace it at the same time.
fn replace_link(path: &Path, link: &Path) -> anyhow::Result<()> {
    if fs::read_link(link).is_ok_and(|target| target == path) {
        return Ok(());
    }
    let new = link.with_extension(std::process::id().to_string());
    symlink(path, &new).and_then(|()| fs::rename(&new, link)).with_context(|| link.display().to_string())
}
