//! One operation of a container, many times on every node, in the simulator's region of interest:
//! the guest of `rae containers`, which counts what happens there. `cargo xtask sim --containers`
//! builds it and runs that.
//!
//! ```text
//! containers OPERATION ATOMICS SIZE N [spin]
//! ```
//!
//! | argument | is |
//! |---|---|
//! | `OPERATION` | `insert`, `find`, `fetch_add`, `push`, `pop`, `bloom`, `histogram` or `sort` |
//! | `ATOMICS` | `hardware`, `software` or `messages`, as in `pgas_sim::Atomics` |
//! | `SIZE` | the elements a node has room for; those that are there before |
//! | `N` | the operations of a node, `SIZE` at most |
//! | `spin` | a node that waits looks again and again, and the result is not checked |
//!
//! With `spin` the whole machine counts what the operations cost.

#[cfg(all(target_arch = "riscv64", target_os = "linux"))]
mod operations;

#[cfg(all(target_arch = "riscv64", target_os = "linux"))]
fn main() -> std::process::ExitCode {
    use pgas_core::Config;
    use pgas_sim::Options;

    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [operation, atomics, size, n, rest @ ..] = arguments.as_slice() else {
        panic!("OPERATION ATOMICS SIZE N [spin], and not {arguments:?}");
    };
    let atomics = atomics.parse().expect("a way to do atomics");
    let spins = match rest {
        [] => false,
        ["spin"] => true,
        _ => panic!("only `spin` stands behind the numbers, and not {rest:?}"),
    };
    let number = |text: &str| -> usize { text.parse().expect("a number of elements") };
    let load = operations::Load {
        size: number(size),
        n: number(n),
        is_checked: !spins,
    };
    let options = Options { atomics, spins };
    let world = pgas_sim::init_with(&Config::default(), options).expect("a segment");
    pgas_am::attach(&world).expect("nothing has failed yet");
    operations::run(&world, operation, &load).expect("the operations succeed");
    std::process::ExitCode::SUCCESS
}

#[cfg(not(all(target_arch = "riscv64", target_os = "linux")))]
fn main() {}
