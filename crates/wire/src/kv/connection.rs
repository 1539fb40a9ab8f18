use super::batch::BatchState;
use super::service::Kv;
use crate::read_buffer::ReadBuffer;
use crate::service::Service;
use crate::write_buffer::WriteBuffer;

/// State of a connection. An idle connection has at most a small buffer on the heap.
#[derive(Debug, Default)]
pub struct KvConn {
    pub(super) output: WriteBuffer,
    pub(super) input: ReadBuffer,
    batch: BatchState,
}

impl Service for Kv {
    type Conn = KvConn;

    #[inline]
    fn receive(&self, conn: &mut KvConn, input: &[u8]) -> u64 {
        if conn.batch.is_over() {
            return 0;
        }
        conn.input.receive(input, |input| self.process(&mut conn.batch, input, conn.output.space()))
    }

    #[inline]
    fn unsent<'a>(&'a self, conn: &'a KvConn) -> &'a [u8] {
        conn.output.unsent()
    }

    #[inline]
    fn sent(&self, conn: &mut KvConn, count: usize) -> u64 {
        conn.output.sent(count);
        if !conn.output.is_empty() {
            return 0;
        }
        conn.input.resume(|input| self.process(&mut conn.batch, input, conn.output.space()))
    }

    #[inline]
    fn is_over(&self, conn: &KvConn) -> bool {
        conn.batch.is_over()
    }
}
