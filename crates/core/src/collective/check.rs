//! The comparison of a collective's arguments across the team, with `PGAS_CHECK=1`.
//!
//! Numbers are compared. The names and lines of calls travel only if two members differ.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::Signature;
use super::encoded::broadcast;
use super::lane::{Call, Lane, Phase};
use crate::error::Mismatch;
use crate::waits::ProgramCall;
use crate::{Error, Result};

/// The arguments that are compared, in the order in which a difference is reported.
const N_FIELDS: usize = 8;

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

/// Compares `call` with those of the other members. Fails on all members alike if two differ.
///
/// Smallest and largest may count a member twice, so the rounds of the dissemination barrier spread
/// them to every member, whatever their number.
pub(super) async fn compare(call: &Call, program: &ProgramCall) -> Result<()> {
    let lane = call.lane(Phase::Check);
    let compared = Compared {
        signature: &call.signature,
        program,
    };
    let mut record = compared
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
    let member = |at: u64| u32::try_from(at).expect("members are counted in 32 bits");
    let [a, b] = [record[field].least_at, record[field].most_at].map(member);
    let (a, b) = (a.min(b), a.max(b));
    let [value_a, line_a] = compared
        .told(call.lane(Phase::OneCall), a, field, "one")
        .await?;
    let other = "another one";
    let [value_b, line_b] = compared
        .told(call.lane(Phase::OtherCall), b, field, other)
        .await?;
    Err(Error::from(Box::new(Mismatch {
        what: compared.field_name(field),
        rank_a: lane.world_rank(a),
        value_a,
        line_a: Some(line_a),
        rank_b: lane.world_rank(b),
        value_b,
        line_b: Some(line_b),
    })))
}

/// The call of a member.
struct Compared<'a> {
    signature: &'a Signature,
    program: &'a ProgramCall,
}

impl Compared<'_> {
    fn fields(&self) -> [u64; N_FIELDS] {
        let Signature { subject, .. } = self.signature;
        [
            fingerprint(&self.call()),
            self.program.object,
            self.signature.root.into(),
            self.signature.element_bytes as u64,
            self.signature.len as u64,
            self.signature.op.map_or(0, |op| op as u64 + 1),
            self.signature.integer.map_or(0, |ty| ty as u64 + 1),
            subject.map_or(0, |(_, value)| value),
        ]
    }

    /// The call in words.
    fn call(&self) -> String {
        let Signature { kind, subject, .. } = self.signature;
        let call = match subject {
            Some((what, _)) => format!("a comparison of {what}"),
            None => kind.name().to_owned(),
        };
        match self.program.whole {
            Some(whole) => format!("{call}, as a part of {whole},"),
            None => call,
        }
    }

    fn field_name(&self, field: usize) -> String {
        let Signature { kind, subject, .. } = self.signature;
        let argument = match field {
            0 => return "the collective that they call".into(),
            1 => {
                let whole = self.program.whole.unwrap_or_else(|| kind.name());
                return format!("the object of {whole}");
            }
            2 => "root",
            3 => "element size",
            4 => "length",
            5 => "operator",
            6 => "element type",
            _ => return subject.map_or("", |(what, _)| what).into(),
        };
        format!("the {argument} of {kind}")
    }

    fn field_value(&self, field: usize, object: &'static str) -> String {
        let signature = self.signature;
        match field {
            0 => self.call(),
            1 => object.to_owned(),
            2 => signature.root.to_string(),
            3 => signature.element_bytes.to_string(),
            4 => signature.len.to_string(),
            5 => match signature.op {
                Some(op) => format!("{op:?}"),
                None => "one of its own".into(),
            },
            6 => match signature.integer {
                Some(ty) => format!("{ty:?}").to_lowercase(),
                None => "no integer up to 64 bits".into(),
            },
            _ => {
                let value = signature.subject.map_or(0, |(_, value)| value);
                let index = usize::try_from(value).unwrap_or(usize::MAX);
                match signature.choices.get(index) {
                    Some(choice) => format!("\"{choice}\""),
                    None => value.to_string(),
                }
            }
        }
    }

    /// The value of `member`, and the line of its call, for all members.
    async fn told(
        &self,
        lane: Lane<'_>,
        member: u32,
        field: usize,
        object: &'static str,
    ) -> Result<[String; 2]> {
        let at = self.program.at;
        let line = format!("{}:{}", at.file(), at.line());
        let told = format!("{}\n{line}", self.field_value(field, object));
        let told = broadcast(lane, member, told.into_bytes()).await?;
        let told = String::from_utf8_lossy(&told);
        let (value, line) = told.split_once('\n').unwrap_or((&told, ""));
        Ok([value.to_owned(), line.to_owned()])
    }
}

/// A number for a call, by its words (FNV-1a): it has to be the same in every process.
fn fingerprint(words: &str) -> u64 {
    words.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}
