//! The services as a server runs them, made from their parameters.

pub(crate) mod buffered;
pub(crate) mod erased;
pub(crate) mod folder;
pub mod limits;
pub mod work;

/// Makes the service of `$stage` and evaluates `$body` with it, compiled for each service.
macro_rules! with_service {
    ($context:expr, |$service:ident| $body:expr) => {
        match *$context.service {
            wire::ServiceSpec::Fixed { request_bytes, response_bytes } => {
                let fixed = wire::fixed::Fixed::new(request_bytes, response_bytes);
                let $service = $crate::service::work::WithWork::new(fixed, $context.work, $context.stopping.clone());
                $body
            }
            wire::ServiceSpec::Kv { memory_max_bytes, item_max_bytes } => {
                let config = wire::kv::KvConfig { memory_max_bytes, item_max_bytes, pid: std::process::id() };
                let kv = wire::kv::Kv::new(config, std::boxed::Box::new($crate::service::unix_time_s));
                let $service = $crate::service::work::WithWork::new(kv, $context.work, $context.stopping.clone());
                $body
            }
            wire::ServiceSpec::Http { .. } => {
                let content = $context.content.clone().expect("it was read before anything started");
                let http = wire::http::Http::new(content, std::boxed::Box::new($crate::service::unix_time_s));
                let limited = $crate::service::limits::WithLimits::new(http, $context.limits, $context.workers.ticks());
                let $service = $crate::service::work::WithWork::new(limited, $context.work, $context.stopping.clone());
                $body
            }
            wire::ServiceSpec::Stream(stream) => {
                let streaming = wire::stream::Streaming::new(stream);
                let $service =
                    $crate::service::work::WithWork::new(streaming, $context.work, $context.stopping.clone());
                $body
            }
            // Datagrams have loops of their own; `Architecture` checks that the model has one.
            wire::ServiceSpec::Udp { .. } => return Err(std::io::ErrorKind::Unsupported.into()),
        }
    };
}

use std::io;
use std::sync::Arc;

use wire::ServiceSpec;
use wire::http::Content;

pub(crate) use with_service;

/// The content of `http`, in memory.
///
/// # Errors
/// The file that cannot be served, and the reason.
pub(crate) fn content(service: &ServiceSpec) -> io::Result<Option<Arc<Content>>> {
    Ok(match service {
        ServiceSpec::Http { folder: Some(folder) } => Some(Arc::new(crate::service::folder::read(folder)?)),
        ServiceSpec::Http { folder: None } => Some(Arc::new(Content::generated())),
        ServiceSpec::Fixed { .. } | ServiceSpec::Kv { .. } | ServiceSpec::Udp { .. } | ServiceSpec::Stream(_) => None,
    })
}

/// Seconds since 1970, by a clock that never needs a system call, whatever the kernel's clock source.
pub(crate) fn unix_time_s() -> u32 {
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::RealtimeCoarse;
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Realtime;
    rustix::time::clock_gettime(clock).tv_sec as u32
}
