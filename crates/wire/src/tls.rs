//! The TLS records of one connection: received bytes in, content out, and the reverse. Client and server share this loop over the
//! states of rustls; each creates its own kind of connection and moves the bytes.

use rustls::Error;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};

/// The length of a record's content.
pub const RECORD_BYTES: usize = 16 << 10;
/// The most bytes that encryption usually adds to a record.
const RECORD_OVERHEAD_BYTES: usize = 64;

/// A connection of rustls: that of a client or that of a server.
pub trait Side {
    /// The data of this side.
    type Data;

    /// Processes received bytes up to the next state.
    fn next_state<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
}

impl Side for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn next_state<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }
}

impl Side for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn next_state<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }
}

/// The state of a connection after its records are processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsState {
    /// The handshake needs further bytes.
    Handshaking,
    /// Content may be sent and received.
    Open,
    /// The peer has announced the end of its content.
    Ended,
}

/// The record layer of one connection.
#[derive(Debug)]
pub struct RecordLayer<C> {
    connection: C,
    /// The received part of an incomplete record.
    incoming: Vec<u8>,
    /// The error that ended the connection. rustls must not see its records again.
    failure: Option<Error>,
    /// Records that the owner must send, in this order.
    pub outgoing: Vec<u8>,
}

impl<C: Side> RecordLayer<C> {
    /// Starts with a new connection.
    pub fn new(connection: C) -> Self {
        Self { connection, incoming: Vec::new(), failure: None, outgoing: Vec::new() }
    }

    /// The connection, for its properties.
    pub fn connection(&self) -> &C {
        &self.connection
    }

    /// Adds received bytes for [`RecordLayer::process`].
    pub fn feed(&mut self, received: &[u8]) {
        self.incoming.extend_from_slice(received);
    }

    /// Passes the content of complete records to `content`, and appends the answers of TLS to `outgoing`. After an error, they end
    /// with an alert.
    pub fn process(&mut self, mut content: impl FnMut(&[u8])) -> Result<TlsState, Error> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let mut at = 0;
        let progress = loop {
            let has_failed = self.failure.is_some();
            let UnbufferedStatus { mut discard, state } = self.connection.next_state(&mut self.incoming[at..]);
            let progress = match state {
                Ok(ConnectionState::ReadTraffic(mut records)) => {
                    while let Some(Ok(record)) = records.next_record() {
                        discard += record.discard;
                        content(record.payload);
                    }
                    None
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    let start = self.outgoing.len();
                    if let Err(EncodeError::InsufficientSize(error)) = data.encode(&mut []) {
                        self.outgoing.resize(start + error.required_size, 0);
                        let encoded = data.encode(&mut self.outgoing[start..]);
                        debug_assert!(encoded.is_ok(), "the buffer has the required size");
                    }
                    None
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    // `outgoing` keeps the bytes until the owner has sent them.
                    data.done();
                    None
                }
                // The alert follows.
                Err(error) if !has_failed => {
                    self.failure = Some(error);
                    None
                }
                Ok(ConnectionState::BlockedHandshake) => Some(TlsState::Handshaking),
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Some(TlsState::Ended),
                Ok(_) | Err(_) => Some(TlsState::Open),
            };
            at += discard;
            if let Some(progress) = progress.or(has_failed.then_some(TlsState::Open)) {
                break progress;
            }
        };
        self.incoming.drain(..at);
        self.failure.clone().map_or(Ok(progress), Err)
    }

    /// Appends records with this content to `outgoing`. Returns whether the connection can send content.
    pub fn encrypt(&mut self, content: &[u8]) -> bool {
        if self.failure.is_some() {
            return false;
        }
        // `incoming` has no complete record.
        let UnbufferedStatus { state, .. } = self.connection.next_state(&mut self.incoming);
        let Ok(ConnectionState::WriteTraffic(mut traffic)) = state else { return false };
        let room = content.len() + (content.len() / RECORD_BYTES + 1) * RECORD_OVERHEAD_BYTES;
        append(&mut self.outgoing, room, |room| traffic.encrypt(content, room))
    }

    /// Appends the announcement of the end to `outgoing`, unless the connection has failed or is not open yet.
    pub fn close(&mut self) {
        if self.failure.is_some() {
            return;
        }
        let UnbufferedStatus { state, .. } = self.connection.next_state(&mut self.incoming);
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) = state {
            append(&mut self.outgoing, RECORD_OVERHEAD_BYTES, |room| traffic.queue_close_notify(room));
        }
    }
}

/// Appends the bytes that `write` writes into `room_bytes` or more. Returns whether it wrote any.
fn append(
    outgoing: &mut Vec<u8>,
    mut room_bytes: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, EncryptError>,
) -> bool {
    let start = outgoing.len();
    let count = loop {
        outgoing.resize(start + room_bytes, 0);
        match write(&mut outgoing[start..]) {
            Ok(count) => break count,
            // Messages of TLS precede the bytes.
            Err(EncryptError::InsufficientSize(error)) if error.required_size > room_bytes => {
                room_bytes = error.required_size;
            }
            Err(_) => break 0,
        }
    };
    outgoing.truncate(start + count);
    count > 0
}
