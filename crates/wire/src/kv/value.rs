use std::iter;
use std::ops::Deref;
use std::sync::Arc;

/// The smallest value that gets a prefix.
const LARGE_BYTES: usize = 4 << 10;
/// The length of the prefix: more than the head of any response. Allocators begin large blocks at the start of a page, so a response
/// would begin a few bytes further into its page than its value does. A CPU then takes each load of the copy for dependent on the
/// store before (4 KiB aliasing), and the copy takes several times as long.
const PREFIX_BYTES: usize = 512;

/// The value of an item. A large one is stored behind a prefix.
#[derive(Clone, Debug, Default)]
pub(crate) struct Value(Arc<[u8]>);

impl Deref for Value {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        if self.0.len() < LARGE_BYTES + PREFIX_BYTES { &self.0 } else { &self.0[PREFIX_BYTES..] }
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Self {
        if bytes.len() < LARGE_BYTES {
            return Self(Arc::from(bytes));
        }
        let mut all: Arc<[u8]> = iter::repeat_n(0, PREFIX_BYTES + bytes.len()).collect();
        if let Some(all) = Arc::get_mut(&mut all) {
            all[PREFIX_BYTES..].copy_from_slice(bytes);
        }
        Self(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_of_any_length_is_stored_whole() {
        for bytes in [0, 1, LARGE_BYTES - 1, LARGE_BYTES, LARGE_BYTES + PREFIX_BYTES - 1, 100_000] {
            let content: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
            assert_eq!(*Value::from(&content[..]), content);
        }
        assert!(Value::default().is_empty());
    }
}
