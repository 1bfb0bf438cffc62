//! Every operation of the network path beside the same loop written straight on MPI, and the direct
//! path beside the shared-memory backend: ratios of runs in turn.
//!
//! `cargo bench -p pgas-mpi` starts this program again under the launcher of its MPI library, with
//! two ranks: rank 0 measures, and rank 1 waits in a barrier, MPI's own or ours, since most windows
//! need their target inside of MPI. Both sides use windows of the same kind (`MPI_Win_create`), of
//! the same component and over the same kind of memory, and the same buffers. The loop on MPI also
//! runs beside itself, on two windows, which shows what is chance. Latency and flood bandwidth are
//! those of figure 6 and table 1 of the GASNet-EX paper (Bonachea, Hargrove: GASNet-EX, LCPC 2018).
#![expect(clippy::print_stdout, reason = "a bench reports")]

mod containers;
mod pairs;
mod pieces;
mod raw;
mod shared;

use std::process::{Command, ExitCode};

/// The argument by which the program measures; without it, it starts itself under the launcher.
const PAIRS: &str = "--pairs-of-ranks";
/// With it, atomics alone, executed at the target: the direct path is on, and the ranks are on two
/// hosts. MPICH can be told so (`MPIR_CVAR_ODD_EVEN_CLIQUES=1`), and `cargo xtask hosts` has real
/// ones for either library.
const AT_TARGET: &str = "--at-target";
/// The argument by which a rank measures the direct path alone.
const ALONE: &str = "--direct-path";

/// The argument by which a rank measures containers.
const CONTAINERS: &str = "--containers";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|argument| argument == wanted);
    if has(PAIRS) {
        pairs::measure();
        return ExitCode::SUCCESS;
    }
    if has(ALONE) {
        shared::measure_alone();
        return ExitCode::SUCCESS;
    }
    if has(CONTAINERS) {
        containers::measure();
        return ExitCode::SUCCESS;
    }
    let tcp: &[(&str, &str)] = &[
        ("OMPI_MCA_btl", "self,tcp"),
        ("OMPI_MCA_btl_tcp_if_include", "lo"),
        ("UCX_TLS", "tcp,self"),
        ("MPIR_CVAR_NOLOCAL", "1"),
    ];
    for (name, settings) in [("shared memory below MPI", &[][..]), ("TCP below MPI", tcp)] {
        println!("\n{}, {name}: raw MPI beside PGAS_DIRECT=0", library());
        let mut command = mpirun();
        command.arg(PAIRS).args(std::env::args().skip(1));
        command.env("OMPI_MCA_osc", "sm,pt2pt");
        command.envs(settings.iter().copied());
        let status = command.status().expect("the launcher is installed");
        assert!(status.success(), "the ranks failed: {status}");
    }
    shared::compare_with_smp();
    containers::compare_with_smp();
    ExitCode::SUCCESS
}

fn library() -> String {
    pgas_mpi::library().expect("the library says what it is")
}

/// This program under the launcher of its library, with two ranks.
fn mpirun() -> Command {
    let mut command = if library().starts_with("Open MPI") {
        let mut command = Command::new("mpirun.openmpi");
        command.args(["--allow-run-as-root", "--oversubscribe"]);
        command
    } else {
        Command::new("mpiexec.hydra")
    };
    command.args(["-n", "2"]);
    command.arg(std::env::current_exe().expect("this program"));
    command
}

/// Whether the bench only shows that it runs (`cargo bench -- --test`).
fn is_smoke_test() -> bool {
    std::env::args().any(|argument| argument == "--test")
}

/// Whether `name` contains one of the words that the bench was started with, if there are any.
fn is_wanted(name: &str) -> bool {
    let mut words = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .peekable();
    words.peek().is_none() || words.any(|word| name.contains(&word))
}

/// Prints the medians of times of `n_ops` operations, that of their ratios, and the ratio of the
/// shortest times, which a busy machine disturbs least.
fn report(name: &str, n_ops: usize, rounds: &[(f64, f64)]) {
    let median = |of: fn(&(f64, f64)) -> f64| median(rounds.iter().map(of));
    #[expect(clippy::cast_precision_loss, reason = "a count of operations")]
    let per_op = 1e9 / n_ops as f64;
    let (floor, ours) = (median(|r| r.0) * per_op, median(|r| r.1) * per_op);
    let ratio = median(|r| r.1 / r.0);
    let shortest = |of: fn(&(f64, f64)) -> f64| rounds.iter().map(of).fold(f64::INFINITY, f64::min);
    let best = shortest(|r| r.1) / shortest(|r| r.0);
    println!(
        "paired {name}: floor {floor:.0} ns, pgas {ours:.0} ns, ratio {ratio:.3}, of the shortest {best:.3}"
    );
}

fn median(of: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = of.collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
