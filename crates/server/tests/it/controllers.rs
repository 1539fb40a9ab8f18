//! Snapshots show the present values of the controllers.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use muxbench_server::{BatchControl, Controllers, PoolControl, ServeConfig, Server, Snapshot};
use wire::ServiceSpec;

use crate::config;

/// Has connections exchange messages until a snapshot of the server meets a condition.
fn exchange_until(server: &Server, what: &str, is_met: impl Fn(&Snapshot) -> bool) {
    let connect = || TcpStream::connect(server.address().ip().unwrap()).unwrap();
    let mut streams: Vec<TcpStream> = (0..16).map(|_| connect()).collect();
    let started = Instant::now();
    while !is_met(&server.snapshot()) {
        assert!(started.elapsed() < Duration::from_secs(60), "never happened: {what}");
        streams.iter_mut().for_each(|stream| stream.write_all(&[0]).unwrap());
        streams.iter_mut().for_each(|stream| stream.read_exact(&mut [0]).unwrap());
    }
}

fn start(controllers: Controllers) -> Server {
    let service = ServiceSpec::Fixed { request_bytes: 1, response_bytes: 1 };
    let config = ServeConfig { controllers, ..config("seda:1+2".parse().unwrap(), service) };
    Server::start(&config).unwrap()
}

pub fn batching_factor_changes_under_load() {
    let server = start(Controllers::default());
    assert_eq!(server.snapshot().batch_jobs, None);
    server.stop().unwrap();
    let server = start(Controllers { pool: Some(PoolControl::default()), ..Controllers::default() });
    assert_eq!(server.snapshot().batch_jobs, Some(1), "without a batching controller a thread takes one job");
    server.stop().unwrap();
    let batch = BatchControl { jobs_min: 2, jobs_max: 500, interval_ns: 2_000_000 };
    let server = start(Controllers { batch: Some(batch), ..Controllers::default() });
    exchange_until(&server, "the factor falls", |snapshot| snapshot.batch_jobs.is_some_and(|jobs| jobs < 300));
    let lowest = server.snapshot().batch_jobs.unwrap();
    exchange_until(&server, "the factor changes again", |snapshot| snapshot.batch_jobs != Some(lowest));
    assert!(server.snapshot().batch_jobs.is_some_and(|jobs| (2..=500).contains(&jobs)));
    server.stop().unwrap();
}
