//! The services as a server runs them, made from their parameters.

pub(crate) mod buffered;
pub(crate) mod erased;
pub(crate) mod folder;
pub mod limits;
pub mod work;

/// Makes the service that `stage` is to run and does something with it, compiled for each service there is.
macro_rules! with_service {
    ($stage:expr, |$service:ident| $body:expr) => {
        match *$stage.service {
            wire::ServiceSpec::Fixed { request_bytes, response_bytes } => {
                let fixed = wire::fixed::Fixed::new(request_bytes, response_bytes);
                let $service = $crate::service::work::Worked::new(fixed, $stage.work, $stage.stopping.clone());
                $body
            }
            wire::ServiceSpec::Kv { memory_max_bytes, item_max_bytes } => {
                let config = wire::kv::KvConfig { memory_max_bytes, item_max_bytes, pid: std::process::id() };
                let kv = wire::kv::Kv::new(config, std::boxed::Box::new($crate::service::unix_time_s));
                let $service = $crate::service::work::Worked::new(kv, $stage.work, $stage.stopping.clone());
                $body
            }
            wire::ServiceSpec::Http { .. } => {
                let content = $stage.content.clone().expect("it was read before anything started");
                let http = wire::http::Http::new(content, std::boxed::Box::new($crate::service::unix_time_s));
                let limited = $crate::service::limits::Limited::new(http, $stage.limits, $stage.workers.ticks());
                let $service = $crate::service::work::Worked::new(limited, $stage.work, $stage.stopping.clone());
                $body
            }
            wire::ServiceSpec::Stream(stream) => {
                let streaming = wire::stream::Streaming::new(stream);
                let $service = $crate::service::work::Worked::new(streaming, $stage.work, $stage.stopping.clone());
                $body
            }
            // What is run for connections; loops of datagrams are others, and `Architecture` says which models have one.
            wire::ServiceSpec::Udp { .. } => return Err(std::io::ErrorKind::Unsupported.into()),
        }
    };
}

use std::io;
use std::sync::Arc;

use wire::ServiceSpec;
use wire::http::Content;

pub(crate) use with_service;

/// What `http` serves, in memory.
///
/// # Errors
/// Which file of a folder cannot be served, and why.
pub(crate) fn content(service: &ServiceSpec) -> io::Result<Option<Arc<Content>>> {
    Ok(match service {
        ServiceSpec::Http { folder: Some(folder) } => Some(Arc::new(crate::service::folder::read(folder)?)),
        ServiceSpec::Http { folder: None } => Some(Arc::new(Content::generated())),
        ServiceSpec::Fixed { .. } | ServiceSpec::Kv { .. } | ServiceSpec::Udp { .. } | ServiceSpec::Stream(_) => None,
    })
}

/// Seconds since 1970, by a clock that is read without a system call whatever the kernel's clock source is.
pub(crate) fn unix_time_s() -> u32 {
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::RealtimeCoarse;
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Realtime;
    rustix::time::clock_gettime(clock).tv_sec as u32
}
