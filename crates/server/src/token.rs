//! Tokens, which identify the descriptors of a loop.

/// A connection's slot and generation, or one of the loop's own descriptors, as user data of a kernel interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(pub u64);

impl Token {
    /// The listening socket.
    pub const LISTENER: Self = Self(u64::MAX);
    /// The descriptor that stops the loop.
    pub const STOP: Self = Self(u64::MAX - 1);
    /// The queue of messages from other threads.
    pub const MAILBOX: Self = Self(u64::MAX - 2);
    /// The timer of the idle sweep.
    #[cfg(target_os = "linux")]
    pub const CLOCK: Self = Self(u64::MAX - 3);

    pub const fn new(slot: u32, generation: u32) -> Self {
        Self((generation as u64) << 32 | slot as u64)
    }

    /// Whether this identifies a connection.
    pub const fn is_connection(self) -> bool {
        self.generation() != u32::MAX
    }

    pub const fn slot(self) -> u32 {
        self.0 as u32
    }

    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns the generation of the slot's next connection. Skips `u32::MAX`, which marks the loop's own descriptors.
    pub const fn next_generation(generation: u32) -> u32 {
        (generation + 1) % u32::MAX
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
            assert!(Token::new(u32::MAX, generation).is_connection());
            assert_ne!(Token::new(u32::MAX, generation), Token::LISTENER);
            assert_ne!(Token::new(u32::MAX - 1, generation), Token::STOP);
        }
        assert!(!Token::MAILBOX.is_connection());
    }
}
