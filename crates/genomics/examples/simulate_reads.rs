//! Writes simulated reads of a random or a given genome as FASTQ.
//!
//! ```text
//! cargo run --release -p pgas-genomics --example simulate_reads -- --genome-length 2000000 \
//!     --reads 1000000 --length 100 --errors 0.01 --seed 1 --out reads.fq
//! ```

use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use lexopt::{Arg, Parser, ValueExt};
use pgas_genomics::simulate::{Genome, ReadPlan, SimulatedReads};

const HELP: &str = "\
Writes simulated reads as FASTQ; the same options give the same bytes.

  --genome FILE        take the reads from this FASTA file (plain or gzip)
  --genome-length N    or from a random genome of N bases [2000000]
  --genome-out FILE    write that genome as FASTA
  --reads N            number of reads [1000000]
  --length N           bases of a read [100]
  --errors RATE        probability that a base is wrong [0.01]
  --seed N             seed of the genome and of the reads [1]
  --out FILE           where to write, instead of standard output
";

struct Options {
    genome: Option<PathBuf>,
    genome_length: usize,
    genome_out: Option<PathBuf>,
    plan: ReadPlan,
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    match parse().and_then(|options| options.map_or(Ok(()), |options| run(&options))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => match writeln!(io::stderr(), "simulate_reads: {error}") {
            Ok(()) | Err(_) => ExitCode::FAILURE,
        },
    }
}

/// The options, or `None` after help was printed.
fn parse() -> Result<Option<Options>, Box<dyn Error>> {
    let plan = ReadPlan {
        n_reads: 1_000_000,
        length: 100,
        error_rate: 0.01,
        seed: 1,
    };
    let mut options = Options {
        genome: None,
        genome_length: 2_000_000,
        genome_out: None,
        plan,
        out: None,
    };
    let mut parser = Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("genome") => options.genome = Some(parser.value()?.into()),
            Arg::Long("genome-length") => options.genome_length = parser.value()?.parse()?,
            Arg::Long("genome-out") => options.genome_out = Some(parser.value()?.into()),
            Arg::Long("reads") => options.plan.n_reads = parser.value()?.parse()?,
            Arg::Long("length") => options.plan.length = parser.value()?.parse()?,
            Arg::Long("errors") => options.plan.error_rate = parser.value()?.parse()?,
            Arg::Long("seed") => options.plan.seed = parser.value()?.parse()?,
            Arg::Long("out") => options.out = Some(parser.value()?.into()),
            Arg::Long("help") | Arg::Short('h') => {
                io::stdout().write_all(HELP.as_bytes())?;
                return Ok(None);
            }
            _ => return Err(argument.unexpected().into()),
        }
    }
    Ok(Some(options))
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let genome = match &options.genome {
        Some(path) => Genome::read_fasta(path)?,
        None => Genome::random(options.genome_length, options.plan.seed),
    };
    let reads = SimulatedReads::new(&genome, options.plan)?;
    if let Some(path) = &options.genome_out {
        genome.write_fasta(BufWriter::new(create(path)?))?;
    }
    match &options.out {
        Some(path) => reads.write_fastq(BufWriter::new(create(path)?))?,
        None => reads.write_fastq(BufWriter::new(io::stdout().lock()))?,
    }
    Ok(())
}

fn create(path: &PathBuf) -> Result<File, String> {
    File::create(path).map_err(|error| format!("{}: {error}", path.display()))
}
