//! Guests in C: the runtime in `guest/`, built by the cross compiler, on several numbers of nodes and under both profiles.

use std::path::Path;
use std::process::Command;
use std::sync::mpsc;

use pgas_riscv_sim::isa::Profile;
use pgas_riscv_sim::timed::config::TimedConfig;
use pgas_riscv_sim::timed::simulation::Simulation;
use pgas_riscv_sim::{Image, Machine, MachineConfig, Outcome};

fn build(source: &str, profile: Profile, folder: &Path) -> Image {
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
