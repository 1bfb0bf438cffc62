//! `rae run --timed`.

use std::fs::File;
use std::io::{BufWriter, IsTerminal as _, Write as _};
use std::time::Instant;

use pgas_riscv_sim::timed::config::TimedConfig;
use pgas_riscv_sim::timed::simulation::Simulation;
use pgas_riscv_sim::timed::trace::Trace;
use pgas_riscv_sim::{Error, Machine, Outcome};

use super::run::{Interrupted, PROGRESS, debugged, located, progress, write_stats};
use super::{Run, Trouble, read_text};

/// Spans of a trace at most: about what Perfetto still shows with ease.
const SPANS: usize = 2_000_000;

/// Runs the guests of `machine` with cycles counted; gives how that ended, after statistics and
/// trace have been written.
pub(super) fn run(
    machine: Machine,
    arguments: &Run,
    interrupted: &Interrupted,
) -> Result<(Result<Option<Outcome>, Trouble>, Machine), Trouble> {
    let config = match &arguments.config {
        None => TimedConfig::default(),
        Some(path) => {
            let name = path.display();
            let text = read_text(path).map_err(|why| format!("--config {name}: {why}"))?;
            TimedConfig::from_toml(&text).map_err(|why| format!("{name}: {why}"))?
        }
    };
    let mut simulation = Simulation::new(machine, &config)?;
    if arguments.trace.is_some() {
        simulation.set_trace(Trace::new(SPANS));
    }
    let outcome = match debugged(&mut simulation, arguments, interrupted)? {
        true => to_the_end(&mut simulation, arguments, interrupted),
        false => Ok(None),
    };
    write_stats(arguments, &simulation.stats())?;
    if let (Some(path), Some(trace)) = (&arguments.trace, simulation.trace()) {
        let named = |why: std::io::Error| format!("{}: {why}", path.display());
        let mut file = BufWriter::new(File::create(path).map_err(named)?);
        trace.write_json(&mut file).map_err(named)?;
        file.flush().map_err(named)?;
    }
    Ok((outcome, simulation.into_machine()))
}

fn to_the_end(
    simulation: &mut Simulation,
    arguments: &Run,
    interrupted: &Interrupted,
) -> Result<Option<Outcome>, Trouble> {
    let limit = arguments.max_instructions.unwrap_or(u64::MAX);
    let start = Instant::now();
    let mut said = start;
    let step = simulation.stretch();
    let shows_progress = !arguments.quiet && std::io::stderr().is_terminal();
    loop {
        match simulation.run_for(step) {
            Ok(None) if interrupted.is_asked() => return Ok(None),
            Ok(None) => {}
            Ok(Some(outcome)) => return Ok(Some(outcome)),
            Err(why) => return Err(located(why, simulation.machine())),
        }
        if simulation.machine().n_steps() >= limit {
            return Err(located(Error::NoEnd(limit), simulation.machine()));
        }
        if shows_progress && said.elapsed() >= PROGRESS {
            said = Instant::now();
            progress(simulation.machine(), start.elapsed());
        }
    }
}
