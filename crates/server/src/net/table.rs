use crate::token::Token;

/// A table of slots, allocated once. Each new connection in a slot gets a new generation, so that old tokens find nothing.
pub(super) struct ConnectionTable<T> {
    slots: Vec<TableSlot<T>>,
    free: Vec<u32>,
}

struct TableSlot<T> {
    generation: u32,
    tenant: Option<T>,
}

impl<T> ConnectionTable<T> {
    #[cfg(test)]
    pub(super) const SLOT_BYTES: usize = size_of::<TableSlot<T>>();

    pub(super) fn with_capacity(count: usize) -> Self {
        // The memory stays uninitialised: pages that no connection reaches cost nothing.
        Self { slots: Vec::with_capacity(count), free: Vec::with_capacity(count) }
    }

    /// Returns the token of a free slot; `None` if all are taken. Fill the slot before the next call of `reserve` or `remove`.
    pub(super) fn reserve(&mut self) -> Option<Token> {
        let at = match self.free.last() {
            Some(&at) => at,
            None if self.slots.len() < self.slots.capacity() => {
                self.slots.push(TableSlot { generation: 0, tenant: None });
                let at = (self.slots.len() - 1) as u32;
                self.free.push(at);
                at
            }
            None => return None,
        };
        Some(Token::new(at, self.slots[at as usize].generation))
    }

    pub(super) fn fill(&mut self, token: Token, tenant: T) {
        debug_assert_eq!(self.free.last(), Some(&token.slot()), "the slot is not reserved");
        self.free.pop();
        self.slots[token.slot() as usize].tenant = Some(tenant);
    }

    #[inline]
    pub(super) fn get(&mut self, token: Token) -> Option<&mut T> {
        let slot = self.slots.get_mut(token.slot() as usize)?;
        if slot.generation == token.generation() { slot.tenant.as_mut() } else { None }
    }

    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    #[cfg(target_os = "linux")]
    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    #[cfg(target_os = "linux")]
    pub(super) fn tenants(&self, slots: std::ops::Range<usize>) -> impl Iterator<Item = (Token, &T)> {
        let tenant = |slot: usize| {
            let TableSlot { generation, tenant } = &self.slots[slot];
            Some((Token::new(slot as u32, *generation), tenant.as_ref()?))
        };
        slots.filter_map(tenant)
    }

    pub(super) fn tenant_of(&mut self, slot: usize) -> Option<(Token, &mut T)> {
        let TableSlot { generation, tenant } = &mut self.slots[slot];
        Some((Token::new(slot as u32, *generation), tenant.as_mut()?))
    }

    pub(super) fn remove(&mut self, token: Token) -> Option<T> {
        self.get(token)?;
        let slot = &mut self.slots[token.slot() as usize];
        slot.generation = Token::next_generation(slot.generation);
        self.free.push(token.slot());
        slot.tenant.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_event_never_reaches_a_reused_slot() {
        let mut connections = ConnectionTable::with_capacity(1);
        let first = connections.reserve().unwrap();
        connections.fill(first, 'a');
        assert!(connections.reserve().is_none(), "the table has one slot");
        assert_eq!(connections.remove(first), Some('a'));
        let second = connections.reserve().unwrap();
        assert!(connections.get(second).is_none(), "a reserved slot has no tenant");
        connections.fill(second, 'b');
        assert_eq!(first.slot(), second.slot());
        assert!(connections.get(first).is_none());
        assert!(connections.remove(first).is_none());
        assert_eq!(connections.get(second), Some(&mut 'b'));
    }
}
