//! The client side of RESP2, without I/O.

use super::frame::integer;
use crate::kv::client::{Dialect, KvReply, Line};

/// RESP2, the protocol of Redis.
#[derive(Debug, Default)]
pub struct Resp;

impl Dialect for Resp {
    const AFTER_VALUE: Option<&'static [u8]> = None;

    #[inline]
    fn get(out: &mut Vec<u8>, key: &[u8]) {
        write_arguments(out, &[b"GET", key]);
    }

    #[inline]
    fn set(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
        write_arguments(out, &[b"SET", key, value]);
    }

    #[inline]
    fn line(line: &[u8], _key: &[u8]) -> Line {
        Line::Whole(match line {
            b"$-1" => KvReply::Miss,
            b"+OK" => KvReply::Stored,
            [b'-', ..] => KvReply::Error,
            [b'$', digits @ ..] => match integer(digits).and_then(|bytes| u32::try_from(bytes).ok()) {
                Some(bytes) => return Line::Value { bytes: bytes as usize },
                None => KvReply::Garbage,
            },
            _ => KvReply::Garbage,
        })
    }
}

/// Returns the requests that begin a connection, and the line that answers each: `AUTH` with a user or without, and `SELECT`.
pub fn login(user: &[u8], password: &[u8], database: Option<u32>) -> Vec<(Vec<u8>, &'static [u8])> {
    let database = database.map(|number| number.to_string());
    let auth: &[&[u8]] = if user.is_empty() { &[b"AUTH", password] } else { &[b"AUTH", user, password] };
    let auth = (!(user.is_empty() && password.is_empty())).then(|| auth.to_vec());
    let select = database.as_ref().map(|number| vec![&b"SELECT"[..], number.as_bytes()]);
    let requests = auth.into_iter().chain(select);
    let written = requests.map(|arguments| {
        let mut request = Vec::new();
        write_arguments(&mut request, &arguments);
        (request, &b"+OK"[..])
    });
    written.collect()
}

/// Writes a request as an array of strings.
#[inline]
fn write_arguments(out: &mut Vec<u8>, arguments: &[&[u8]]) {
    let mut number = itoa::Buffer::new();
    out.push(b'*');
    out.extend_from_slice(number.format(arguments.len()).as_bytes());
    for argument in arguments {
        out.extend_from_slice(b"\r\n$");
        out.extend_from_slice(number.format(argument.len()).as_bytes());
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(argument);
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Service;
    use crate::kv::KvConfig;
    use crate::kv::client::ReplyReader;
    use crate::kv::records::{self, Records};
    use crate::redis::{Redis, RedisConn};

    /// Reads a stream in pieces of this size; returns its responses.
    fn read(stream: &[u8], piece_bytes: usize, value: &[u8]) -> Vec<KvReply> {
        let (mut reader, mut replies) = (ReplyReader::<Resp>::default(), Vec::new());
        for mut piece in stream.chunks(piece_bytes) {
            while !piece.is_empty() {
                let (taken_bytes, reply) = reader.read(piece, b"k", value);
                replies.extend(reply);
                piece = &piece[taken_bytes..];
            }
        }
        replies
    }

    #[test]
    fn responses_in_any_pieces_are_read() {
        let stream = b"$5\r\n+OK\r\n\r\n$-1\r\n+OK\r\n-ERR syntax error\r\n-OOM full\r\n$5\r\n+OX\r\n\r\n$0\r\n\r\n$4\r\n+OK\r\r\n\
            $5\r\n+OK\r\nxx$5\r\n+OK\r\n\r\n";
        use KvReply::{Error, Hit, Miss, Stored, Wrong};
        for piece_bytes in crate::piece_sizes(stream.len()) {
            let replies = read(stream, piece_bytes, b"+OK\r\n");
            let expected = [Hit, Miss, Stored, Error, Error, Wrong, Wrong, Wrong, Wrong, Hit];
            assert_eq!(replies, expected, "in pieces of {piece_bytes}");
        }
    }

    #[test]
    fn unknown_response_is_garbage() {
        for stream in [
            &b":1\r\n"[..],
            b"*0\r\n",
            b"+PONG\r\n",
            b"$\r\n",
            b"$+1\r\n",
            b"$-2\r\n",
            b"$x\r\n",
            b"+OK\n",
            &[b'-'; 600],
        ] {
            assert_eq!(read(stream, stream.len(), b"v"), [KvReply::Garbage], "{}", stream.escape_ascii());
            assert_eq!(read(stream, 1, b"v")[0], KvReply::Garbage, "{}", stream.escape_ascii());
        }
    }

    #[test]
    fn service_answers_requests_of_the_client() {
        let redis = Redis::new(&KvConfig::default(), Box::new(|| 1));
        let records = Records::new(10, 1000, 3);
        let (mut conn, mut reader) = (RedisConn::default(), ReplyReader::<Resp>::default());
        for number in 0..100 {
            let (key, value) = (records::key(number), records.value(number));
            for (write, expected) in [(false, KvReply::Miss), (true, KvReply::Stored), (false, KvReply::Hit)] {
                let mut request = Vec::new();
                if write {
                    Resp::set(&mut request, &key, value)
                } else {
                    Resp::get(&mut request, &key)
                }
                assert_eq!(redis.receive(&mut conn, &request), 1);
                let response = redis.unsent(&conn);
                let response_bytes = response.len();
                assert_eq!(reader.read(response, &key, value), (response_bytes, Some(expected)));
                redis.sent(&mut conn, response_bytes);
            }
        }
    }
}
