//! The load generator against servers in this process.

mod churn;
mod client;
mod closed;
mod datagrams;
mod idle;
mod logins;
mod reconnects;
mod replay;
mod retries;
mod server;
mod stream;
mod tls;

#[path = "../../examples/open_loop.rs"]
mod example;

#[test]
fn example_drives_an_open_loop() {
    example::main().unwrap();
}
