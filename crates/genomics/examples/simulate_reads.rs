//! Writes simulated reads of a random or a given genome as FASTQ.
//!
//! ```text
//! cargo run --release -p pgas-genomics --example simulate_reads -- --genome-length 2000000 \
//!     --reads 1000000 --length 100 --errors 0.01 --seed 1 --out reads.fq
//! ```

use std::error::Error;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::{self, ExitCode};

use clap::Parser;
use pgas_genomics::output::{Draft, check_names};
use pgas_genomics::simulate::{Genome, ReadPlan, SimulatedReads};

/// Writes simulated reads as FASTQ; the same options give the same bytes.
#[derive(Parser)]
#[command(name = "simulate_reads")]
struct Options {
    /// Take the reads from this FASTA file, plain or gzip
    #[arg(long, value_name = "FILE", conflicts_with = "genome_length")]
    genome: Option<PathBuf>,
    /// Or from a random genome of N bases
    #[arg(long, value_name = "N", default_value_t = 2_000_000)]
    genome_length: usize,
    /// Write that genome as FASTA
    #[arg(long, value_name = "FILE")]
    genome_out: Option<PathBuf>,
    /// Number of reads
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    reads: u64,
    /// Bases of a read
    #[arg(long, value_name = "N", default_value_t = 100)]
    length: usize,
    /// Probability that a base is wrong
    #[arg(long, value_name = "RATE", default_value_t = 0.01)]
    errors: f64,
    /// Seed of the genome and of the reads
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Where to write, instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    let options: Options = match pgas_command_line::parse("simulate_reads") {
        Ok(options) => options,
        Err(code) => return code,
    };
    let Err(error) = run(&options) else {
        return ExitCode::SUCCESS;
    };
    let line = pgas_command_line::one_line(&error.to_string());
    // A failed write cannot be reported.
    writeln!(io::stderr(), "simulate_reads: {line}").ok();
    ExitCode::FAILURE
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let outputs = [options.genome_out.as_deref(), options.out.as_deref()];
    check_names(&outputs, options.genome.as_slice())?;
    // Create the output files first, so that a bad path is reported at once.
    let create = |path| Draft::create(path, u64::from(process::id()));
    let genome_out = outputs[0].map(create).transpose()?;
    let out = outputs[1].map(create).transpose()?;
    let genome = match &options.genome {
        Some(path) => Genome::read_fasta(path)?,
        None => {
            let n_bases = options.genome_length;
            let room = Vec::<u8>::new().try_reserve_exact(n_bases);
            room.map_err(|error| format!("--genome-length {n_bases}: {error}"))?;
            Genome::random(n_bases, options.seed)
        }
    };
    let plan = ReadPlan {
        n_reads: options.reads,
        length: options.length,
        error_rate: options.errors,
        seed: options.seed,
    };
    let reads = SimulatedReads::new(&genome, plan)?;
    if let Some(draft) = &genome_out {
        draft.write_whole(|out| genome.write_fasta(out))?;
    }
    match &out {
        Some(draft) => draft.write_whole(|out| reads.write_fastq(out))?,
        None => {
            let written = reads.write_fastq(BufWriter::new(io::stdout().lock()));
            written.map_err(|error| format!("standard output: {error}"))?;
        }
    }
    let mut drafts = [genome_out, out].into_iter().flatten();
    Ok(drafts.try_for_each(Draft::publish)?)
}
