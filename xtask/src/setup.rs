//! The requirements of the tests, in one place. `cargo xtask setup` installs missing ones and
//! nothing else.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::process::{self, Outcome};
use crate::toolchains;

/// Something that building or testing needs, and the Debian package that brings it.
struct Tool {
    what: &'static str,
    /// A shell command that succeeds if it is installed.
    probe: &'static str,
    package: &'static str,
    used_for: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool {
        what: "jellyfish",
        probe: "command -v jellyfish",
        package: "jellyfish",
        used_for: "the k-mer counts that kmer_count must equal",
    },
    Tool {
        what: "kmc",
        probe: "command -v kmc",
        package: "kmc",
        used_for: "the k-mer counter that kmer_count is timed against",
    },
    Tool {
        what: "mpirun.openmpi",
        probe: "command -v mpirun.openmpi",
        package: "openmpi-bin",
        used_for: "starting ranks as Open MPI does",
    },
    Tool {
        what: "mpiexec.hydra",
        probe: "command -v mpiexec.hydra",
        package: "mpich",
        used_for: "starting ranks as MPICH does",
    },
    Tool {
        what: "Open MPI's headers",
        probe: "echo '#include <mpi.h>' | mpicc.openmpi -x c -fsyntax-only -",
        package: "libopenmpi-dev",
        used_for: "building the MPI backend",
    },
    Tool {
        what: "MPICH's headers",
        probe: "echo '#include <mpi.h>' | mpicc.mpich -x c -fsyntax-only -",
        package: "libmpich-dev",
        used_for: "building the MPI backend a second time",
    },
    Tool {
        what: "libclang",
        probe: "ls /usr/lib/llvm-*/lib/libclang.so* || ls /usr/lib*/libclang.so* /usr/lib/*/libclang.so*",
        package: "libclang-dev",
        used_for: "reading MPI's headers for the MPI backend",
    },
    Tool {
        what: "libfabric's headers",
        probe: "echo '#include <rdma/fabric.h>' | cc -x c -fsyntax-only -",
        package: "libfabric-dev",
        used_for: "what the bindings to libfabric are compared with, and the library itself",
    },
    Tool {
        what: "PMIx's headers",
        probe: "ls /usr/lib/*/pmix2/include/pmix.h || echo '#include <pmix.h>' | cc -x c -fsyntax-only -",
        package: "libpmix-dev",
        used_for: "what the bindings to PMIx are compared with, and the library itself",
    },
    Tool {
        what: "valgrind",
        probe: "command -v valgrind",
        package: "valgrind",
        used_for: "the memory that the MPI backend uses",
    },
    Tool {
        what: "chromium",
        probe: "command -v chromium || command -v chromium-browser || command -v google-chrome",
        package: "chromium",
        used_for: "the time in which it shows the report of a thousand ranks",
    },
    Tool {
        what: "nsenter",
        probe: "command -v nsenter",
        package: "util-linux",
        used_for: "hosts of namespaces, to test network paths on one machine",
    },
    Tool {
        what: "ip",
        probe: "command -v ip",
        package: "iproute2",
        used_for: "the network that joins these hosts",
    },
    Tool {
        what: "qemu-riscv64",
        probe: "command -v qemu-riscv64",
        package: "qemu-user",
        used_for: "the RISC-V programs that the simulator must run as it does",
    },
    Tool {
        what: "riscv64-unknown-elf-objdump",
        probe: "command -v riscv64-unknown-elf-objdump",
        package: "binutils-riscv64-unknown-elf",
        used_for: "the disassembly that the simulator's must equal",
    },
    Tool {
        what: "riscv64-unknown-elf-gcc",
        probe: "command -v riscv64-unknown-elf-gcc",
        package: "gcc-riscv64-unknown-elf",
        used_for: "guests in C for the simulator",
    },
    Tool {
        what: "riscv64-linux-gnu-gcc",
        probe: "command -v riscv64-linux-gnu-gcc",
        package: "gcc-riscv64-linux-gnu",
        used_for: "linking programs of Linux that the simulator runs",
    },
    Tool {
        what: "the C library of 64-bit RISC-V",
        probe: "ls /usr/riscv64-linux-gnu/lib/libc.a",
        package: "libc6-dev-riscv64-cross",
        used_for: "what these programs are linked with",
    },
];

impl Tool {
    fn is_there(&self) -> bool {
        process::succeeds(&mut process::command("sh", ["-c", self.probe]))
    }
}

/// Installs missing requirements. Does nothing, and needs neither root nor a network, if none is
/// missing.
pub(crate) fn run() -> Result<Outcome> {
    let mut missing = Vec::new();
    for tool in TOOLS {
        let is_there = tool.is_there();
        let state = if is_there { "present" } else { "missing" };
        println!("{state}: {} ({})", tool.what, tool.used_for);
        missing.extend((!is_there).then_some(tool));
    }
    if !missing.is_empty() {
        install_packages(&missing)?;
    }
    toolchains::install();
    Ok(Outcome::Passed)
}

fn install_packages(missing: &[&Tool]) -> Result<()> {
    let packages: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
    let packages = packages.join(" ");
    if !is_on_path("apt-get") {
        bail!("no apt-get here: install these yourself, then run this again: {packages}");
    }
    let as_root = if is_root() {
        ""
    } else if is_on_path("sudo") {
        "sudo "
    } else {
        bail!("neither root nor sudo: have somebody run `apt-get install {packages}`");
    };
    for apt in [
        "update".to_owned(),
        format!("install --yes --no-install-recommends {packages}"),
    ] {
        let line = format!(
            "{as_root}env DEBIAN_FRONTEND=noninteractive apt-get --quiet -o DPkg::Lock::Timeout=300 {apt}"
        );
        process::run(&mut process::command("sh", ["-c", &line]))
            .with_context(|| format!("cannot install {packages}"))?;
    }
    for tool in missing {
        if !tool.is_there() {
            bail!(
                "package {} is installed, but {} cannot be found: `{}` fails",
                tool.package,
                tool.what,
                tool.probe
            );
        }
    }
    Ok(())
}

fn is_on_path(program: &str) -> bool {
    process::succeeds(Command::new("sh").args(["-c", "command -v \"$0\"", program]))
}

fn is_root() -> bool {
    process::output(Command::new("id").arg("-u")).is_some_and(|uid| uid.trim() == "0")
}

#[cfg(test)]
mod tests {
    use super::is_on_path;

    #[test]
    fn a_program_is_found_on_the_path_or_not() {
        assert!(is_on_path("sh"));
        assert!(!is_on_path("pgas-no-such-program"));
    }
}
