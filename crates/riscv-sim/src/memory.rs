//! The memory of one node.

#![expect(
    clippy::cast_possible_truncation,
    reason = "addresses are 64 bits wide, as those of the host are"
)]

/// Where the memory of a bare machine starts in the address space.
pub const RAM_BASE: u64 = 0x8000_0000;

/// The memory of one node: bytes from an address on, [`RAM_BASE`] unless the guest is a program of
/// Linux.
#[derive(Clone, Debug)]
pub struct Ram {
    start: u64,
    bytes: Vec<u8>,
}

impl Ram {
    /// Memory of `n_bytes` zeros. The host has to find a page only when it is written.
    #[must_use]
    pub fn new(n_bytes: usize) -> Self {
        Self::starting_at(RAM_BASE, n_bytes)
    }

    /// As [`new`](Self::new), from the address `start` on.
    #[must_use]
    pub fn starting_at(start: u64, n_bytes: usize) -> Self {
        Self {
            start,
            bytes: vec![0; n_bytes],
        }
    }

    /// Its first address.
    #[must_use]
    pub const fn start(&self) -> u64 {
        self.start
    }

    /// How many bytes there are.
    #[must_use]
    pub fn n_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The first address after it.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Whether these addresses lie in it.
    #[must_use]
    pub fn contains(&self, address: u64, n_bytes: u64) -> bool {
        address
            .checked_sub(self.start)
            .and_then(|offset| offset.checked_add(n_bytes))
            .is_some_and(|end| end <= self.bytes.len() as u64)
    }

    /// How far an address lies from the start; where there is no memory, beyond its end.
    #[inline(always)]
    pub(crate) const fn offset(&self, address: u64) -> u64 {
        address.wrapping_sub(self.start)
    }

    /// `N` bytes from `address` on, if they lie in it.
    #[inline(always)]
    #[must_use]
    pub fn load<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        self.load_at(self.offset(address))
    }

    /// As [`load`](Self::load), from an offset on.
    #[inline(always)]
    pub(crate) fn load_at<const N: usize>(&self, offset: u64) -> Option<[u8; N]> {
        self.bytes.get(offset as usize..)?.first_chunk().copied()
    }

    /// Writes bytes at `address`; false, and nothing written, if they do not all lie in it.
    #[inline(always)]
    #[must_use]
    pub fn store<const N: usize>(&mut self, address: u64, value: [u8; N]) -> bool {
        self.store_at(self.offset(address), value)
    }

    /// As [`store`](Self::store), at an offset.
    #[inline(always)]
    pub(crate) fn store_at<const N: usize>(&mut self, offset: u64, value: [u8; N]) -> bool {
        let place = self
            .bytes
            .get_mut(offset as usize..)
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
        let start = (address - self.start) as usize;
        self.bytes.get(start..start + n_bytes as usize)
    }

    /// The bytes at `address`, to be written, if they lie in it.
    #[must_use]
    pub fn slice_mut(&mut self, address: u64, n_bytes: u64) -> Option<&mut [u8]> {
        if !self.contains(address, n_bytes) {
            return None;
        }
        let start = (address - self.start) as usize;
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

    /// Writes the low `n_bytes` (up to 8, or 16, of which the upper half is zero) of `value`;
    /// false, and nothing written, if they do not all lie in it.
    #[must_use]
    pub fn write(&mut self, address: u64, n_bytes: u64, value: u64) -> bool {
        match n_bytes {
            8 => self.store(address, value.to_le_bytes()),
            4 => self.store(address, (value as u32).to_le_bytes()),
            2 => self.store(address, (value as u16).to_le_bytes()),
            1 => self.store(address, [value as u8]),
            16 => self.store(address, u128::from(value).to_le_bytes()),
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
