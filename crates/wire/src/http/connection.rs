use super::batch::BatchState;
use super::service::Http;
use crate::read_buffer::ReadBuffer;
use crate::service::Service;
use crate::write_buffer::WriteBuffer;

/// State of a connection. An idle connection has at most a small buffer on the heap.
#[derive(Debug, Default)]
pub struct HttpConn {
    pub(super) output: WriteBuffer,
    pub(super) input: ReadBuffer,
    batch: BatchState,
}

impl Service for Http {
    type Conn = HttpConn;

    #[inline]
    fn receive(&self, conn: &mut HttpConn, input: &[u8]) -> u64 {
        if conn.batch.is_over() {
            conn.batch.drop_input(input.len());
            return 0;
        }
        conn.input.receive(input, |input| self.process(&mut conn.batch, input, conn.output.space()))
    }

    /// Returns heads and small content first. Larger content waits behind them, and nothing is added meanwhile.
    #[inline]
    fn unsent<'a>(&'a self, conn: &'a HttpConn) -> &'a [u8] {
        match (conn.output.unsent(), conn.batch.sending) {
            ([], Some(body)) => self.content.from(body.found, body.at_bytes),
            (unsent, _) => unsent,
        }
    }

    #[inline]
    fn sent(&self, conn: &mut HttpConn, count: usize) -> u64 {
        if !conn.output.is_empty() {
            conn.output.sent(count);
        } else if let Some(body) = &mut conn.batch.sending {
            body.at_bytes += count as u64;
            if body.at_bytes >= self.content.total_bytes(body.found) {
                conn.batch.sending = None;
            }
        }
        if !conn.output.is_empty() || conn.batch.sending.is_some() {
            return 0;
        }
        conn.input.resume(|input| self.process(&mut conn.batch, input, conn.output.space()))
    }

    #[inline]
    fn is_over(&self, conn: &HttpConn) -> bool {
        conn.batch.is_over()
    }

    #[inline]
    fn is_cut_short(&self, conn: &HttpConn) -> bool {
        conn.batch.is_cut_short()
    }

    #[inline]
    fn is_idle(&self, conn: &HttpConn) -> bool {
        // The buffer may hold the first half of an empty line, which is not part of a request.
        conn.batch.is_between_requests() && matches!(conn.input.pending(), b"" | b"\r")
    }
}
