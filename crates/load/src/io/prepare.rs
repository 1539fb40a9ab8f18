//! Requests before the ramp, such as storing a key-value store's data set.

use std::io;
use std::time::Instant;

use crate::config::LoadConfig;
use crate::error::LoadError;
use crate::io::connect::PROGRESS;
use crate::protocol::{ClientProtocol, Reply, own_line};
use crate::result::Class;
use crate::socket::Socket;

/// The size that completes a batch of requests: small enough that any server accepts the batch before the client reads.
const BATCH_BYTES: usize = 16 << 10;

/// Sends the protocol's preparations on one connection, and verifies the responses. Calls `progress` with the number verified.
pub fn prepare<P: ClientProtocol>(
    config: &LoadConfig,
    protocol: &P,
    socket: &Socket,
    progress: &mut dyn FnMut(u64),
) -> Result<(), LoadError> {
    let total = protocol.preparations();
    if total == 0 {
        return Ok(());
    }
    let failed = |error: io::Error| LoadError::connect(config, 0, error);
    let blocking = |on: bool| rustix::io::ioctl_fionbio(socket, !on).map_err(|error| failed(error.into()));
    // The blocking socket uses the timeouts that `connect` set.
    blocking(true)?;
    let (mut scratch, mut batch, mut inbox) = (Vec::new(), Vec::new(), Vec::with_capacity(BATCH_BYTES));
    let mut reader = P::Reader::default();
    let (mut sent, mut answered) = (0, 0);
    let mut reported = Instant::now();
    while answered < total {
        batch.clear();
        while sent < total && batch.len() < BATCH_BYTES {
            batch.extend_from_slice(protocol.encode(protocol.preparation(sent), &mut scratch));
            sent += 1;
        }
        write_all(socket, &batch).map_err(failed)?;
        while answered < sent {
            read(socket, &mut inbox).map_err(failed)?;
            let mut rest = &inbox[..];
            while !rest.is_empty() {
                let bytes = rest;
                let refused = |class: Class| {
                    let answer = own_line(bytes).map(|line| format!(" ({line})")).unwrap_or_default();
                    LoadError::Store { number: answered + 1, total, class: class.name(), answer }
                };
                if answered == sent {
                    return Err(refused(Class::Wrong));
                }
                let (taken_bytes, reply) = protocol.read(protocol.preparation(answered), &mut reader, rest);
                rest = &rest[taken_bytes..];
                match reply {
                    Some(Reply::Good) => answered += 1,
                    Some(Reply::Bad(class) | Reply::Last(Some(class))) => return Err(refused(class)),
                    Some(Reply::Last(None)) => return Err(refused(Class::Closed)),
                    Some(Reply::Garbage) => return Err(refused(Class::Wrong)),
                    None => {}
                }
            }
        }
        if reported.elapsed() >= PROGRESS {
            reported = Instant::now();
            progress(answered);
        }
    }
    blocking(false)
}

/// Reads once. The bytes may contain no content, but messages of TLS.
fn read(socket: &Socket, inbox: &mut Vec<u8>) -> io::Result<()> {
    inbox.clear();
    let count = socket.receive(inbox)?;
    if count == 0 || !socket.decrypt(inbox)? && inbox.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

fn write_all(socket: &Socket, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        bytes = &bytes[socket.write(bytes)?..];
    }
    Ok(())
}
