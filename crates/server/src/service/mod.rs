//! Services with simulated work, time limits and TLS, and the content of `http`.

pub(crate) mod buffered;
pub(crate) mod erased;
pub(crate) mod folder;
mod forward;
#[cfg_attr(target_os = "illumos", path = "no_identity.rs")]
pub(crate) mod identity;
pub(crate) mod limits;
pub(crate) mod tls;
pub mod work;

/// Makes the service of a [`crate::net::ServerContext`] and evaluates `$body` with it. `$body` is compiled for each service, and
/// once for all services with TLS.
macro_rules! with_service {
    ($context:expr, |$service:ident| $body:expr) => {
        match &$context.tls {
            None => $crate::service::with_plain_service!($context, |$service| $body),
            Some(tls) => {
                use $crate::service::{erased::Erased, tls::WithTls};
                let $service = $crate::service::with_plain_service!($context, |plain| {
                    Erased::new(WithTls::new(plain, tls.clone()))
                });
                $body
            }
        }
    };
}

/// Like [`with_service`], without TLS.
macro_rules! with_plain_service {
    ($context:expr, |$service:ident| $body:expr) => {{
        use wire::ServiceSpec;
        use $crate::service::{limits::WithLimits, unix_time_s, work::WithWork};
        macro_rules! with {
            ($plain:expr) => {{
                let $service = WithWork::new($plain, $context.work, $context.stopping.clone());
                $body
            }};
        }
        let kv_config = |memory_max_bytes, item_max_bytes| wire::kv::KvConfig {
            memory_max_bytes,
            item_max_bytes,
            pid: std::process::id(),
        };
        match *$context.service {
            ServiceSpec::Fixed { request_bytes, response_bytes } => {
                with!(wire::fixed::Fixed::new(request_bytes, response_bytes))
            }
            ServiceSpec::Kv { memory_max_bytes, item_max_bytes } => {
                with!(wire::kv::Kv::new(kv_config(memory_max_bytes, item_max_bytes), Box::new(unix_time_s)))
            }
            ServiceSpec::Redis { memory_max_bytes, item_max_bytes } => {
                with!(wire::redis::Redis::new(&kv_config(memory_max_bytes, item_max_bytes), Box::new(unix_time_s)))
            }
            ServiceSpec::Http { .. } => {
                let content = $context.content.clone().expect("`Server::start` has read the content");
                let http = wire::http::Http::new(content, Box::new(unix_time_s));
                with!(WithLimits::new(http, $context.limits, $context.workers.ticks()))
            }
            ServiceSpec::Stream(stream) => with!(wire::stream::Streaming::new(stream)),
            // Datagrams have other loops; `Architecture` checks that the model has one.
            ServiceSpec::Udp { .. } => return Err(std::io::ErrorKind::Unsupported.into()),
        }
    }};
}

use std::io;
use std::sync::Arc;

use wire::ServiceSpec;
use wire::http::Content;

pub(crate) use {with_plain_service, with_service};

/// Reads the content of `http` into memory; `None` for other services. An error names the file that cannot be served.
pub(crate) fn content(service: &ServiceSpec) -> io::Result<Option<Arc<Content>>> {
    Ok(match service {
        ServiceSpec::Http { folder: Some(path) } => Some(Arc::new(folder::read(path)?)),
        ServiceSpec::Http { folder: None } => Some(Arc::new(Content::generated())),
        _ => None,
    })
}

/// Seconds since 1970. On Linux the coarse clock needs no system call, whatever the clock source.
pub(crate) fn unix_time_s() -> u32 {
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::RealtimeCoarse;
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Realtime;
    rustix::time::clock_gettime(clock).tv_sec as u32
}
