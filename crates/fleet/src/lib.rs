#![doc = include_str!("../README.md")]
//!
//! # Layout
//! - [`local`]: clients that are processes of this machine
//! - [`workers`]: the first worker of a distributed run; [`worker`]: the other workers, which `identity` describes
//! - [`launcher`]: reads a worker's number from environment variables, such as those of Slurm, Open MPI and Kubernetes
//! - `handshake`, `pending`, `secret`, `round_trip`: mutual authentication; `addresses`: addresses of the first worker
//! - `message`, `channel`: messages between workers; `client`: waits for clients

mod addresses;
mod channel;
mod client;
mod handshake;
mod identity;
pub mod launcher;
pub mod local;
mod message;
mod pending;
mod round_trip;
mod secret;
pub mod worker;
pub mod workers;

pub use message::reencode;

use load::config::{LoadConfig, Pacing};

/// Assigns a client its share of a machine's CPUs, which `count` clients divide. On a shared CPU, an
/// open loop with `auto` pacing sleeps between requests instead of spinning all the time.
fn assign_cpus(config: LoadConfig, cpus: &[usize], number: usize, count: usize) -> LoadConfig {
    if count <= cpus.len() {
        let end = |number: usize| cpus.len() * number / count;
        return config.with(|it| it.client.cpus = cpus[end(number)..end(number + 1)].to_vec());
    }
    let pacing = match config.client.pacing {
        Pacing::Auto if !config.is_closed() => Pacing::SleepSpin,
        pacing => pacing,
    };
    let cpus = cpus.get(number % cpus.len().max(1)).copied().into_iter().collect();
    config.with(|it| (it.client.cpus, it.client.pacing) = (cpus, pacing))
}

#[cfg(test)]
mod tests {
    use load::config::{Loop, Pace, Schedule};

    use super::*;

    /// Creates an executable script in another process. If this process wrote it, a child forked meanwhile could inherit the
    /// open file, and executing the script would fail (ETXTBSY).
    pub(crate) fn write_program(path: &std::path::Path, script: &str) {
        let mut install = std::process::Command::new("install");
        install.args(["-m", "700", "/dev/stdin"]).arg(path).stdin(std::process::Stdio::piped());
        let mut process = install.spawn().unwrap();
        std::io::Write::write_all(&mut process.stdin.take().unwrap(), script.as_bytes()).unwrap();
        assert!(process.wait().unwrap().success());
    }

    fn config(rate_per_s: Option<f64>) -> LoadConfig {
        LoadConfig::small(([127, 0, 0, 1], 80)).with(|it| {
            it.the_loop = rate_per_s.map_or(Loop::CLOSED, |it| Loop::open(Pace::new(Schedule::Constant, it)));
        })
    }

    #[test]
    fn clients_of_one_machine_divide_or_share_its_cpus() {
        let cpus = |cpus: &[usize], count| {
            (0..count).map(|number| assign_cpus(config(Some(1.0)), cpus, number, count).client.cpus).collect::<Vec<_>>()
        };
        assert_eq!(cpus(&[1, 2, 3, 4, 5], 2), [vec![1, 2], vec![3, 4, 5]]);
        assert_eq!(cpus(&[1, 3], 3), [[1], [3], [1]]);
        assert_eq!(cpus(&[], 2), [[0; 0], [0; 0]], "without CPUs the system places the clients");
        let pacing = |rate, cpus: &[usize], count| assign_cpus(config(rate), cpus, 0, count).client.pacing;
        assert_eq!(pacing(Some(1.0), &[1], 1), Pacing::Auto);
        assert_eq!(
            pacing(Some(1.0), &[1], 2),
            Pacing::SleepSpin,
            "a spinning client would keep the other from the CPU"
        );
        assert_eq!(pacing(None, &[1], 2), Pacing::Auto, "a closed loop sleeps anyway");
    }
}
