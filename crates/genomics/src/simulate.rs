//! Genomes and reads from a seed: the same seed gives the same bytes on every machine.

use std::io::{self, Write};
use std::path::Path;

use pgas_core::notice::printable;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::reads::fasta_records;
use crate::{Error, Result};

const BASES: [u8; 4] = *b"ACGT";

/// Letters of a line of a FASTA file that [`Genome::write_fasta`] writes.
const LINE: usize = 70;

/// Sequences to take reads from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Genome {
    chromosomes: Vec<Chromosome>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Chromosome {
    name: String,
    bases: Vec<u8>,
}

impl Genome {
    /// One chromosome of `n_bases` random bases, each as likely as any other.
    #[must_use]
    pub fn random(n_bases: usize, seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let bases = (0..n_bases)
            .map(|_| BASES[(rng.next_u64() >> 62) as usize])
            .collect();
        Self {
            chromosomes: vec![Chromosome {
                name: format!("random_{n_bases}_{seed}"),
                bases,
            }],
        }
    }

    /// The records of a FASTA file, plain or gzip, in upper case. RNA becomes DNA.
    ///
    /// # Errors
    /// If the file is not FASTA, and those of [`Input`](crate::Input).
    pub fn read_fasta(path: &Path) -> Result<Self> {
        let records = fasta_records(path)?.ok_or_else(|| Error::Simulation {
            what: format!("{} is not a FASTA file", printable(path.display())).into(),
        })?;
        let chromosomes = records.into_iter().map(|record| {
            let mut words = record.name.split(u8::is_ascii_whitespace);
            let name = String::from_utf8_lossy(words.next().unwrap_or_default()).into_owned();
            let mut bases = record.letters;
            bases.iter_mut().for_each(|base| *base = dna(*base));
            Chromosome { name, bases }
        });
        Ok(Self {
            chromosomes: chromosomes.collect(),
        })
    }

    /// The number of bases.
    #[must_use]
    pub fn n_bases(&self) -> usize {
        self.chromosomes
            .iter()
            .map(|chromosome| chromosome.bases.len())
            .sum()
    }

    /// Writes the genome as FASTA, 70 letters a line.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_fasta(&self, mut out: impl Write) -> io::Result<()> {
        for chromosome in &self.chromosomes {
            writeln!(out, ">{}", chromosome.name)?;
            for line in chromosome.bases.chunks(LINE) {
                out.write_all(line)?;
                out.write_all(b"\n")?;
            }
        }
        out.flush()
    }
}

/// The parameters of simulated reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadPlan {
    /// Number of reads.
    pub n_reads: u64,
    /// Bases in each read.
    pub length: usize,
    /// The probability that a base is replaced by one of the three others.
    pub error_rate: f64,
    /// The seed of the reads.
    pub seed: u64,
}

/// Reads of a genome, each from a random place and strand, with random errors.
///
/// # Examples
/// ```
/// use pgas_genomics::simulate::{Genome, ReadPlan, SimulatedReads};
///
/// let genome = Genome::random(1000, 7);
/// let plan = ReadPlan { n_reads: 3, length: 50, error_rate: 0.01, seed: 1 };
/// let mut fastq = Vec::new();
/// SimulatedReads::new(&genome, plan)?.write_fastq(&mut fastq)?;
/// assert_eq!(fastq.iter().filter(|byte| **byte == b'\n').count(), 3 * 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SimulatedReads<'a> {
    genome: &'a Genome,
    plan: ReadPlan,
    /// Number of places at which a read can begin.
    n_places: u64,
    /// A base is wrong if a random number of 53 bits is below this.
    error_limit: u64,
    rng: Xoshiro256PlusPlus,
    n_made: u64,
}

/// One simulated read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedRead {
    /// Number of the read, name of the chromosome, position in it from 0, and strand.
    pub name: String,
    /// The bases.
    pub bases: Vec<u8>,
}

impl<'a> SimulatedReads<'a> {
    /// Reads of `genome` according to `plan`.
    ///
    /// # Errors
    /// If no chromosome is as long as a read, the length is 0, or the error rate is not a
    /// probability.
    pub fn new(genome: &'a Genome, plan: ReadPlan) -> Result<Self> {
        let refuse = |what: String| Err(Error::Simulation { what: what.into() });
        if plan.length == 0 {
            return refuse("a read has at least 1 base, not 0".into());
        }
        if !(0.0..=1.0).contains(&plan.error_rate) {
            return refuse(format!("the error rate is 0 to 1, not {}", plan.error_rate));
        }
        let n_places = genome
            .chromosomes
            .iter()
            .map(|chromosome| places(chromosome, plan.length))
            .sum();
        if n_places == 0 {
            return refuse(format!(
                "no chromosome has the {} bases of a read",
                plan.length
            ));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and 2^53, checked above"
        )]
        let error_limit = (plan.error_rate * (1_u64 << 53) as f64) as u64;
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(plan.seed);
        // Far from the random numbers of a genome with the same seed.
        rng.jump();
        Ok(Self {
            genome,
            plan,
            n_places,
            error_limit,
            rng,
            n_made: 0,
        })
    }

    /// Writes the remaining reads as FASTQ, all with the same quality.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_fastq(self, mut out: impl Write) -> io::Result<()> {
        let quality = vec![b'I'; self.plan.length];
        for read in self {
            writeln!(out, "@{}", read.name)?;
            out.write_all(&read.bases)?;
            out.write_all(b"\n+\n")?;
            out.write_all(&quality)?;
            out.write_all(b"\n")?;
        }
        out.flush()
    }

    /// A random number below `n`.
    fn below(&mut self, n: u64) -> u64 {
        let product = u128::from(self.rng.next_u64()) * u128::from(n);
        u64::try_from(product >> 64).expect("below n")
    }

    fn random_place(&mut self) -> (&'a Chromosome, usize) {
        let mut place = self.below(self.n_places);
        for chromosome in &self.genome.chromosomes {
            let n_here = places(chromosome, self.plan.length);
            if place < n_here {
                return (
                    chromosome,
                    usize::try_from(place).expect("below a length in memory"),
                );
            }
            place -= n_here;
        }
        unreachable!("the place is below the sum of all chromosomes' places")
    }

    fn make_errors(&mut self, bases: &mut [u8]) {
        for base in bases {
            if self.rng.next_u64() >> 11 < self.error_limit {
                let others: Vec<_> = BASES.into_iter().filter(|other| other != base).collect();
                let choice = self.below(others.len() as u64);
                *base = others[usize::try_from(choice).expect("below 4")];
            }
        }
    }
}

impl Iterator for SimulatedReads<'_> {
    type Item = SimulatedRead;

    fn next(&mut self) -> Option<SimulatedRead> {
        if self.n_made == self.plan.n_reads {
            return None;
        }
        let (chromosome, place) = self.random_place();
        let mut bases = chromosome.bases[place..place + self.plan.length].to_vec();
        let is_reverse = self.rng.next_u64() >> 63 == 1;
        if is_reverse {
            bases.reverse();
            bases.iter_mut().for_each(|base| *base = complement(*base));
        }
        self.make_errors(&mut bases);
        let strand = if is_reverse { '-' } else { '+' };
        let name = format!("{} {}:{place}{strand}", self.n_made, chromosome.name);
        self.n_made += 1;
        Some(SimulatedRead { name, bases })
    }
}

/// The number of places at which a read of `length` can begin.
fn places(chromosome: &Chromosome, length: usize) -> u64 {
    (chromosome.bases.len() + 1).saturating_sub(length) as u64
}

/// A letter in upper case, that of uracil as thymine.
fn dna(letter: u8) -> u8 {
    match letter.to_ascii_uppercase() {
        b'U' => b'T',
        other => other,
    }
}

/// The base of the other strand, also of letters that stand for several bases.
fn complement(base: u8) -> u8 {
    const PAIRS: [[u8; 2]; 6] = [*b"AT", *b"CG", *b"RY", *b"KM", *b"BV", *b"DH"];
    let of_pair = |[a, b]: [u8; 2]| match base {
        _ if base == a => Some(b),
        _ if base == b => Some(a),
        _ => None,
    };
    PAIRS.into_iter().find_map(of_pair).unwrap_or(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(error_rate: f64) -> ReadPlan {
        ReadPlan {
            n_reads: 2000,
            length: 100,
            error_rate,
            seed: 5,
        }
    }

    fn n_differences(genome: &Genome, read: &SimulatedRead) -> usize {
        let bases = &genome.chromosomes[0].bases;
        let (_, at) = read.name.rsplit_once(':').unwrap();
        let place: usize = at[..at.len() - 1].parse().unwrap();
        let mut origin = bases[place..place + read.bases.len()].to_vec();
        if at.ends_with('-') {
            origin.reverse();
            origin.iter_mut().for_each(|base| *base = complement(*base));
        }
        origin
            .iter()
            .zip(&read.bases)
            .filter(|(a, b)| a != b)
            .count()
    }

    #[test]
    fn reads_without_errors_are_pieces_of_the_genome() {
        let genome = Genome::random(130, 3);
        let reads: Vec<_> = SimulatedReads::new(&genome, plan(0.0)).unwrap().collect();
        assert_eq!(reads.len(), 2000);
        assert!(reads.iter().all(|read| n_differences(&genome, read) == 0));
        let n_reverse = reads.iter().filter(|read| read.name.ends_with('-')).count();
        assert!(
            (800..1200).contains(&n_reverse),
            "{n_reverse} of 2000 from the other strand"
        );
        for end in [":0+", ":0-", ":30+", ":30-"] {
            assert!(
                reads.iter().any(|read| read.name.ends_with(end)),
                "none at {end}"
            );
        }
    }

    #[test]
    fn a_genome_has_the_letters_of_all_records_in_upper_case() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("genome.fa");
        std::fs::write(&path, "\r\n>a b\r\nACgu\r\n\r\nRN\n>\n>c\nBDK").unwrap();
        let genome = Genome::read_fasta(&path).unwrap();
        let mut text = Vec::new();
        genome.write_fasta(&mut text).unwrap();
        assert_eq!(text, b">a\nACGTRN\n>\n>c\nBDK\n");
        let other: Vec<_> = b"ACGTRNBDK".iter().map(|base| complement(*base)).collect();
        assert_eq!(other, b"TGCAYNVHM");
        let error = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let error = Genome::read_fasta(&path).unwrap_err();
            error.to_string().replace(&*path.to_string_lossy(), "file")
        };
        let blank = "file, line 2: byte 0x20 in a sequence";
        assert_eq!(error(">a\nACGT \n"), blank);
        let fastq = "cannot simulate reads: file is not a FASTA file";
        assert_eq!(error("@a\nACGT\n+\nIIII\n"), fastq);
    }

    #[test]
    fn errors_are_as_frequent_as_asked() {
        let genome = Genome::random(10_000, 3);
        let n_errors = |rate| -> usize {
            let reads = SimulatedReads::new(&genome, plan(rate)).unwrap();
            reads.map(|read| n_differences(&genome, &read)).sum()
        };
        assert!(
            (1700..2300).contains(&n_errors(0.01)),
            "{} of 200,000",
            n_errors(0.01)
        );
        assert_eq!(n_errors(1.0), 200_000);
    }

    #[test]
    fn the_same_seed_gives_the_same_reads_on_every_machine() {
        let genome = Genome::random(40, 1);
        let mut fasta = Vec::new();
        genome.write_fasta(&mut fasta).unwrap();
        let mut fastq = Vec::new();
        let plan = ReadPlan {
            n_reads: 2,
            length: 10,
            error_rate: 0.1,
            seed: 1,
        };
        SimulatedReads::new(&genome, plan)
            .unwrap()
            .write_fastq(&mut fastq)
            .unwrap();
        let genome = "TGAGAGTGAATCACAAGCTGCTACAGATGGGGGGTCAGTG";
        assert_eq!(
            String::from_utf8(fasta).unwrap(),
            format!(">random_40_1\n{genome}\n")
        );
        let reads = [
            ("0 random_40_1:26-", "GACCCGCCAT"),
            ("1 random_40_1:16-", "CTGTAGCAGG"),
        ];
        let expected = reads.map(|(name, bases)| format!("@{name}\n{bases}\n+\nIIIIIIIIII\n"));
        assert_eq!(String::from_utf8(fastq).unwrap(), expected.concat());
    }

    #[test]
    fn impossible_plans_are_refused() {
        let genome = Genome::random(99, 1);
        let refusal = |plan| SimulatedReads::new(&genome, plan).unwrap_err().to_string();
        assert_eq!(
            refusal(plan(0.0)),
            "cannot simulate reads: no chromosome has the 100 bases of a read"
        );
        assert_eq!(
            refusal(plan(1.5)),
            "cannot simulate reads: the error rate is 0 to 1, not 1.5"
        );
        assert_eq!(
            refusal(ReadPlan {
                length: 0,
                ..plan(0.0)
            }),
            "cannot simulate reads: a read has at least 1 base, not 0"
        );
    }
}
