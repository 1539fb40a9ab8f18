//! A round: hostile clients, in some rounds a client that is killed, and honest clients with short-lived connections. The
//! server must answer all honest requests.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use load::config::{HttpTarget, HttpTraffic, KvTraffic, LoadConfig, Loop, Pace, Pacing, Phases, Popularity, Schedule};
use load::tools::hostile::MANNERS;
use wire::ServiceSpec;
use wire::stream::Stream;

use super::server::Server;
use crate::hostile::Hostile;
use crate::process::{Process, start};

/// Clients of each kind; together fewer than the 300 workers of a pool.
const HOSTILE: u32 = 90;
const KILLED: &str = "40";
const HONEST: u32 = 40;
const ACTS_PER_S: f64 = 20.0;
const RATE_PER_S: f64 = 400.0;
const REQUESTS_PER_CONNECTION: u32 = 4;
/// A client is killed in each round whose number (per server, from 0) is a multiple of this.
const KILL_INTERVAL: u64 = 2;

/// Runs a round of about `duration`, and returns what was done. Fails if an honest request got no answer, if hostile clients did nothing, or if the client
/// to kill ended earlier.
pub fn run(binary: &Path, server: &Server, duration: Duration) -> anyhow::Result<String> {
    let number = server.samples.len() as u64;
    let honest = honest(server, duration, number)?;
    let manners = MANNERS.iter().map(|manner| manner.name.to_owned()).collect();
    let config = honest.clone().with(|it| it.connections = HOSTILE);
    let mut hostile = Hostile::start(config, manners, ACTS_PER_S);
    let folder = tempfile::tempdir()?;
    let start_victim = || start_victim(binary, server, &honest, folder.path());
    let mut victim = number.is_multiple_of(KILL_INTERVAL).then(start_victim).transpose()?;
    hostile.wait_until("all hostile clients are connected", |tally| tally.begun >= u64::from(HOSTILE))?;
    let (is_to_kill, before) = (victim.is_some(), hostile.tally());
    let mut killed = Ok(false);
    let outcome = load::run(&honest, &mut |event| {
        // Kill the client at the first progress report in the second half of the round.
        if let load::Event::Progress { elapsed_ns, .. } = event
            && u128::from(elapsed_ns) * 2 > duration.as_nanos()
            && let Some(mut victim) = victim.take()
        {
            killed = kill(&mut victim.0);
        }
    })
    .context("honest clients")?;
    let report = outcome.report;
    drop(outcome.connections);
    let is_killed = killed?;
    // A round without the intended fault proves nothing.
    ensure!(
        is_killed || !is_to_kill,
        "no client was killed: the honest clients reported no progress after half of the round"
    );
    let tally = hostile.tally();
    ensure!(
        tally.begun > before.begun && tally.sent_bytes > before.sent_bytes,
        "the hostile clients did nothing during the honest load: {before:?}, then {tally:?}"
    );
    ensure!(report.errors.total() == 0, "honest clients: {:?}", report.errors);
    let (completed, planned) = (report.completed, report.planned);
    // The end of a closed loop may interrupt its last transactions.
    let is_all = completed == planned || honest.is_closed();
    ensure!(completed > 0 && is_all, "{completed} of {planned} honest requests were answered");
    let killed = if is_killed { "; a client killed" } else { "" };
    let (begun, sent_kib) = (tally.begun, tally.sent_bytes >> 10);
    Ok(format!("{completed} honest requests; {begun} hostile connections, {sent_kib} KiB{killed}"))
}

/// Returns a load that a server easily handles in addition to the other clients.
fn honest(server: &Server, duration: Duration, number: u64) -> anyhow::Result<LoadConfig> {
    let phases =
        Phases { ramp_ns: 0, warm_up_ns: 0, measure_ns: duration.as_nanos() as u64, cool_down_ns: 30_000_000_000 };
    let config = |service| {
        LoadConfig::new(server.served.address, service).with(|it| {
            it.connections = HONEST;
            if it.the_loop != Loop::Stream {
                let pace = Pace::new(Schedule::SlotRandom, RATE_PER_S);
                it.the_loop = Loop::Sessions { requests_per_connection: REQUESTS_PER_CONNECTION, pace };
            }
            it.phases = phases;

            // Share the CPUs with other rounds.

            it.client.pacing = Pacing::SleepSpin;
            it.client.seed = number;
            it.client.timeout_ns = 30_000_000_000;
        })
    };
    Ok(match server.service.as_str() {
        // The default sizes of `serve`.
        "fixed" => config(ServiceSpec::Fixed { request_bytes: 128, response_bytes: 10_240 }),
        "http" => {
            let http = HttpTraffic::new(vec![HttpTarget::get("/bytes/5000", Some(5_000))]);
            config(ServiceSpec::HTTP).with(|it| it.http = Some(http))
        }
        name @ ("kv" | "redis") => {
            let keys = Popularity::Uniform;
            let kv = KvTraffic { records: 1_000, value_bytes_min: 10, value_bytes_max: 1_000, get_share: 0.8, keys };
            let (memory_max_bytes, item_max_bytes) = (64 << 20, 1 << 20);
            let service = match name {
                "kv" => ServiceSpec::Kv { memory_max_bytes, item_max_bytes },
                _ => ServiceSpec::Redis { memory_max_bytes, item_max_bytes },
            };
            config(service).with(|it| it.kv = Some(kv))
        }
        // Bursts use persistent connections and no planned rate.
        "stream" => config(ServiceSpec::Stream(Stream::default())).with(|it| {
            it.connections = 4;
            it.client.pacing = Pacing::Auto;
        }),
        other => bail!("invalid --service `{other}`: use fixed, http, kv, redis or stream"),
    })
}

/// Starts the client that the round kills. `folder` is for its results.
fn start_victim(binary: &Path, server: &Server, honest: &LoadConfig, folder: &Path) -> anyhow::Result<Process> {
    let mut command = Command::new(binary);
    command.args(["load", "--connections", KILLED, "--measure", "1h", "--ramp", "0", "--warm-up", "0", "--json"]);
    command.arg("--output").arg(folder.join("results"));
    command.args(["--service", &server.service, "--target", &server.served.address.to_string()]);
    if server.service != "stream" {
        command.args(["--rate", "200", "--requests-per-connection", "3"]);
    }
    if server.service == "http" {
        command.args(["--path", "/bytes/100000"]);
    }
    if let Some(kv) = &honest.kv {
        // The honest clients expect the values that this client sets; another seed would set other values.
        command.args(["--records", &kv.records.to_string(), "--seed", &honest.client.seed.to_string()]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    start(&mut command)
}

/// Kills the client, which must still be running.
fn kill(victim: &mut Child) -> anyhow::Result<bool> {
    if let Some(status) = victim.try_wait()? {
        let errors = victim.stderr.take().map(std::io::read_to_string).transpose()?.unwrap_or_default();
        bail!("the client to kill ended earlier ({status}): {}", errors.trim());
    }
    victim.kill()?;
    victim.wait()?;
    Ok(true)
}
