//! An assembler for eBPF (RFC 9669).

/// An instruction as the kernel reads it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Instruction {
    code: u8,
    /// The destination in the lower half, the source in the upper half. All supported systems are little-endian.
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// A register of the machine. R0 has results, R1 to R5 arguments; calls keep R6 to R9; R10 is the end of the stack.
#[derive(Clone, Copy, Debug)]
#[rustfmt::skip]
pub(super) enum Register { R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10 }

/// The second operand of an instruction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operand {
    Register(Register),
    Constant(i32),
}

impl From<Register> for Operand {
    fn from(register: Register) -> Self {
        Self::Register(register)
    }
}

impl From<i32> for Operand {
    fn from(constant: i32) -> Self {
        Self::Constant(constant)
    }
}

/// Operations on 64 bits. The sources of constants are the tables of RFC 9669, sections 4.1 and 4.3.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    Or = 0x40,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Xor = 0xa0,
    Set = 0xb0,
    /// A shift to the right that copies the sign.
    ShiftSign = 0xc0,
}

/// Conditions of jumps, unsigned.
#[derive(Clone, Copy, Debug)]
pub(super) enum Condition {
    Equal = 0x10,
    NotLess = 0x30,
    NotEqual = 0x50,
}

/// Sizes of loads and stores.
#[derive(Clone, Copy, Debug)]
pub(super) enum Width {
    Bits32 = 0x00,
    Bits64 = 0x18,
}

/// The place of a jump whose target follows.
#[must_use]
pub(super) struct Jump(usize);

/// A program under construction.
#[derive(Debug, Default)]
pub(super) struct Assembler(Vec<Instruction>);

const ALU64: u8 = 0x07;
const JUMP: u8 = 0x05;
const LOAD: u8 = 0x61;
const STORE: u8 = 0x63;
const ATOMIC: u8 = 0xc3;
const SOURCE_IS_REGISTER: u8 = 0x08;
const LOAD_CONSTANT: u8 = 0x18;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// The sources of [`LOAD_CONSTANT`] that make the constant a map, and the address of a map's only value.
const MAP: u8 = 1;
const MAP_VALUE: u8 = 2;

impl Assembler {
    /// The number of the next instruction.
    pub(super) fn here(&self) -> usize {
        self.0.len()
    }

    pub(super) fn apply(&mut self, operation: Operation, to: Register, by: impl Into<Operand>) {
        self.operate(operation as u8 | ALU64, to, by.into());
    }

    /// Sets `to` to a constant of 64 bits.
    pub(super) fn set_wide(&mut self, to: Register, constant: u64) {
        self.load_constant(to, 0, constant as u32 as i32, (constant >> 32) as i32);
    }

    /// Sets `to` to a map.
    pub(super) fn set_map(&mut self, to: Register, map: i32) {
        self.load_constant(to, MAP, map, 0);
    }

    /// Sets `to` to the address of the byte at `offset` of a map's only value.
    pub(super) fn set_value_address(&mut self, to: Register, map: i32, offset: usize) {
        self.load_constant(to, MAP_VALUE, map, offset as i32);
    }

    pub(super) fn load(&mut self, width: Width, to: Register, from: Register, offset: i16) {
        self.push(LOAD | width as u8, to as u8, from as u8, offset, 0);
    }

    pub(super) fn store(&mut self, width: Width, to: Register, offset: i16, from: Register) {
        self.push(STORE | width as u8, to as u8, from as u8, offset, 0);
    }

    /// Adds `by` to the 64 bits at `to`, in one step for all CPUs.
    pub(super) fn add_atomically(&mut self, to: Register, by: Register) {
        self.push(ATOMIC | Width::Bits64 as u8, to as u8, by as u8, 0, Operation::Add as i32);
    }

    /// Jumps back to the instruction `target` if the condition holds.
    pub(super) fn jump_back(&mut self, condition: Condition, left: Register, right: impl Into<Operand>, target: usize) {
        let Jump(at) = self.jump(condition, left, right);
        self.0[at].offset = (target as isize - at as isize - 1) as i16;
    }

    /// Jumps to the place of [`Self::land`] if the condition holds.
    pub(super) fn jump(&mut self, condition: Condition, left: Register, right: impl Into<Operand>) -> Jump {
        let at = self.here();
        self.operate(condition as u8 | JUMP, left, right.into());
        Jump(at)
    }

    pub(super) fn land(&mut self, Jump(at): Jump) {
        self.0[at].offset = (self.here() - at - 1) as i16;
    }

    /// Calls a function of the kernel.
    pub(super) fn call(&mut self, function: i32) {
        self.push(CALL, 0, 0, 0, function);
    }

    /// Ends the program; its result is R0.
    pub(super) fn exit(mut self) -> Vec<Instruction> {
        self.push(EXIT, 0, 0, 0, 0);
        self.0
    }

    fn operate(&mut self, code: u8, to: Register, by: Operand) {
        match by {
            Operand::Register(by) => self.push(code | SOURCE_IS_REGISTER, to as u8, by as u8, 0, 0),
            Operand::Constant(by) => self.push(code, to as u8, 0, 0, by),
        }
    }

    fn load_constant(&mut self, to: Register, source: u8, low: i32, high: i32) {
        self.push(LOAD_CONSTANT, to as u8, source, 0, low);
        self.push(0, 0, 0, 0, high);
    }

    fn push(&mut self, code: u8, to: u8, from: u8, offset: i16, immediate: i32) {
        self.0.push(Instruction { code, registers: to | from << 4, offset, immediate });
    }
}
