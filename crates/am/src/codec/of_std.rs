//! Types of std that serde would not give back as they were.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::path::PathBuf;

use pgas_core::Result;

use super::decoder::Decoder;
use super::encoder::Encoder;
use super::layout::Layout;
use super::refusal::unwritable;
use super::wire::{Codec, Each, Wire};

/// The codec of these types.
#[derive(Clone, Copy, Debug)]
pub enum OfStd {}

impl Wire for SocketAddrV6 {
    type By = OfStd;
}

impl Wire for SocketAddr {
    type By = OfStd;
}

impl Wire for PathBuf {
    type By = OfStd;
}

type V6 = (Ipv6Addr, u16, u32, u32);

/// With its flow information and scope, which serde leaves out.
impl Codec<SocketAddrV6> for OfStd {
    type Array<const N: usize> = Each<Self>;

    fn encode(at: &SocketAddrV6, out: &mut Encoder) -> Result<()> {
        let parts: V6 = (*at.ip(), at.port(), at.flowinfo(), at.scope_id());
        out.put(&parts)
    }

    fn decode(input: &mut Decoder<'_>) -> Result<SocketAddrV6> {
        let (ip, port, flow, scope) = input.get::<V6>()?;
        Ok(SocketAddrV6::new(ip, port, flow, scope))
    }

    fn layout(out: &mut Layout) {
        out.say("socket address, version 6");
    }
}

impl Codec<SocketAddr> for OfStd {
    type Array<const N: usize> = Each<Self>;

    fn encode(at: &SocketAddr, out: &mut Encoder) -> Result<()> {
        out.put(&(at.ip(), at.port()))?;
        match at {
            SocketAddr::V4(_) => Ok(()),
            SocketAddr::V6(at) => out.put(&(at.flowinfo(), at.scope_id())),
        }
    }

    fn decode(input: &mut Decoder<'_>) -> Result<SocketAddr> {
        let (ip, port) = input.get::<(IpAddr, u16)>()?;
        let IpAddr::V6(ip) = ip else {
            return Ok(SocketAddr::new(ip, port));
        };
        let (flow, scope) = input.get::<(u32, u32)>()?;
        Ok(SocketAddrV6::new(ip, port, flow, scope).into())
    }

    fn layout(out: &mut Layout) {
        out.say("socket address");
    }
}

/// For containers without what does not tell paths apart, as a second slash: equal paths are one
/// key.
impl Codec<PathBuf> for OfStd {
    type Array<const N: usize> = Each<Self>;

    fn encode(path: &PathBuf, out: &mut Encoder) -> Result<()> {
        let put = if out.is_canonical() {
            out.put_by_serde(&path.components().collect::<PathBuf>())
        } else {
            out.put_by_serde(path)
        };
        put.map_err(unwritable::<PathBuf>)
    }

    fn decode(input: &mut Decoder<'_>) -> Result<PathBuf> {
        input.get_by_serde()
    }

    fn layout(out: &mut Layout) {
        out.by_serde::<PathBuf>();
    }
}
