//! Failures of connections and requests, by class.

use std::io;

use rustix::io::Errno;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! classes {
    ($($(#[$doc:meta])+ $class:ident = $number:literal, $field:ident, $name:literal;)+) => {
        /// The class of a failure: httperf's classes, and classes for sizes, responses and datagrams.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Class {
            $($(#[$doc])+ $class = $number),+
        }

        /// Failures by class. A request without a response has the class of its connection's failure, even if it was not sent.
        /// The failure of a connection without such requests counts once.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub struct Errors {
            $($(#[$doc])+ pub $field: u64),+
        }

        impl Class {
            /// Every class. The class at index `i` has the number `i + 1`; 0 means none.
            pub const ALL: [Self; 13] = [$(Self::$class),+];

            /// The name in reports.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$class => $name),+
                }
            }
        }

        impl Errors {
            /// Counts `count` failures of a class.
            pub fn count(&mut self, class: Class, count: u64) {
                let counter = match class {
                    $(Class::$class => &mut self.$field),+
                };
                // Saturate: a stored run, or another host, may supply any number.
                *counter = counter.saturating_add(count);
            }

            /// Each class's name and count.
            pub fn by_class(&self) -> [(&'static str, u64); 13] {
                [$(($name, self.$field)),+]
            }
        }
    };
}

classes! {
    /// No response in time.
    Timeout = 1, timeout, "timeout";
    /// ECONNREFUSED.
    Refused = 2, refused, "refused";
    /// ECONNRESET, EPIPE, or the end of the connection while no response was due.
    Reset = 3, reset, "reset";
    /// EMFILE, ENFILE: no free descriptor.
    NoDescriptors = 4, no_descriptors, "no-descriptors";
    /// EADDRNOTAVAIL: no free local port or address.
    NoAddresses = 5, no_addresses, "no-addresses";
    /// The connection ended before the response did.
    Short = 6, short, "short";
    /// Too many bytes, a wrong value, or a response that the protocol does not allow.
    Wrong = 7, wrong, "wrong";
    /// A stored record was missing.
    Miss = 8, miss, "miss";
    /// The service rejected the request.
    Rejected = 9, rejected, "rejected";
    /// The server ended the connection after a response while requests were left, and the client did not reconnect.
    Closed = 10, closed, "closed";
    /// ICMP reported that a datagram did not reach its port.
    Unreachable = 11, unreachable, "unreachable";
    /// Any other system error.
    Other = 12, other, "other";
    /// A TLS handshake failed, or a TLS record was invalid.
    Tls = 13, tls, "tls";
}

impl Class {
    /// Returns the class of a system error.
    pub fn of(error: &io::Error) -> Self {
        if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
            return Self::Tls;
        }
        match Errno::from_io_error(error) {
            // A blocking socket reports its timeout as EAGAIN.
            Some(Errno::TIMEDOUT | Errno::AGAIN) => Self::Timeout,
            Some(Errno::CONNREFUSED) => Self::Refused,
            Some(Errno::CONNRESET | Errno::PIPE) => Self::Reset,
            Some(Errno::MFILE | Errno::NFILE) => Self::NoDescriptors,
            Some(Errno::ADDRNOTAVAIL) => Self::NoAddresses,
            // Encryption failed.
            Some(Errno::PROTO) => Self::Tls,
            _ => match error.kind() {
                io::ErrorKind::ConnectionAborted => Self::Closed,
                io::ErrorKind::TimedOut => Self::Timeout,
                io::ErrorKind::UnexpectedEof => Self::Short,
                io::ErrorKind::InvalidData => Self::Wrong,
                _ => Self::Other,
            },
        }
    }
}

impl From<Errno> for Class {
    fn from(error: Errno) -> Self {
        Self::of(&error.into())
    }
}

impl Errors {
    /// The sum of all classes.
    pub fn total(&self) -> u64 {
        self.by_class().iter().fold(0, |total, (_, count)| total.saturating_add(*count))
    }

    /// Adds the counts of `others`.
    #[must_use]
    pub fn and(mut self, others: &Self) -> Self {
        Class::ALL.into_iter().zip(others.by_class()).for_each(|(class, (_, count))| self.count(class, count));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_has_its_number_name_and_count() {
        for (at, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, at + 1);
            assert_eq!(class.name(), Errors::default().by_class()[at].0);
            let mut errors = Errors::default();
            errors.count(class, 3);
            assert_eq!(errors.total(), 3);
            assert_eq!(errors.and(&errors).total(), 6);
            assert_eq!(errors.and(&errors).by_class()[at].1, 6);
        }
    }

    #[test]
    fn system_error_falls_into_its_class() {
        assert_eq!(Class::from(Errno::CONNREFUSED), Class::Refused);
        assert_eq!(Class::from(Errno::PIPE), Class::Reset);
        assert_eq!(Class::from(Errno::NFILE), Class::NoDescriptors);
        assert_eq!(Class::from(Errno::HOSTUNREACH), Class::Other);
        assert_eq!(Class::of(&io::ErrorKind::UnexpectedEof.into()), Class::Short);
    }
}
