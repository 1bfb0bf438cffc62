//! One case of the conformance suite on this node, by its name, or the list of all with their least
//! numbers of ranks: `cargo xtask sim --suite -n 4` runs them. Behind the name may stand how
//! atomics are done, as in `pgas_sim::Atomics`.

#[cfg(all(target_arch = "riscv64", target_os = "linux"))]
#[expect(clippy::print_stdout, reason = "the list is its output")]
fn main() -> std::process::ExitCode {
    use pgas_conformance::{SUITE, case_named};
    use pgas_core::Config;

    let name = std::env::args().nth(1).expect("the name of a case");
    if name == "--list" {
        for case in SUITE {
            println!("{} {}", case.name, case.min_ranks);
        }
        return std::process::ExitCode::SUCCESS;
    }
    let case = case_named(&name).expect("a case of the suite");
    let atomics = std::env::args().nth(2);
    let atomics = atomics.map(|name| name.parse().expect("a way to do atomics"));
    let options = pgas_sim::Options {
        atomics: atomics.unwrap_or_default(),
        ..pgas_sim::Options::default()
    };
    let config = case.config(Config::default());
    let world = pgas_sim::init_with(&config, options).expect("a segment");
    (case.run)(&world).expect("the case's operations succeed");
    std::process::ExitCode::SUCCESS
}

#[cfg(not(all(target_arch = "riscv64", target_os = "linux")))]
fn main() {}
