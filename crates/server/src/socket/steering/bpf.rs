//! Maps and programs of the kernel's BPF machine (bpf(2)).

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};

use rustix::io::Errno;

use super::assembler::Instruction;
use crate::platform::set_option;

/// Commands, types and flags of linux/bpf.h.
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const ENABLE_STATS: libc::c_int = 32;
const MAP_TYPE_ARRAY: u32 = 2;
const MAP_TYPE_REUSEPORT_SOCKARRAY: u32 = 20;
const F_MMAPABLE: u32 = 1 << 10;
const PROG_TYPE_SK_REUSEPORT: u32 = 21;
const ANY: u64 = 0;
const STATS_RUN_TIME: u32 = 0;
/// The words of `struct bpf_prog_info` up to `run_time_ns`, which is the last of them.
const PROG_INFO_WORDS: usize = 25;

/// The programs call no function that the kernel reserves for the GPL.
const LICENCE: &CStr = c"MIT";

#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
struct MapUpdate {
    map: u64,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    instructions: u32,
    code: u64,
    licence: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
}

#[repr(C)]
struct GetInfo {
    object: u32,
    info_bytes: u32,
    info: u64,
}

fn bpf<T>(command: libc::c_int, mut attributes: T) -> io::Result<libc::c_long> {
    // SAFETY: the kernel uses the attributes, and the memory at the addresses in them. All of it lives until the call returns.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, ptr::from_mut(&mut attributes), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// As [`bpf`], for commands that return a descriptor.
fn open<T>(command: libc::c_int, attributes: T) -> io::Result<OwnedFd> {
    let descriptor = bpf(command, attributes)?;
    // SAFETY: the kernel has just returned this descriptor, which nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}

/// A map with one value, which the process and the kernel's programs share.
#[derive(Debug)]
pub(super) struct SharedValue {
    pub(super) map: OwnedFd,
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to no thread. Its users read and write it by atomic operations.
unsafe impl Send for SharedValue {}
// SAFETY: as above.
unsafe impl Sync for SharedValue {}

impl SharedValue {
    /// Makes a value of zeros.
    pub(super) fn new(bytes: usize) -> io::Result<Self> {
        let (map_type, key_bytes, value_bytes) = (MAP_TYPE_ARRAY, size_of::<u32>() as u32, bytes as u32);
        let attributes = MapCreate { map_type, key_bytes, value_bytes, entries: 1, flags: F_MMAPABLE };
        let map = open(MAP_CREATE, attributes)?;
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: the kernel chooses an unused address for the mapping.
        let at = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, map.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { map, at, bytes })
    }

    /// The first byte, aligned to a page.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.at
    }
}

impl Drop for SharedValue {
    fn drop(&mut self) {
        // SAFETY: this value made the mapping, and all references into it borrow this value.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}

/// Makes a map of listeners, each of which has an address with SO_REUSEPORT. A closed listener leaves the map.
pub(super) fn map_listeners(listeners: &[impl AsFd]) -> io::Result<OwnedFd> {
    let map = empty_listener_map(listeners.len())?;
    for (number, listener) in listeners.iter().enumerate() {
        let (key, value) = (number as u32, listener.as_fd().as_raw_fd() as u64);
        let attributes = MapUpdate {
            map: map.as_raw_fd() as u64,
            key: ptr::from_ref(&key) as u64,
            value: ptr::from_ref(&value) as u64,
            flags: ANY,
        };
        bpf(MAP_UPDATE_ELEM, attributes)?;
    }
    Ok(map)
}

pub(super) fn empty_listener_map(entries: usize) -> io::Result<OwnedFd> {
    let (key_bytes, value_bytes) = (size_of::<u32>() as u32, size_of::<u64>() as u32);
    let map_type = MAP_TYPE_REUSEPORT_SOCKARRAY;
    open(MAP_CREATE, MapCreate { map_type, key_bytes, value_bytes, entries: entries as u32, flags: 0 })
}

/// Loads a program that chooses a listener for each new connection.
pub(super) fn load(code: &[Instruction]) -> io::Result<OwnedFd> {
    let attributes = || ProgLoad {
        prog_type: PROG_TYPE_SK_REUSEPORT,
        instructions: code.len() as u32,
        code: code.as_ptr() as u64,
        licence: LICENCE.as_ptr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
    };
    // The kernel gives up the check of a program when the thread has a signal to handle.
    loop {
        match open(PROG_LOAD, attributes()) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::AGAIN) => {}
            loaded => return loaded,
        }
    }
}

/// Makes the kernel measure the time of its programs until the descriptor is closed. Needs CAP_SYS_ADMIN, and adds two readings
/// of a clock to each run of each program.
pub(super) fn measure_programs() -> io::Result<OwnedFd> {
    open(ENABLE_STATS, STATS_RUN_TIME)
}

/// Returns the time that the kernel has spent in a program while it measured, in nanoseconds.
pub(super) fn run_time_ns(program: &OwnedFd) -> io::Result<u64> {
    let mut info = [0u64; PROG_INFO_WORDS];
    let info_bytes = size_of_val(&info) as u32;
    let object = program.as_raw_fd() as u32;
    bpf(OBJ_GET_INFO_BY_FD, GetInfo { object, info_bytes, info: ptr::from_mut(&mut info) as u64 })?;
    Ok(info[PROG_INFO_WORDS - 1])
}

/// Attaches a loaded program to all listeners at the address of `listener`.
pub(super) fn attach(listener: &OwnedFd, program: &OwnedFd) -> io::Result<()> {
    set_option(listener, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_EBPF, &program.as_raw_fd())
}

/// Attaches a classic program, which returns the number of a listener, to all listeners at the address of `listener`.
pub(super) fn attach_classic(listener: &OwnedFd, code: &mut [libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: code.len() as u16, filter: code.as_mut_ptr() };
    set_option(listener, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, &program)
}

/// Prefers `listener` for connections whose packets `cpu` processes.
pub(super) fn set_incoming_cpu(listener: &OwnedFd, cpu: usize) -> io::Result<()> {
    set_option(listener, libc::SOL_SOCKET, libc::SO_INCOMING_CPU, &(cpu as libc::c_int))
}
