//! Names of functions by their addresses: the kernel's by /proc/kallsyms, those of processes by their mapped files.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::ops::Range;

use object::{Object, ObjectSegment, ObjectSymbol};

use crate::calls::{KERNEL, UNKNOWN};

/// Addresses from here on are markers of contexts: the addresses after one are of the kernel or of the process.
const MARKERS: u64 = -4095i64 as u64;
const MARKER_OF_KERNEL: u64 = -128i64 as u64;

/// The names of functions that samples met.
#[derive(Default)]
pub struct Symbols {
    /// The kernel's functions, in the order of their addresses.
    kernel: Vec<(u64, String)>,
    processes: HashMap<u32, Vec<Mapping>>,
    names: HashMap<(u32, u64), Option<String>>,
}

/// A part of a process's memory with code.
#[derive(Clone, Debug)]
struct Mapping {
    addresses: Range<u64>,
    offset: u64,
    /// The file, or a name such as `[vdso]`.
    file: String,
}

impl Symbols {
    /// Reads the kernel's names.
    pub fn new() -> Self {
        let text = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        let mut kernel: Vec<(u64, String)> = text.lines().filter_map(kernel_function).collect();
        kernel.sort_unstable();
        Self { kernel, ..Self::default() }
    }

    /// Names the functions of chains, each from a process with its number of samples. `chains` have addresses from the innermost to the
    /// outermost function; the result is the other way around. Call it while the processes exist: `instead` is the process whose files
    /// one that has ended had.
    pub fn stacks(&mut self, instead: u32, chains: &HashMap<(u32, Vec<u64>), u32>) -> BTreeMap<Vec<String>, u32> {
        self.find(instead, chains.keys());
        let mut stacks = BTreeMap::new();
        for ((pid, chain), samples) in chains {
            let mut stack: Vec<String> = frames(chain).filter_map(|frame| self.name(*pid, frame)).collect();
            if stack.is_empty() {
                stack.push(UNKNOWN.to_owned());
            }
            stack.reverse();
            *stacks.entry(stack).or_default() += samples;
        }
        stacks
    }

    fn name(&self, pid: u32, frame: Frame) -> Option<String> {
        match frame {
            Frame::Kernel(address) => {
                let at = self.kernel.partition_point(|(start, _)| *start <= address).checked_sub(1)?;
                Some(format!("{}{KERNEL}", self.kernel[at].1))
            }
            Frame::User(address) => self.names.get(&(pid, address)).cloned().flatten(),
        }
    }

    /// Finds the names of the processes' functions, reading each file once.
    fn find<'a>(&mut self, instead: u32, chains: impl Iterator<Item = &'a (u32, Vec<u64>)>) {
        // The addresses in each file, with the processes that have them.
        let mut wanted: BTreeMap<String, BTreeMap<u64, Vec<(u32, u64)>>> = BTreeMap::new();
        for (pid, chain) in chains {
            let mappings = self.processes.entry(*pid).or_insert_with(|| {
                let own = mappings(*pid);
                if own.is_empty() { mappings(instead) } else { own }
            });
            for frame in frames(chain) {
                let Frame::User(address) = frame else { continue };
                if self.names.contains_key(&(*pid, address)) {
                    continue;
                }
                let Some(mapping) = mappings.iter().find(|it| it.addresses.contains(&address)) else {
                    // Without frame pointers, the chain of a process ends with values that are no addresses.
                    self.names.insert((*pid, address), None);
                    continue;
                };
                let short = mapping.file.rsplit('/').next().unwrap_or(&mapping.file);
                self.names.insert((*pid, address), Some(format!("[{}]", short.trim_matches(['[', ']']))));
                let offset = address - mapping.addresses.start + mapping.offset;
                wanted.entry(mapping.file.clone()).or_default().entry(offset).or_default().push((*pid, address));
            }
        }
        for (file, offsets) in wanted {
            let Some((pid, _)) = offsets.values().flatten().next() else { continue };
            // The file of a process in another mount namespace.
            let places = [format!("/proc/{pid}/root{file}"), format!("/proc/{instead}/root{file}"), file.clone()];
            let Some(data) = places.iter().find_map(|place| fs::read(place).ok()) else { continue };
            let found = functions(&data, &offsets.keys().copied().collect::<Vec<_>>());
            for (offset, name) in found {
                offsets[&offset].iter().for_each(|key| drop(self.names.insert(*key, Some(name.clone()))));
            }
        }
    }
}

/// An address in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    Kernel(u64),
    User(u64),
}

/// Returns the addresses of a chain without markers. All but the innermost one of a context are return addresses, which may be those of
/// the next function.
fn frames(chain: &[u64]) -> impl Iterator<Item = Frame> {
    let (mut is_kernel, mut is_innermost) = (false, true);
    chain.iter().filter_map(move |&address| {
        if address >= MARKERS {
            (is_kernel, is_innermost) = (address == MARKER_OF_KERNEL, true);
            return None;
        }
        let address = if is_innermost { address } else { address.saturating_sub(1) };
        is_innermost = false;
        Some(if is_kernel { Frame::Kernel(address) } else { Frame::User(address) })
    })
}

/// Reads a line of /proc/kallsyms.
fn kernel_function(line: &str) -> Option<(u64, String)> {
    let mut words = line.split_ascii_whitespace();
    let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
    let is_function = matches!(kind, "t" | "T" | "w" | "W");
    let address = u64::from_str_radix(address, 16).ok().filter(|_| is_function && !name.starts_with("__pfx_"))?;
    // A compiler's copies of a function are that function.
    Some((address, name.split_once('.').map_or(name, |(name, _)| name).to_owned()))
}

/// Reads the parts of a process's memory with code.
fn mappings(pid: u32) -> Vec<Mapping> {
    let text = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    text.lines().filter_map(mapping).collect()
}

fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (addresses, rights, offset) = (words.next()?, words.next()?, words.next()?);
    let file = words.nth(2)?.trim_start();
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = addresses.split_once('-')?;
    let mapping = Mapping { addresses: hex(start)?..hex(end)?, offset: hex(offset)?, file: file.to_owned() };
    Some(mapping).filter(|_| rights.contains('x'))
}

/// Returns the names of the functions at these offsets of an executable file, which ascend.
fn functions(data: &[u8], offsets: &[u64]) -> Vec<(u64, String)> {
    let Ok(file) = object::File::parse(data) else { return Vec::new() };
    let segments: Vec<(Range<u64>, u64)> = file
        .segments()
        .map(|it| {
            let (start, size) = it.file_range();
            (start..start.saturating_add(size), it.address())
        })
        .collect();
    let address_of = |offset: u64| {
        let (range, address) = segments.iter().find(|(range, _)| range.contains(&offset))?;
        Some((address.wrapping_add(offset - range.start), offset))
    };
    let mut wanted: Vec<(u64, u64)> = offsets.iter().filter_map(|offset| address_of(*offset)).collect();
    wanted.sort_unstable();
    // A stripped file has the names that others use.
    let symbols: Vec<_> = match file.symbols().next() {
        Some(_) => file.symbols().collect(),
        None => file.dynamic_symbols().collect(),
    };
    let mut found = Vec::new();
    for symbol in symbols {
        // Assembly has functions without a size.
        let range = symbol.address()..symbol.address().saturating_add(symbol.size().max(1));
        let from = wanted.partition_point(|(address, _)| *address < range.start);
        let inside = wanted[from..].iter().take_while(|(address, _)| range.contains(address));
        if symbol.is_definition() && matches!(symbol.kind(), object::SymbolKind::Text | object::SymbolKind::Unknown) {
            let name = symbol.name().unwrap_or_default();
            found.extend(inside.filter(|_| !name.is_empty()).map(|(_, offset)| (*offset, demangled(name))));
        }
    }
    found
}

/// Returns the name of a function as its language writes it, without hashes. Semicolons separate the functions of stored stacks.
fn demangled(name: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(name)).replace(';', ",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn return_addresses_belong_to_the_call() {
        let user = -512i64 as u64;
        let chain = [MARKER_OF_KERNEL, 0x10, 0x20, user, 0x30, 0x40];
        let frames: Vec<Frame> = frames(&chain).collect();
        assert_eq!(frames, [Frame::Kernel(0x10), Frame::Kernel(0x1f), Frame::User(0x30), Frame::User(0x3f)]);
    }

    #[test]
    fn kernel_functions_are_text_without_padding() {
        assert_eq!(
            kernel_function("ffffffff81000010 t tcp_ack.isra.0"),
            Some((0xffff_ffff_8100_0010, "tcp_ack".into()))
        );
        assert_eq!(
            kernel_function("ffffffffc0000000 T nf_hook\t[nf_tables]"),
            Some((0xffff_ffff_c000_0000, "nf_hook".into()))
        );
        assert_eq!(kernel_function("ffffffff81000000 D jiffies"), None);
        assert_eq!(kernel_function("ffffffff81000000 t __pfx_tcp_ack"), None);
    }

    #[test]
    fn own_functions_have_names() {
        let here = own_functions_have_names as fn() as usize as u64;
        let user = -512i64 as u64;
        let own = std::process::id();
        let chains = HashMap::from([((own, vec![user, here, 7]), 3), ((own, vec![user, 7]), 2)]);
        let stacks = Symbols::default().stacks(0, &chains);
        assert_eq!(stacks[&[UNKNOWN.to_owned()][..]], 2, "a sample without a name counts: {stacks:?}");
        let (stack, samples) = stacks.iter().find(|(stack, _)| stack[0] != UNKNOWN).unwrap();
        assert_eq!((stack.len(), *samples), (1, 3), "7 is no address of code: {stacks:?}");
        assert!(stack[0].ends_with("symbols::tests::own_functions_have_names"), "{stack:?}");
    }
}
