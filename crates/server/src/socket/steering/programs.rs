//! The programs that choose a worker's listener for each new connection. The kernel runs them when a SYN arrives. If a program
//! chooses none, the kernel chooses by its hash, as without a program.

use super::assembler::Condition::{Equal, NotEqual, NotLess};
use super::assembler::Operation::{Add, And, Mul, Or, Set, ShiftLeft, ShiftRight, ShiftSign, Sub, Xor};
use super::assembler::Register::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};
use super::assembler::Width::{Bits32, Bits64};
use super::assembler::{Assembler, Instruction, Register};
use super::state::{ELIGIBLE_AT, ROW_BYTES, ROWS_AT, SETTLED_AT, STEERED_AT, WORKERS_MAX};

/// The offset of the connection's hash in `struct sk_reuseport_md` (linux/bpf.h).
const HASH_AT: i16 = 32;
/// The helper bpf_sk_select_reuseport.
const SELECT: i32 = 82;
/// The result SK_PASS: accept the packet.
const PASS: i32 = 1;
/// The place of the chosen number on the stack.
const CHOICE_AT: i16 = -8;

/// Bits of a worker's number in the sort key of [`least`].
const NUMBER_BITS: i32 = WORKERS_MAX.ilog2() as i32;

/// Returns the classic program that chooses by the CPU that processes the SYN.
pub(super) fn by_cpu(workers: usize) -> [libc::sock_filter; 3] {
    let instruction = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    [
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, (libc::SKF_AD_OFF + libc::SKF_AD_CPU) as u32),
        instruction(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, workers as u32),
        instruction(libc::BPF_RET | libc::BPF_A, 0),
    ]
}

/// Returns the program that chooses the worker with the fewest connections, and counts the choice. Of equals, the
/// connection's hash chooses.
pub(super) fn least(state: i32, listeners: i32, workers: usize) -> Vec<Instruction> {
    let mut it = Assembler::default();
    it.apply(Set, R6, R1);
    it.set_value_address(R7, state, ROWS_AT);
    // R8: random bits, by which the numbers of workers are reordered.
    it.load(Bits32, R8, R6, HASH_AT);
    it.apply(And, R8, workers.next_power_of_two() as i32 - 1);
    // R9: the lowest key so far. R1: the number of the worker.
    it.set_wide(R9, i64::MAX as u64);
    it.apply(Set, R1, 0);
    let next = it.here();
    row_address(&mut it, R3, R1);
    it.load(Bits64, R4, R3, STEERED_AT);
    it.load(Bits64, R5, R3, SETTLED_AT);
    // R4: the connections of the worker, at least 0. No branches, so that the kernel checks only one path.
    it.apply(Sub, R4, R5);
    it.apply(Set, R5, R4);
    it.apply(ShiftSign, R5, 63);
    it.apply(Xor, R5, -1);
    it.apply(And, R4, R5);
    // R4: the key, with the connections above the number.
    it.apply(ShiftLeft, R4, NUMBER_BITS);
    it.apply(Set, R5, R1);
    it.apply(Xor, R5, R8);
    it.apply(Or, R4, R5);
    // R9 = min(R9, R4)
    it.apply(Sub, R4, R9);
    it.apply(Set, R5, R4);
    it.apply(ShiftSign, R5, 63);
    it.apply(And, R4, R5);
    it.apply(Add, R9, R4);
    it.apply(Add, R1, 1);
    it.jump_back(NotEqual, R1, workers as i32, next);
    // R9: the number of the worker.
    it.apply(And, R9, (1 << NUMBER_BITS) - 1);
    it.apply(Xor, R9, R8);
    let is_none = it.jump(NotLess, R9, workers as i32);
    select(&mut it, listeners, R9);
    let is_closed = it.jump(NotEqual, R0, 0);
    row_address(&mut it, R3, R9);
    it.apply(Add, R3, i32::from(STEERED_AT));
    it.apply(Set, R4, 1);
    it.add_atomically(R3, R4);
    it.land(is_none);
    it.land(is_closed);
    it.apply(Set, R0, PASS);
    it.exit()
}

/// Sets `to` to the address of the row with this number. R7 is the address of the first row.
fn row_address(it: &mut Assembler, to: Register, number: Register) {
    it.apply(Set, to, number);
    it.apply(ShiftLeft, to, ROW_BYTES.ilog2() as i32);
    it.apply(Add, to, R7);
}

/// Returns the program that chooses among the eligible workers by the connection's hash.
pub(super) fn hermes(state: i32, listeners: i32) -> Vec<Instruction> {
    let mut it = Assembler::default();
    it.apply(Set, R6, R1);
    it.set_value_address(R1, state, ELIGIBLE_AT);
    // R7: a bit for each eligible worker.
    it.load(Bits64, R7, R1, 0);
    let is_empty = it.jump(Equal, R7, 0);
    it.apply(Set, R8, R7);
    count_bits(&mut it, R8);
    // R8: the number of eligible workers that precede the chosen one.
    it.load(Bits32, R1, R6, HASH_AT);
    it.apply(Mul, R8, R1);
    it.apply(ShiftRight, R8, 32);
    it.apply(Set, R1, 0);
    let next = it.here();
    let is_found = it.jump(NotLess, R1, R8);
    // Clear the lowest bit.
    it.apply(Set, R2, R7);
    it.apply(Sub, R2, 1);
    it.apply(And, R7, R2);
    it.apply(Add, R1, 1);
    it.jump_back(NotEqual, R1, 64, next);
    it.land(is_found);
    // The place of the lowest bit is the number of bits below it.
    it.apply(Set, R9, R7);
    it.apply(Sub, R9, 1);
    it.apply(Xor, R7, -1);
    it.apply(And, R9, R7);
    count_bits(&mut it, R9);
    select(&mut it, listeners, R9);
    it.land(is_empty);
    it.apply(Set, R0, PASS);
    it.exit()
}

/// Replaces the value of a register by the number of its bits that are 1. Uses R1 and R2.
fn count_bits(it: &mut Assembler, value: Register) {
    for (shift, mask) in [(1, 0x5555_5555_5555_5555), (2, 0x3333_3333_3333_3333), (4, 0x0f0f_0f0f_0f0f_0f0f)] {
        // Adds neighbouring groups of `shift` bits.
        it.apply(Set, R1, value);
        it.apply(ShiftRight, R1, shift);
        it.set_wide(R2, mask);
        it.apply(And, R1, R2);
        it.apply(And, value, R2);
        it.apply(Add, value, R1);
    }
    it.set_wide(R2, 0x0101_0101_0101_0101);
    it.apply(Mul, value, R2);
    it.apply(ShiftRight, value, 56);
}

/// Chooses the listener with this number. R6 is the program's context. R0 is 0 unless there is no such listener.
fn select(it: &mut Assembler, listeners: i32, number: Register) {
    it.store(Bits32, R10, CHOICE_AT, number);
    it.apply(Set, R1, R6);
    it.set_map(R2, listeners);
    it.apply(Set, R3, R10);
    it.apply(Add, R3, i32::from(CHOICE_AT));
    it.apply(Set, R4, 0);
    it.call(SELECT);
}
