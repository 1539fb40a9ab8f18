//! Services with simulated work, time limits and TLS, and the content of `http`.

pub(crate) mod buffered;
pub(crate) mod folder;
mod forward;
#[cfg_attr(target_os = "illumos", path = "no_identity.rs")]
pub(crate) mod identity;
pub(crate) mod limits;
pub(crate) mod tls;
pub(crate) mod waits;
pub mod work;

use std::io;
use std::sync::Arc;

use wire::http::{Content, Http};
use wire::kv::{Kv, KvConfig};
use wire::{OneByOne, Service, ServiceSpec, fixed, redis, stream};

use self::buffered::Buffered;
use self::limits::WithLimits;
use self::tls::WithTls;
use self::waits::WithWaits;
use self::work::{WithWork, Work};
use crate::net::ServerContext;
use crate::net::connection::Connect;

/// Makes the service of a server. The accept thread must call this before it starts threads, like [`WithWork::new`].
pub(crate) fn service(context: &ServerContext<'_>) -> io::Result<Box<dyn Connect>> {
    build(context, false)
}

/// Like [`service`], below a layer that copies each packet.
pub(crate) fn buffered_service(context: &ServerContext<'_>) -> io::Result<Box<dyn Connect>> {
    build(context, true)
}

fn build(context: &ServerContext<'_>, buffered: bool) -> io::Result<Box<dyn Connect>> {
    let kv_config =
        |memory_max_bytes, item_max_bytes| KvConfig { memory_max_bytes, item_max_bytes, pid: std::process::id() };
    Ok(match *context.service {
        ServiceSpec::Fixed { request_bytes, response_bytes } => {
            or_waits(context, buffered, fixed::Fixed::new(request_bytes, response_bytes))
        }
        ServiceSpec::Kv { memory_max_bytes, item_max_bytes } => {
            or_waits(context, buffered, Kv::new(kv_config(memory_max_bytes, item_max_bytes), Box::new(unix_time_s)))
        }
        ServiceSpec::Redis { memory_max_bytes, item_max_bytes } => {
            let config = kv_config(memory_max_bytes, item_max_bytes);
            or_waits(context, buffered, redis::Redis::new(&config, Box::new(unix_time_s)))
        }
        ServiceSpec::Http { .. } => {
            let content = context.content.clone().expect("`Server::start` has read the content");
            let http = Http::new(content, Box::new(unix_time_s));
            match waits(context) {
                None => layers(context, buffered, limited(context, http)),
                Some(work) => layers(context, buffered, limited(context, waiting(context, http, work))),
            }
        }
        ServiceSpec::Stream(stream) => layers(context, buffered, stream::Streaming::new(stream)),
        // Datagrams have other loops; `Architecture` checks that the model has one.
        ServiceSpec::Udp { .. } => return Err(io::ErrorKind::Unsupported.into()),
    })
}

/// The work, if it has waits or blocking calls of other threads.
fn waits(context: &ServerContext<'_>) -> Option<Work> {
    let has_wait = |work: &Work| work.wait.is_some() || (work.sleep.is_some() && context.model.offloads());
    // Streams have no requests that could wait, so their threads do the work.
    context.work.clone().filter(|work| context.service.stream().is_none() && has_wait(work))
}

fn waiting<S: OneByOne>(context: &ServerContext<'_>, service: S, work: Work) -> WithWaits<S> {
    WithWaits::new(service, work, context.model.offloads(), context.stopping.clone())
}

fn limited<S>(context: &ServerContext<'_>, service: S) -> WithLimits<S> {
    WithLimits::new(service, context.limits, context.workers.ticks())
}

/// Adds the layers that the server has, below them one that waits.
fn or_waits<S>(context: &ServerContext<'_>, buffered: bool, service: S) -> Box<dyn Connect>
where
    S: OneByOne<Conn: Send> + Send + Sync + 'static,
{
    match waits(context) {
        None => layers(context, buffered, service),
        Some(work) => layers(context, buffered, waiting(context, service, work)),
    }
}

/// Adds the layers that the server has. A service with waits does its work itself.
fn layers<S>(context: &ServerContext<'_>, buffered: bool, service: S) -> Box<dyn Connect>
where
    S: Service<Conn: Send> + Send + Sync + 'static,
{
    let work = context.work.clone().filter(|_| waits(context).is_none());
    let service = WithWork::new(service, work, context.stopping.clone());
    let Some(tls) = &context.tls else { return buffer(context, buffered, service) };
    buffer(context, buffered, WithTls::new(service, tls.clone()))
}

fn buffer<S>(context: &ServerContext<'_>, buffered: bool, service: S) -> Box<dyn Connect>
where
    S: Service<Conn: Send> + Send + Sync + 'static,
{
    if buffered { Box::new(Buffered::new(service, context.service)) } else { Box::new(service) }
}

/// Reads the content of `http` into memory; `None` for other services. An error names the file that cannot be served.
pub(crate) fn content(service: &ServiceSpec) -> io::Result<Option<Arc<Content>>> {
    Ok(match service {
        ServiceSpec::Http { folder: Some(path), .. } => Some(Arc::new(folder::read(path)?)),
        ServiceSpec::Http { response_bytes: Some(bytes), .. } => Some(Arc::new(Content::of_size((*bytes).into()))),
        ServiceSpec::Http { .. } => Some(Arc::new(Content::generated())),
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
