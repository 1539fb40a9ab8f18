//! Execution of commands, and the replies to them.

use super::frame::{Arguments, integer};
use super::storage::Redis;
use crate::kv::store::{After, Item};

/// The version of Redis that the service imitates. Clients depend on it.
const VERSION: &str = "7.0.15-muxbench";
/// Longest part of a name or of arguments that an error repeats, as in Redis.
const REPEATED_BYTES_MAX: usize = 128;
/// Space for a number as a decimal.
const NUMBER_BYTES_MAX: usize = 20;
const OUT_OF_MEMORY: &str = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
const NOT_A_NUMBER: &str = "-ERR value is not an integer or out of range\r\n";
const OVERFLOW: &str = "-ERR increment or decrement would overflow\r\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    Get,
    Set,
    Mget,
    Incr,
    Mset,
    Ping,
    Echo,
    Del,
    Exists,
    Config,
    Info,
    List,
    Quit,
    // `POST` and `Host:`, with which a web page may abuse a browser. As in Redis, the connection ends.
    Http,
}

/// The name of each command in lower case, and its lowest and highest number of arguments. Frequent commands come first.
const COMMANDS: &[(&str, usize, usize, Command)] = &[
    ("get", 1, 1, Command::Get),
    ("set", 2, usize::MAX, Command::Set),
    ("mget", 1, usize::MAX, Command::Mget),
    ("incr", 1, 1, Command::Incr),
    ("mset", 2, usize::MAX, Command::Mset),
    ("ping", 0, 1, Command::Ping),
    ("echo", 1, 1, Command::Echo),
    ("del", 1, usize::MAX, Command::Del),
    ("exists", 1, usize::MAX, Command::Exists),
    ("config", 1, usize::MAX, Command::Config),
    ("info", 0, usize::MAX, Command::Info),
    ("command", 0, usize::MAX, Command::List),
    ("quit", 0, usize::MAX, Command::Quit),
    ("post", 0, usize::MAX, Command::Http),
    ("host:", 0, usize::MAX, Command::Http),
];

/// The next step of a connection after a command.
pub(super) enum Next<'a> {
    Request,
    // Look up these keys, for which the reply has begun.
    Keys(Arguments<'a>),
    End,
}

impl Redis {
    /// Executes the command `name`.
    #[inline]
    pub(super) fn execute<'a>(&self, name: &[u8], mut arguments: Arguments<'a>, out: &mut Vec<u8>) -> Next<'a> {
        let row = COMMANDS.iter().find(|row| name.eq_ignore_ascii_case(row.0.as_bytes()));
        let Some(&(name, least, most, command)) = row else {
            write_unknown(name, arguments, out);
            return Next::Request;
        };
        let is_unpaired = command == Command::Mset && arguments.len() % 2 == 1;
        if !(least..=most).contains(&arguments.len()) || is_unpaired {
            write_wrong_number(name, out);
            return Next::Request;
        }
        let mut next = || arguments.next().expect("the number of arguments was checked");
        match command {
            Command::Get => write_item(self.store.get(next()).as_ref(), out),
            Command::Set => {
                let (key, value) = (next(), next());
                if arguments.len() > 0 {
                    out.extend_from_slice(b"-ERR syntax error\r\n");
                } else if self.store.fits(key.len(), value.len()) {
                    self.set(key, value);
                    out.extend_from_slice(b"+OK\r\n");
                } else {
                    out.extend_from_slice(OUT_OF_MEMORY.as_bytes());
                }
            }
            Command::Mget => {
                write_number(out, b'*', arguments.len());
                return Next::Keys(arguments);
            }
            Command::Incr => self.increment(next(), out),
            Command::Mset => self.set_all(arguments, out),
            Command::Ping => match arguments.next() {
                Some(text) => write_text(text, out),
                None => out.extend_from_slice(b"+PONG\r\n"),
            },
            Command::Echo => write_text(next(), out),
            Command::Del => write_number(out, b':', arguments.filter(|key| self.store.delete(key)).count()),
            Command::Exists => {
                write_number(out, b':', arguments.filter(|key| self.store.peek(key).is_some()).count());
            }
            Command::Config => self.config(next(), arguments, out),
            Command::Info => self.info(out),
            Command::List => out.extend_from_slice(b"*0\r\n"),
            Command::Quit => {
                out.extend_from_slice(b"+OK\r\n");
                return Next::End;
            }
            Command::Http => return Next::End,
        }
        Next::Request
    }

    #[inline]
    pub(super) fn look_up(&self, key: &[u8], out: &mut Vec<u8>) {
        write_item(self.store.get(key).as_ref(), out);
    }

    fn item(&self, value: &[u8]) -> Item {
        // RESP has no CAS values.
        self.store.item(value.into(), 0, 0, Some(0), false)
    }

    #[inline]
    fn set(&self, key: &[u8], value: &[u8]) {
        self.store.set(key, || self.item(value));
    }

    fn set_all(&self, mut arguments: Arguments<'_>, out: &mut Vec<u8>) {
        let mut pairs = arguments.clone();
        while let (Some(key), Some(value)) = (pairs.next(), pairs.next()) {
            if !self.store.fits(key.len(), value.len()) {
                return out.extend_from_slice(OUT_OF_MEMORY.as_bytes());
            }
        }
        while let (Some(key), Some(value)) = (arguments.next(), arguments.next()) {
            self.set(key, value);
        }
        out.extend_from_slice(b"+OK\r\n");
    }

    fn increment(&self, key: &[u8], out: &mut Vec<u8>) {
        if !self.store.fits(key.len(), NUMBER_BYTES_MAX) {
            return out.extend_from_slice(OUT_OF_MEMORY.as_bytes());
        }
        let sum = self.store.enter(key, Some(|| self.item(b"0")), |item, _| {
            let sum = integer(&item.data).ok_or(NOT_A_NUMBER).and_then(|old| old.checked_add(1).ok_or(OVERFLOW));
            if let Ok(sum) = sum {
                item.data = itoa::Buffer::new().format(sum).as_bytes().into();
            }
            After::Keep(sum)
        });
        match sum.expect("a missing item was made") {
            Ok(sum) => write_number(out, b':', sum),
            Err(error) => out.extend_from_slice(error.as_bytes()),
        }
    }

    fn config(&self, subcommand: &[u8], arguments: Arguments<'_>, out: &mut Vec<u8>) {
        if !subcommand.eq_ignore_ascii_case(b"get") {
            out.extend_from_slice(b"-ERR unknown subcommand '");
            write_repeated(subcommand, out);
            return out.extend_from_slice(b"'. Try CONFIG HELP.\r\n");
        }
        if arguments.len() == 0 {
            return write_wrong_number("config|get", out);
        }
        let memory_max_bytes = self.store.memory_max_bytes().to_string();
        let settings = [("appendonly", "no"), ("maxmemory", &memory_max_bytes), ("save", "")];
        let is_asked = |name: &str| arguments.clone().any(|asked| asked.eq_ignore_ascii_case(name.as_bytes()));
        let asked: Vec<&str> =
            settings.iter().filter(|(name, _)| is_asked(name)).flat_map(|(name, value)| [*name, *value]).collect();
        write_number(out, b'*', asked.len());
        asked.iter().for_each(|text| write_text(text.as_bytes(), out));
    }

    fn info(&self, out: &mut Vec<u8>) {
        let (items, bytes) = self.store.size();
        let text = format!(
            "# Server\r\nredis_version:{VERSION}\r\nredis_mode:standalone\r\nprocess_id:{}\r\nuptime_in_seconds:{}\r\n\r\n\
             # Memory\r\nused_memory:{bytes}\r\nmaxmemory:{}\r\n\r\n# Stats\r\nevicted_keys:{}\r\n\r\n\
             # Keyspace\r\ndb0:keys={items},expires=0,avg_ttl=0\r\n",
            self.pid,
            (self.store.clock)().saturating_sub(self.started),
            self.store.memory_max_bytes(),
            self.store.evictions(),
        );
        write_text(text.as_bytes(), out);
    }
}

/// Writes a number after the letter of its type: a length, or a reply of its own.
#[inline]
fn write_number(out: &mut Vec<u8>, letter: u8, number: impl itoa::Integer) {
    out.push(letter);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[inline]
fn write_item(item: Option<&Item>, out: &mut Vec<u8>) {
    match item {
        Some(item) => write_text(&item.data, out),
        None => out.extend_from_slice(b"$-1\r\n"),
    }
}

#[inline]
fn write_text(text: &[u8], out: &mut Vec<u8>) {
    // Reserve once, so that a long text moves the earlier output at most once.
    out.reserve(text.len() + NUMBER_BYTES_MAX + 5);
    write_number(out, b'$', text.len());
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

fn write_wrong_number(name: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("-ERR wrong number of arguments for '{name}' command\r\n").as_bytes());
}

fn write_unknown(name: &[u8], arguments: Arguments<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"-ERR unknown command '");
    write_repeated(name, out);
    out.extend_from_slice(b"', with args beginning with: ");
    let start = out.len();
    for argument in arguments {
        let Some(space) = REPEATED_BYTES_MAX.checked_sub(out.len() - start).filter(|&space| space > 0) else { break };
        out.push(b'\'');
        write_repeated(&argument[..argument.len().min(space)], out);
        out.extend_from_slice(b"' ");
    }
    out.extend_from_slice(b"\r\n");
}

/// Repeats the beginning of a text up to a zero byte in an error, which is one line.
fn write_repeated(text: &[u8], out: &mut Vec<u8>) {
    let text = text.iter().take(REPEATED_BYTES_MAX).take_while(|&&byte| byte != 0);
    out.extend(text.map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
}
