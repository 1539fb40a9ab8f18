//! The integration tests, in one binary. Run them with `cargo test -p muxbench --test it -- [NAME]`.
#![cfg_attr(not(target_os = "linux"), allow(unused))]

use std::process::ExitCode;

mod accept;
mod advise;
mod atlas;
mod book;
mod cases;
mod common;
mod conformance;
mod controllers;
mod costs;
mod examples;
mod faults;
mod fleet;
mod gate;
mod hostile;
mod http;
mod http_client;
mod kv;
mod lab;
mod late;
mod observe;
mod others;
mod over_time;
mod overflow;
mod overload;
mod package;
mod page;
mod profile;
mod rates;
mod redis;
mod schemas;
mod secrets;
mod security;
mod stream;
mod syscalls;
mod targets;
mod tls;
mod tool;
mod transports;
mod udp;
mod waits;
mod warm_up;

fn main() -> ExitCode {
    cases::run(&[
        accept::cases,
        advise::cases,
        atlas::cases,
        book::cases,
        conformance::cases,
        controllers::cases,
        costs::cases,
        examples::cases,
        faults::cases,
        fleet::cases,
        gate::cases,
        hostile::cases,
        http::cases,
        http_client::cases,
        kv::cases,
        lab::cases,
        late::cases,
        observe::cases,
        others::cases,
        over_time::cases,
        overflow::cases,
        overload::cases,
        page::cases,
        profile::cases,
        package::cases,
        rates::cases,
        redis::cases,
        schemas::cases,
        secrets::cases,
        security::cases,
        stream::cases,
        syscalls::cases,
        targets::cases,
        tls::cases,
        tool::cases,
        transports::cases,
        udp::cases,
        waits::cases,
        warm_up::cases,
    ])
}
