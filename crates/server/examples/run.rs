//! Runs a server in this process, and asks it once.

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;

use muxbench_server::{Architecture, ServeConfig, Server, ServiceSpec};

/// Serves one request by readiness of `poll`. `Architecture::all()` lists the others.
pub fn main() -> Result<(), Box<dyn Error>> {
    let architecture: Architecture = "poll".parse()?;
    let service = ServiceSpec::Fixed { request_bytes: 16, response_bytes: 100 };
    let server = Server::start(&ServeConfig::new(architecture, service))?;
    let mut client = TcpStream::connect(server.address().ip().ok_or("not an IP address")?)?;
    client.write_all(&[0; 16])?;
    client.read_exact(&mut [0; 100])?;
    println!("{architecture} answered at {}", server.address());
    server.stop()?;
    Ok(())
}
