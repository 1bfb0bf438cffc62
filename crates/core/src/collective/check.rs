//! The comparison of a collective's arguments across the team, with `PGAS_CHECK=1`.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::lane::Lane;
use super::{Kind, Signature};
use crate::backend::IntegerType;
use crate::backend::collectives::OpKind;
use crate::error::Mismatch;
use crate::{Error, Rank, Result};

/// The arguments that are compared, in the order in which a difference is reported.
const N_FIELDS: usize = 7;

/// The smallest and the largest value of an argument, and the first members that have them.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Extremes {
    least: u64,
    least_at: u64,
    most: u64,
    most_at: u64,
}

impl Extremes {
    fn of(value: u64, member: u32) -> Self {
        Self {
            least: value,
            least_at: member.into(),
            most: value,
            most_at: member.into(),
        }
    }

    fn merge(&mut self, other: Self) {
        if (other.least, other.least_at) < (self.least, self.least_at) {
            (self.least, self.least_at) = (other.least, other.least_at);
        }
        if other.most > self.most || other.most == self.most && other.most_at < self.most_at {
            (self.most, self.most_at) = (other.most, other.most_at);
        }
    }
}

/// Compares `signature` with those of the other members. Fails on all members alike if two differ.
///
/// Smallest and largest may count a member twice, so the rounds of the dissemination barrier spread
/// them to every member, whatever their number.
pub(super) async fn compare(lane: Lane<'_>, signature: &Signature) -> Result<()> {
    let mut record = signature
        .fields()
        .map(|value| Extremes::of(value, lane.rank()));
    for (round, distance) in super::doublings(lane.n_ranks()) {
        lane.send(lane.after(distance), round, record.as_bytes())
            .await?;
        let mut theirs = [Extremes::of(0, 0); N_FIELDS];
        lane.receive_into(lane.before(distance), round, theirs.as_mut_bytes())
            .await?;
        for (ours, theirs) in record.iter_mut().zip(theirs) {
            ours.merge(theirs);
        }
    }
    let differing = record.iter().position(|field| field.least != field.most);
    let Some(field) = differing else {
        return Ok(());
    };
    let extremes = record[field];
    let rank = |member: u64| -> Rank {
        lane.world_rank(u32::try_from(member).expect("members are counted in 32 bits"))
    };
    Err(Error::from(Box::new(Mismatch {
        what: signature.field_name(field),
        rank_a: rank(extremes.least_at),
        value_a: signature.field_value(field, extremes.least),
        rank_b: rank(extremes.most_at),
        value_b: signature.field_value(field, extremes.most),
    })))
}

impl Signature {
    fn fields(&self) -> [u64; N_FIELDS] {
        [
            self.kind as u64,
            self.root.into(),
            self.element_bytes as u64,
            self.len as u64,
            self.op.map_or(0, |op| op as u64 + 1),
            self.integer.map_or(0, |ty| ty as u64 + 1),
            self.subject.map_or(0, |(_, value)| value),
        ]
    }

    fn field_name(&self, field: usize) -> String {
        let argument = match field {
            0 => return "the collective that they call".into(),
            1 => "root",
            2 => "element size",
            3 => "length",
            4 => "operator",
            5 => "element type",
            _ => return self.subject.map_or("", |(what, _)| what).into(),
        };
        format!("the {argument} of {}", self.kind)
    }

    fn field_value(&self, field: usize, value: u64) -> String {
        let index = usize::try_from(value).unwrap_or(usize::MAX);
        match field {
            0 => Kind::ALL
                .get(index)
                .map_or_else(|| value.to_string(), ToString::to_string),
            4 => match index.checked_sub(1).and_then(|i| OpKind::ALL.get(i)) {
                Some(op) => format!("{op:?}"),
                None => "one of its own".into(),
            },
            5 => match index.checked_sub(1).and_then(|i| IntegerType::ALL.get(i)) {
                Some(ty) => format!("{ty:?}").to_lowercase(),
                None => "no integer up to 64 bits".into(),
            },
            6 => match self.choices.get(index) {
                Some(choice) => format!("\"{choice}\""),
                None => value.to_string(),
            },
            _ => value.to_string(),
        }
    }
}
