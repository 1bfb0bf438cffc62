//! The memory of one node.

#![expect(
    clippy::cast_possible_truncation,
    reason = "addresses are 64 bits wide, as those of the host are"
)]

/// Where it starts in the address space.
pub const RAM_BASE: u64 = 0x8000_0000;

/// The memory of one node: bytes from [`RAM_BASE`] on.
#[derive(Clone, Debug)]
pub struct Ram {
    bytes: Vec<u8>,
}

impl Ram {
    /// Memory of `n_bytes` zeros.
    #[must_use]
    pub fn new(n_bytes: usize) -> Self {
        Self {
            bytes: vec![0; n_bytes],
        }
    }

    /// How many bytes there are.
    #[must_use]
    pub fn n_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The first address after it.
    #[must_use]
    pub fn end(&self) -> u64 {
        RAM_BASE + self.bytes.len() as u64
    }

    /// Whether these addresses lie in it.
    #[must_use]
    pub fn contains(&self, address: u64, n_bytes: u64) -> bool {
        address
            .checked_sub(RAM_BASE)
            .and_then(|offset| offset.checked_add(n_bytes))
            .is_some_and(|end| end <= self.bytes.len() as u64)
    }

    /// `N` bytes from `address` on, if they lie in it.
    #[inline(always)]
    #[must_use]
    pub fn load<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let offset = address.wrapping_sub(RAM_BASE) as usize;
        self.bytes.get(offset..)?.first_chunk().copied()
    }

    /// Writes bytes at `address`; false, and nothing written, if they do not all lie in it.
    #[inline(always)]
    #[must_use]
    pub fn store<const N: usize>(&mut self, address: u64, value: [u8; N]) -> bool {
        let offset = address.wrapping_sub(RAM_BASE) as usize;
        let place = self
            .bytes
            .get_mut(offset..)
            .and_then(<[u8]>::first_chunk_mut);
        match place {
            Some(place) => {
                *place = value;
                true
            }
            None => false,
        }
    }

    /// The bytes at `address`, if they lie in it.
    #[must_use]
    pub fn slice(&self, address: u64, n_bytes: u64) -> Option<&[u8]> {
        if !self.contains(address, n_bytes) {
            return None;
        }
        let start = (address - RAM_BASE) as usize;
        self.bytes.get(start..start + n_bytes as usize)
    }

    /// The bytes at `address`, to be written, if they lie in it.
    #[must_use]
    pub fn slice_mut(&mut self, address: u64, n_bytes: u64) -> Option<&mut [u8]> {
        if !self.contains(address, n_bytes) {
            return None;
        }
        let start = (address - RAM_BASE) as usize;
        self.bytes.get_mut(start..start + n_bytes as usize)
    }

    /// The little-endian number of up to 8 bytes at `address`.
    #[must_use]
    pub fn read(&self, address: u64, n_bytes: u64) -> Option<u64> {
        // The widths that instructions have cost no call of a copying function.
        Some(match n_bytes {
            8 => u64::from_le_bytes(self.load(address)?),
            4 => u32::from_le_bytes(self.load(address)?).into(),
            2 => u16::from_le_bytes(self.load(address)?).into(),
            1 => u8::from_le_bytes(self.load(address)?).into(),
            _ => {
                let mut word = [0; 8];
                let bytes = self.slice(address, n_bytes)?;
                word.get_mut(..bytes.len())?.copy_from_slice(bytes);
                u64::from_le_bytes(word)
            }
        })
    }

    /// Writes the low `n_bytes` (up to 8) of `value`; false, and nothing written, if they do not all lie in it.
    #[must_use]
    pub fn write(&mut self, address: u64, n_bytes: u64, value: u64) -> bool {
        match n_bytes {
            8 => self.store(address, value.to_le_bytes()),
            4 => self.store(address, (value as u32).to_le_bytes()),
            2 => self.store(address, (value as u16).to_le_bytes()),
            1 => self.store(address, [value as u8]),
            _ => {
                let word = value.to_le_bytes();
                let place = self.slice_mut(address, n_bytes);
                let both = place.zip(word.get(..n_bytes as usize));
                both.map(|(place, bytes)| place.copy_from_slice(bytes))
                    .is_some()
            }
        }
    }
}
