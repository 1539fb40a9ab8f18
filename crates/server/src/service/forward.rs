//! Forwards methods from a service to the service that it wraps.

/// Forwards the named methods of [`wire::Service`] to `self.$service`, with `$state` as the connection's state.
macro_rules! forward {
    ($service:tt, |$conn:ident| $state:expr; $($method:ident)*) => {
        $(forward!(@$method $service, $conn, $state);)*
    };
    (@unsent $service:tt, $conn:ident, $state:expr) => {
        #[inline]
        fn unsent<'a>(&'a self, $conn: &'a Self::Conn) -> &'a [u8] {
            self.$service.unsent(&$state)
        }
    };
    (@unsent_tail $service:tt, $conn:ident, $state:expr) => {
        #[inline]
        fn unsent_tail<'a>(&'a self, $conn: &'a Self::Conn) -> &'a [u8] {
            self.$service.unsent_tail(&$state)
        }
    };
    (@content_bytes $service:tt, $conn:ident, $state:expr) => {
        #[inline]
        fn content_bytes(&self, $conn: &mut Self::Conn, bytes: usize) -> usize {
            self.$service.content_bytes(&mut $state, bytes)
        }
    };
    (@work $service:tt, $conn:ident, $state:expr) => {
        fn work(&self, $conn: &Self::Conn, requests: u64, works: &mut Option<bool>) {
            self.$service.work(&$state, requests, works);
        }
    };
    (@wait $service:tt, $conn:ident, $state:expr) => {
        #[inline]
        fn wait(&self, $conn: &Self::Conn) -> Option<wire::Wait> {
            self.$service.wait(&$state)
        }
    };
    (@block $service:tt, $conn:ident, $state:expr) => {
        fn block(&self) {
            self.$service.block();
        }
    };
    (@resume $service:tt, $conn:ident, $state:expr) => {
        fn resume(&self, $conn: &mut Self::Conn) -> u64 {
            self.$service.resume(&mut $state)
        }
    };
    (@has_just_failed $service:tt, $conn:ident, $state:expr) => {
        #[inline]
        fn has_just_failed(&self, $conn: &mut Self::Conn) -> bool {
            self.$service.has_just_failed(&mut $state)
        }
    };
    (@check_interval $service:tt, $conn:ident, $state:expr) => {
        #[inline]
        fn check_interval(&self) -> Option<std::time::Duration> {
            self.$service.check_interval()
        }
    };
    (@checks_max $service:tt, $conn:ident, $state:expr) => {
        fn checks_max(&self) -> u32 {
            self.$service.checks_max()
        }
    };
    (@is_overdue $service:tt, $conn:ident, $state:expr) => {
        #[inline]
        fn is_overdue(&self, $conn: &mut Self::Conn) -> bool {
            self.$service.is_overdue(&mut $state)
        }
    };
    (@$predicate:ident $service:tt, $conn:ident, $state:expr) => {
        #[inline]
        fn $predicate(&self, $conn: &Self::Conn) -> bool {
            self.$service.$predicate(&$state)
        }
    };
}

pub(super) use forward;
