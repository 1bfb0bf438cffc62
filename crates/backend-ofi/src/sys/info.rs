//! The fabrics that libfabric offers on this host, by their providers.
#![expect(unsafe_code, reason = "reads and fills structures of libfabric")]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_int};
use std::ptr;

use pgas_core::{Error, Result};
use pgas_libfabric_sys::bindings::{
    FI_ADDR_STR, FI_ATOMIC, FI_CONTEXT, FI_CONTEXT2, FI_ENODATA, FI_EP_RDM, FI_MAJOR_VERSION,
    FI_MINOR_VERSION, FI_MR_ALLOCATED, FI_MR_ENDPOINT, FI_MR_LOCAL, FI_MR_PROV_KEY,
    FI_MR_VIRT_ADDR, FI_MSG, FI_MULTI_RECV, FI_ORDER_SAS, FI_PROGRESS_AUTO, FI_RM_ENABLED, FI_RMA,
    FI_SOURCE, FI_THREAD_DOMAIN, fi_info,
};

use super::{check, failed, library};

/// One fabric of one provider.
#[derive(Debug)]
pub(crate) struct Info {
    /// A copy of libfabric's, without a successor.
    at: *mut fi_info,
}

// SAFETY: the structure is this value's alone, and libfabric does not care which thread reads it.
unsafe impl Send for Info {}

/// The modes of memory registration that this backend supports. A provider demands some of them.
const MR_MODES: u32 =
    FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;

/// What a provider may demand of the program besides.
const MODES: u64 = FI_CONTEXT | FI_CONTEXT2;

/// The version of the interface that this backend is written for.
const INTERFACE: u32 = FI_MAJOR_VERSION << 16 | FI_MINOR_VERSION;

/// The fabrics with reliable, connectionless endpoints for messages and one-sided transfers, in
/// libfabric's order. Only those of `provider` and at the address `node` of this host, if these are
/// given.
pub(crate) fn find(provider: Option<&str>, node: Option<&str>) -> Result<Vec<Info>> {
    let node = node.map(c_text).transpose()?;
    let hints = Info::empty()?;
    hints.want(provider)?;
    hints.need();
    let mut found = ask(&hints, node.as_deref())?;
    found.retain(Info::is_as_asked);
    Ok(found)
}

/// The providers that libfabric has here and [`find`] does not find, with what each lacks.
pub(crate) fn unsuitable() -> Result<BTreeMap<String, Vec<&'static str>>> {
    let suitable: Vec<String> = find(None, None)?.iter().map(Info::provider).collect();
    let hints = Info::empty()?;
    hints.want(None)?;
    let mut all: BTreeMap<String, Vec<Info>> = BTreeMap::new();
    for info in ask(&hints, None)? {
        all.entry(info.provider()).or_default().push(info);
    }
    all.retain(|provider, _| !suitable.contains(provider));
    let lacks = |infos: Vec<Info>| {
        let is_lacked = |has: fn(&Info) -> bool| !infos.iter().any(has);
        let mut lacked = vec![
            (
                "reliable endpoints (FI_EP_RDM)",
                is_lacked(Info::is_reliable),
            ),
            ("messages (FI_MSG)", is_lacked(|info| info.can(FI_MSG))),
            (
                "one-sided transfers (FI_RMA)",
                is_lacked(|info| info.can(FI_RMA)),
            ),
        ];
        let has_all = lacked.iter().all(|(_, is_lacked)| !is_lacked);
        lacked.push(("endpoints with all of that and ordered messages", has_all));
        let lacked = lacked.into_iter().filter(|(_, is_lacked)| *is_lacked);
        lacked.map(|(what, _)| what).collect()
    };
    Ok(all
        .into_iter()
        .map(|(name, infos)| (name, lacks(infos)))
        .collect())
}

/// The fabrics that fulfil the hints, and are at the address `node`, if it is given.
fn ask(hints: &Info, node: Option<&CStr>) -> Result<Vec<Info>> {
    let library = library()?;
    let mut found = ptr::null_mut();
    let (name, flags) = match node {
        Some(node) => (node.as_ptr(), FI_SOURCE),
        None => (ptr::null(), 0),
    };
    // SAFETY: the texts end with a zero, the hints are a structure of libfabric's, and the list is
    // this function's to free.
    let code = unsafe {
        (library.getinfo)(
            INTERFACE,
            name,
            ptr::null(),
            flags,
            hints.at,
            &raw mut found,
        )
    };
    if code == -FI_ENODATA.cast_signed() {
        return Ok(Vec::new());
    }
    check("fi_getinfo", code)?;
    let mut infos = Vec::new();
    let mut next = found;
    while !next.is_null() {
        // SAFETY: it is one of the list, and a copy has no successor.
        let copy = unsafe { (library.dupinfo)(next) };
        if !copy.is_null() {
            infos.push(Info { at: copy });
        }
        // SAFETY: as above.
        next = unsafe { (*next).next };
    }
    // SAFETY: the list is this function's, and its copies are their own.
    unsafe { (library.freeinfo)(found) };
    Ok(infos)
}

/// A text for libfabric.
fn c_text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::backend("fi_getinfo", 0, "a name with a zero byte"))
}

impl Info {
    /// Hints without any wish.
    fn empty() -> Result<Self> {
        // SAFETY: of a null pointer it makes an empty structure.
        let hints = unsafe { (library()?.dupinfo)(ptr::null()) };
        if hints.is_null() {
            return Err(failed("fi_dupinfo", -12));
        }
        Ok(Self { at: hints })
    }

    /// Fills the hints with what is needed of a provider.
    fn need(&self) {
        // SAFETY: it is a structure with all its parts, and nobody else's.
        let info = unsafe { &mut *self.at };
        info.caps = u64::from(FI_MSG | FI_RMA);
        // SAFETY: as above.
        let endpoint = unsafe { &mut *info.ep_attr };
        // SAFETY: as above.
        let send = unsafe { &mut *info.tx_attr };
        endpoint.type_ = FI_EP_RDM;
        send.msg_order = u64::from(FI_ORDER_SAS);
    }

    /// Fills the hints with what this backend can do for a provider.
    fn want(&self, provider: Option<&str>) -> Result<()> {
        let provider = provider.map(c_text).transpose()?;
        // SAFETY: it is an empty structure with all its parts, and nobody else's.
        let info = unsafe { &mut *self.at };
        info.mode = MODES;
        // SAFETY: as above.
        let domain = unsafe { &mut *info.domain_attr };
        domain.mr_mode = MR_MODES.cast_signed();
        domain.threading = FI_THREAD_DOMAIN;
        domain.resource_mgmt = FI_RM_ENABLED;
        // SAFETY: as above.
        let fabric = unsafe { &mut *info.fabric_attr };
        if let Some(provider) = provider {
            // SAFETY: the text ends with a zero. libfabric frees the copy, which `strdup` makes by
            // the allocator that it frees by.
            fabric.prov_name = unsafe { libc::strdup(provider.as_ptr()) };
        }
        Ok(())
    }

    pub(super) fn as_ptr(&self) -> *mut fi_info {
        self.at
    }

    /// Pretends that the provider demands registration of local memory.
    #[cfg(test)]
    pub(crate) fn pretend_local(&mut self) {
        // SAFETY: libfabric fills all parts, and this has the only reference.
        let domain = unsafe { &mut *(self.parts().domain_attr) };
        domain.mr_mode |= FI_MR_LOCAL.cast_signed();
    }

    /// The same fabric with receives for many messages each, if the provider has them.
    pub(super) fn receiving_many(self) -> Self {
        self.asked_for(FI_MULTI_RECV, |hints| {
            // SAFETY: the structure is this value's alone, with all its parts.
            let receive = unsafe { &mut *hints.rx_attr };
            receive.caps |= u64::from(FI_MULTI_RECV);
        })
    }

    /// The same fabric with atomics, if the provider has them. Providers order less with atomics,
    /// so that only the order is asked for that is needed.
    pub(crate) fn with_atomics(self) -> Self {
        self.asked_for(FI_ATOMIC, |hints| {
            // SAFETY: the structure is this value's alone, with all its parts.
            let send = unsafe { &mut *hints.tx_attr };
            // SAFETY: as above.
            let receive = unsafe { &mut *hints.rx_attr };
            send.caps |= u64::from(FI_ATOMIC);
            receive.caps |= u64::from(FI_ATOMIC);
            send.msg_order = u64::from(FI_ORDER_SAS);
            receive.msg_order = u64::from(FI_ORDER_SAS);
        })
    }

    /// The same fabric with a capability, if the provider has it. It need not say so before it is
    /// asked. `ask_parts` asks its parts.
    fn asked_for(self, capability: u32, ask_parts: impl Fn(&mut fi_info)) -> Self {
        if self.can(capability) {
            return self;
        }
        let Ok(library) = library() else {
            return self;
        };
        // SAFETY: it is a structure of libfabric's.
        let hints = unsafe { (library.dupinfo)(self.at) };
        if hints.is_null() {
            return self;
        }
        let hints = Self { at: hints };
        // SAFETY: the structure is this function's alone, and libfabric fills all parts.
        let info = unsafe { &mut *hints.at };
        info.caps |= u64::from(capability);
        ask_parts(info);
        // Without the capability the provider stays as it is.
        let found = ask(&hints, None).unwrap_or_default();
        let mut found = found.into_iter();
        let found = found.find(|info| info.can(capability) && info.is_as_asked());
        found.unwrap_or(self)
    }

    /// Whether the provider has atomics.
    pub(crate) fn has_atomics(&self) -> bool {
        self.can(FI_ATOMIC)
    }

    /// Whether the provider says that transfers need no call of this process once they have begun.
    pub(crate) fn progresses_alone(&self) -> bool {
        // SAFETY: libfabric fills all parts.
        unsafe { &*self.parts().domain_attr }.data_progress == FI_PROGRESS_AUTO
    }

    /// Whether a receive can take many messages.
    pub(super) fn receives_many(&self) -> bool {
        self.can(FI_MULTI_RECV)
    }

    fn can(&self, caps: u32) -> bool {
        self.parts().caps & u64::from(caps) != 0
    }

    /// Whether it demands nothing that was not offered, and keeps the order of messages. Not all
    /// providers compare that with what they are asked.
    fn is_as_asked(&self) -> bool {
        // SAFETY: libfabric fills all parts.
        let send = unsafe { &*self.parts().tx_attr };
        self.parts().mode & !MODES == 0 && send.msg_order & u64::from(FI_ORDER_SAS) != 0
    }

    fn is_reliable(&self) -> bool {
        // SAFETY: libfabric fills all parts.
        unsafe { &*self.parts().ep_attr }.type_ == FI_EP_RDM
    }

    fn parts(&self) -> &fi_info {
        // SAFETY: the structure is this value's, and nobody changes it.
        unsafe { &*self.at }
    }

    /// The provider's name, such as `tcp;ofi_rxm`.
    pub(crate) fn provider(&self) -> String {
        // SAFETY: libfabric fills all parts.
        let name = unsafe { &*self.parts().fabric_attr }.prov_name;
        if name.is_null() {
            return String::new();
        }
        // SAFETY: it is a text of the structure's, which ends with a zero.
        let name = unsafe { CStr::from_ptr(name) };
        name.to_string_lossy().into_owned()
    }

    /// The longest message and transfer, in bytes.
    pub(crate) fn max_bytes(&self) -> usize {
        // SAFETY: libfabric fills all parts.
        unsafe { &*self.parts().ep_attr }.max_msg_size
    }

    /// The longest message whose buffer is free at once, in bytes.
    pub(crate) fn inject_bytes(&self) -> usize {
        // SAFETY: as above.
        unsafe { &*self.parts().tx_attr }.inject_size
    }

    /// The provider's mode of memory registration.
    fn mr_mode(&self) -> c_int {
        // SAFETY: as above.
        unsafe { &*self.parts().domain_attr }.mr_mode
    }

    /// Whether peers name registered memory by its address there, and not by an offset.
    pub(crate) fn by_address(&self) -> bool {
        self.mr_mode() & FI_MR_VIRT_ADDR.cast_signed() != 0
    }

    /// Whether memory of this process has to be registered, too, to be sent from or received in.
    pub(crate) fn registers_local(&self) -> bool {
        self.mr_mode() & FI_MR_LOCAL.cast_signed() != 0
    }

    /// Whether addresses are texts, which end with a zero.
    pub(crate) fn has_texts_for_addresses(&self) -> bool {
        self.parts().addr_format == FI_ADDR_STR
    }

    /// Whether registered memory belongs to an endpoint.
    pub(super) fn by_endpoint(&self) -> bool {
        self.mr_mode() & FI_MR_ENDPOINT.cast_signed() != 0
    }
}

impl Drop for Info {
    fn drop(&mut self) {
        if let Ok(library) = library() {
            // SAFETY: the structure is this value's, with all that it points to.
            unsafe { (library.freeinfo)(self.at) };
        }
    }
}
