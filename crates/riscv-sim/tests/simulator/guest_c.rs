//! Guests in C: the runtime in `guest/`, built by the cross compiler, on several numbers of nodes
//! and under both profiles.

use std::path::Path;
use std::process::Command;
use std::sync::mpsc;

use pgas_riscv_sim::isa::Profile;
use pgas_riscv_sim::timed::config::TimedConfig;
use pgas_riscv_sim::timed::simulation::Simulation;
use pgas_riscv_sim::{Image, Machine, MachineConfig, Outcome};

fn build(source: &str, profile: Profile, folder: &Path) -> Image {
    build_with(source, profile, folder, &[])
}

fn build_with(source: &str, profile: Profile, folder: &Path, options: &[String]) -> Image {
    let guests = Path::new(env!("CARGO_MANIFEST_DIR")).join("guest");
    let output = folder.join("guest.elf");
    let define = match profile {
        Profile::Rae2020 => "-DRAE2020",
        Profile::Xbgas2 => "-DXBGAS2",
    };
    let result = Command::new("riscv64-unknown-elf-gcc")
        .current_dir(&guests)
        .args([
            "-O2",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-march=rv64imafdc",
            "-mabi=lp64d",
        ])
        .args([
            "-mcmodel=medany",
            "-ffreestanding",
            "-nostdlib",
            "-Wl,--no-warn-rwx-segments",
        ])
        .args([
            define, "-I.", "-T", "link.ld", "crt0.S", "xbrt.c", source, "-o",
        ])
        .arg(&output)
        .args(options)
        .output()
        .expect("the compiler is there: `cargo xtask setup` installs gcc-riscv64-unknown-elf");
    assert!(
        result.status.success(),
        "{}",
        String::from_utf8_lossy(&result.stderr)
    );
    Image::from_elf(&std::fs::read(&output).unwrap()).unwrap()
}

#[test]
fn the_runtime_works_on_any_number_of_nodes_in_both_profiles() {
    let folder = tempfile::tempdir().unwrap();
    for profile in [Profile::Rae2020, Profile::Xbgas2] {
        let image = build("examples/collectives.c", profile, folder.path());
        for n_nodes in [1, 2, 6, 7, 32] {
            let config = MachineConfig {
                n_nodes,
                ram_bytes: 16 << 20,
                profile,
                ..MachineConfig::default()
            };
            let mut machine = Machine::new(&config, &image).unwrap();
            let (sender, receiver) = mpsc::channel();
            machine.set_console(Box::new(move |node, bytes| {
                sender.send((node, bytes.to_vec())).unwrap();
            }));
            let outcome = machine.run(50_000_000).unwrap();
            assert_eq!(outcome, Outcome::Success, "{n_nodes} nodes, {profile:?}");
            drop(machine);
            let written: Vec<_> = receiver.into_iter().collect();
            let expected = format!("{n_nodes} nodes, all well, abcdef, !%\n");
            assert_eq!(written, [(0, expected.into_bytes())]);
        }
        // With a clock, and with further cores, which only wait.
        let config = MachineConfig {
            n_nodes: 6,
            cores_per_node: 2,
            ram_bytes: 16 << 20,
            profile,
            ..MachineConfig::default()
        };
        let machine = Machine::new(&config, &image).unwrap();
        let mut timed = Simulation::new(machine, &TimedConfig::default()).unwrap();
        assert_eq!(timed.run(50_000_000).unwrap(), Outcome::Success);
    }
}

/// Every node puts words to its neighbour and enters the barrier; behind it they are there. The
/// words lie so far apart that the neighbour's memory is slower with them than with the barrier's
/// own.
const PUTS: &str = r#"
#include "xbrt.h"
#define STRIDE (1 << 15)
int main(void)
{
    long me = xbrt_my_pe(), n = xbrt_num_pes();
    volatile long *words = xbrt_malloc(12 * STRIDE * sizeof *words);
    for (long round = 1; round <= 4; round++) {
        for (long k = 0; k < 12; k++)
            xb_store_u64((me + 1) % n, &words[k * STRIDE], round);
        xbrt_barrier();
        for (long k = 11; k >= 0; k--)
            if (words[k * STRIDE] != round)
                exit(100 + k);
        xbrt_barrier();
    }
    return 0;
}
"#;

#[test]
fn what_is_put_before_a_barrier_is_there_behind_it_however_much_is_under_way() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("puts.c");
    std::fs::write(&source, PUTS).unwrap();
    let image = build(source.to_str().unwrap(), Profile::Rae2020, folder.path());
    for n_nodes in [2, 6, 16] {
        let config = MachineConfig {
            n_nodes,
            ram_bytes: 16 << 20,
            ..MachineConfig::default()
        };
        let mut timed = TimedConfig::default();
        timed.core.outstanding_remote = 16;
        let machine = Machine::new(&config, &image).unwrap();
        let mut simulation = Simulation::new(machine, &timed).unwrap();
        let outcome = simulation.run(50_000_000).unwrap();
        assert_eq!(outcome, Outcome::Success, "{n_nodes} nodes");
    }
}

#[test]
fn programs_with_data_of_any_size_link() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("data.c");
    let text = "#include \"xbrt.h\"\nvolatile char data[SIZE] = {1};\n\
        int main(void) { data[0]++; return malloc(10) == NULL; }\n";
    std::fs::write(&source, text).unwrap();
    // Around the size at which the heap's start was just in reach of a global pointer, and then no
    // more.
    for n_bytes in [8, 1448, 1464, 1480, 1496, 4088] {
        let size = [format!("-DSIZE={n_bytes}")];
        let source = source.to_str().unwrap();
        build_with(source, Profile::Rae2020, folder.path(), &size);
    }
}
