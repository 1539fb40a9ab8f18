//! Tokens, by which a loop knows its descriptors.

/// A connection's slot and the slot's generation, or one of the loop's own descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(u64);

impl Token {
    /// The listening socket.
    pub const LISTENER: Self = Self(u64::MAX);
    /// The descriptor by which the loop is stopped.
    pub const STOP: Self = Self(u64::MAX - 1);
    /// The queue through which other threads send messages to the loop.
    pub const MAILBOX: Self = Self(u64::MAX - 2);
    /// The clock of the idle sweep.
    pub const CLOCK: Self = Self(u64::MAX - 3);

    /// The token of a connection.
    pub const fn new(slot: u32, generation: u32) -> Self {
        Self((generation as u64) << 32 | slot as u64)
    }

    /// The slot.
    pub const fn slot(self) -> u32 {
        self.0 as u32
    }

    /// The slot's generation.
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns the generation of the slot's next connection. The last one is reserved for [`Token::LISTENER`] and its like.
    pub const fn next_generation(generation: u32) -> u32 {
        (generation + 1) % u32::MAX
    }

    /// The token as user data of a kernel interface.
    pub(crate) const fn to_u64(self) -> u64 {
        self.0
    }

    /// The token in user data of a kernel interface.
    pub(crate) const fn from_u64(data: u64) -> Self {
        Self(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loop_tokens_never_equal_connection_tokens() {
        let mut generation = u32::MAX - 2;
        for _ in 0..4 {
            generation = Token::next_generation(generation);
            assert_ne!(Token::new(u32::MAX, generation), Token::LISTENER);
            assert_ne!(Token::new(u32::MAX - 1, generation), Token::STOP);
        }
    }
}
