//! Finds the MPI library, and compiles the few constants that are macros in C.

fn main() {
    println!("cargo:rerun-if-changed=src/sys/shim.c");
    println!("cargo:rerun-if-env-changed=MPICC");
    println!("cargo:rerun-if-env-changed=MPI_PKG_CONFIG");
    // The documentation names MPI's types and links nothing.
    #[expect(
        clippy::disallowed_methods,
        reason = "cargo tells a build script its cfgs by the environment"
    )]
    let is_for_documentation = std::env::var_os("CARGO_CFG_PGAS_DOCS").is_some();
    if is_for_documentation {
        return;
    }
    let library = match build_probe_mpi::probe() {
        Ok(library) => library,
        Err(reasons) => {
            for reason in &reasons {
                println!("cargo::warning={reason}");
            }
            println!(
                "cargo::error=no MPI library was found; on Debian and Ubuntu `apt-get install libopenmpi-dev libclang-dev` or \
                 `apt-get install libmpich-dev libclang-dev` installs one, elsewhere set MPICC to its compiler wrapper"
            );
            return;
        }
    };
    let mut shim = cc::Build::new();
    shim.file("src/sys/shim.c").warnings(true);
    match library.mpicc {
        Some(mpicc) => {
            shim.compiler(mpicc);
        }
        None => {
            shim.includes(&library.include_paths);
        }
    }
    shim.compile("pgas_mpi_shim");
}
