//! Why a connection, or a request, failed: one class for each count of [`Errors`].

use std::io;

use rustix::io::Errno;

use crate::report::Errors;

/// The classes of httperf, two of size, three of what a service may answer or do, and one of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// No answer in time.
    Timeout = 1,
    /// ECONNREFUSED.
    Refused,
    /// ECONNRESET, EPIPE, or an end of the stream when nothing was owed.
    Reset,
    /// EMFILE, ENFILE.
    NoDescriptors,
    /// EADDRNOTAVAIL.
    NoAddresses,
    /// The connection ended before the response did.
    Short,
    /// More bytes came than were asked for, or others.
    Wrong,
    /// A record that had been stored was not there.
    Miss,
    /// The service answered that it cannot do what it was asked.
    Rejected,
    /// The server ended the connection with a response, as it may, while others were to come.
    Closed,
    /// ICMP says that a datagram did not get to a port.
    Unreachable,
    /// Any other system error.
    Other,
}

impl Class {
    /// Every class; the one at `at` is `at + 1` as a number, and 0 is none.
    pub const ALL: [Self; 12] = [
        Self::Timeout,
        Self::Refused,
        Self::Reset,
        Self::NoDescriptors,
        Self::NoAddresses,
        Self::Short,
        Self::Wrong,
        Self::Miss,
        Self::Rejected,
        Self::Closed,
        Self::Unreachable,
        Self::Other,
    ];

    /// The class of a system error.
    pub fn of(error: &io::Error) -> Self {
        match Errno::from_io_error(error) {
            // EAGAIN is what a blocking socket's own timeout gives.
            Some(Errno::TIMEDOUT | Errno::AGAIN) => Self::Timeout,
            Some(Errno::CONNREFUSED) => Self::Refused,
            Some(Errno::CONNRESET | Errno::PIPE) => Self::Reset,
            Some(Errno::MFILE | Errno::NFILE) => Self::NoDescriptors,
            Some(Errno::ADDRNOTAVAIL) => Self::NoAddresses,
            _ if error.kind() == io::ErrorKind::ConnectionAborted => Self::Closed,
            _ if error.kind() == io::ErrorKind::TimedOut => Self::Timeout,
            _ if error.kind() == io::ErrorKind::UnexpectedEof => Self::Short,
            _ if error.kind() == io::ErrorKind::InvalidData => Self::Wrong,
            _ => Self::Other,
        }
    }

    /// The name in reports, as in [`Errors::by_class`].
    pub fn name(self) -> &'static str {
        let mut one = Errors::default();
        one.count(self, 1);
        one.by_class().into_iter().find(|&(_, count)| count > 0).map_or("", |(name, _)| name)
    }
}

impl Errors {
    /// Counts `count` failures of a class.
    pub fn count(&mut self, class: Class, count: u64) {
        let counter = match class {
            Class::Timeout => &mut self.timeout,
            Class::Refused => &mut self.refused,
            Class::Reset => &mut self.reset,
            Class::NoDescriptors => &mut self.no_descriptors,
            Class::NoAddresses => &mut self.no_addresses,
            Class::Short => &mut self.short,
            Class::Wrong => &mut self.wrong,
            Class::Miss => &mut self.miss,
            Class::Rejected => &mut self.rejected,
            Class::Closed => &mut self.closed,
            Class::Unreachable => &mut self.unreachable,
            Class::Other => &mut self.other,
        };
        // Of a stored run, or of another host, it may be any number.
        *counter = counter.saturating_add(count);
    }

    /// These and others together.
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
    fn every_class_has_its_number_its_name_and_its_count() {
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
    fn system_errors_fall_into_their_classes() {
        let of = |errno: Errno| Class::of(&errno.into());
        assert_eq!(of(Errno::CONNREFUSED), Class::Refused);
        assert_eq!(of(Errno::PIPE), Class::Reset);
        assert_eq!(of(Errno::NFILE), Class::NoDescriptors);
        assert_eq!(of(Errno::HOSTUNREACH), Class::Other);
        assert_eq!(Class::of(&io::ErrorKind::UnexpectedEof.into()), Class::Short);
    }
}
