//! Writes simulated reads of a random or a given genome as FASTQ.
//!
//! ```text
//! cargo run --release -p pgas-genomics --example simulate_reads -- --genome-length 2000000 \
//!     --reads 1000000 --length 100 --errors 0.01 --seed 1 --out reads.fq
//! ```

use std::error::Error;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use lexopt::{Arg, Parser};
use pgas_genomics::output::check_names;
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
            Arg::Long("genome-length") => {
                options.genome_length = number("genome-length", &mut parser)?;
            }
            Arg::Long("genome-out") => options.genome_out = Some(parser.value()?.into()),
            Arg::Long("reads") => options.plan.n_reads = number("reads", &mut parser)?,
            Arg::Long("length") => options.plan.length = number("length", &mut parser)?,
            Arg::Long("errors") => options.plan.error_rate = number("errors", &mut parser)?,
            Arg::Long("seed") => options.plan.seed = number("seed", &mut parser)?,
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

/// The value of an option that takes a number.
fn number<T>(option: &str, parser: &mut Parser) -> Result<T, Box<dyn Error>>
where
    T: FromStr<Err: Display>,
{
    let value = parser.value()?;
    let text = value.to_string_lossy();
    let parsed = text.parse();
    parsed.map_err(|error| format!("--{option} {text}: {error}").into())
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let outputs = [options.genome_out.as_deref(), options.out.as_deref()];
    check_names(&outputs, options.genome.as_slice())?;
    let genome = match &options.genome {
        Some(path) => Genome::read_fasta(path)?,
        None => {
            let n_bases = options.genome_length;
            let room = Vec::<u8>::new().try_reserve_exact(n_bases);
            room.map_err(|error| format!("--genome-length {n_bases}: {error}"))?;
            Genome::random(n_bases, options.plan.seed)
        }
    };
    let reads = SimulatedReads::new(&genome, options.plan)?;
    if let Some(path) = &options.genome_out {
        to_file(path, |file| genome.write_fasta(file))?;
    }
    match &options.out {
        Some(path) => to_file(path, |file| reads.write_fastq(file)),
        None => {
            let written = reads.write_fastq(BufWriter::new(io::stdout().lock()));
            Ok(written.map_err(|error| format!("standard output: {error}"))?)
        }
    }
}

fn to_file(
    path: &Path,
    write: impl FnOnce(BufWriter<File>) -> io::Result<()>,
) -> Result<(), Box<dyn Error>> {
    let written = File::create(path).and_then(|file| write(BufWriter::new(file)));
    written.map_err(|error| format!("{}: {error}", path.display()).into())
}
