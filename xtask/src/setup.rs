//! What the tests need from the machine, in one place. `cargo xtask setup` installs what is missing and nothing else.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::process::{self, Outcome};

/// A program that tests run, and the Debian package that brings it.
struct Tool {
    program: &'static str,
    package: &'static str,
    used_for: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool {
        program: "jellyfish",
        package: "jellyfish",
        used_for: "the k-mer counts that kmer_count must equal",
    },
    Tool {
        program: "kmc",
        package: "kmc",
        used_for: "the k-mer counter that kmer_count is timed against",
    },
    Tool {
        program: "mpirun.openmpi",
        package: "openmpi-bin",
        used_for: "starting ranks as Open MPI does",
    },
    Tool {
        program: "mpiexec.hydra",
        package: "mpich",
        used_for: "starting ranks as MPICH does",
    },
];

/// The release of cargo-deny that is installed when none is there.
const CARGO_DENY: &str = "0.20.2";

/// Installs what is missing. Does nothing, and needs neither root nor a network, if nothing is.
pub(crate) fn run() -> Result<Outcome> {
    let missing: Vec<&Tool> = TOOLS
        .iter()
        .filter(|tool| !is_on_path(tool.program))
        .collect();
    for tool in TOOLS {
        let state = if is_on_path(tool.program) {
            "present"
        } else {
            "missing"
        };
        println!("{state}: {} ({})", tool.program, tool.used_for);
    }
    if !missing.is_empty() {
        install_packages(&missing)?;
    }
    install_cargo_deny()?;
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
        let line = format!("{as_root}env DEBIAN_FRONTEND=noninteractive apt-get --quiet {apt}");
        process::run(&mut process::command("sh", ["-c", &line]))
            .with_context(|| format!("cannot install {packages}"))?;
    }
    for tool in missing {
        if !is_on_path(tool.program) {
            bail!(
                "package {} is installed, but there is no `{}`",
                tool.package,
                tool.program
            );
        }
    }
    Ok(())
}

fn install_cargo_deny() -> Result<()> {
    if let Some(version) = process::output(&mut process::command("cargo", ["deny", "--version"])) {
        println!("present: {} (licences and sources)", version.trim());
        return Ok(());
    }
    println!("missing: cargo-deny (licences and sources); building it takes some minutes");
    process::cargo(["install", "--locked", "cargo-deny", "--version", CARGO_DENY])?;
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
