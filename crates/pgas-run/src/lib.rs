//! The programs `pgas-run` and `pgas-top`.
#![doc = include_str!("../README.md")]

#[cfg(all(target_os = "linux", not(pgas_portable)))]
mod arguments;
#[cfg(all(target_os = "linux", not(pgas_portable)))]
mod code;
#[cfg(all(target_os = "linux", not(pgas_portable)))]
mod hosts;
#[cfg_attr(any(pgas_portable, not(target_os = "linux")), path = "elsewhere.rs")]
mod linux;
#[cfg(all(target_os = "linux", not(pgas_portable)))]
mod top;
#[cfg(all(target_os = "linux", not(pgas_portable)))]
mod watch;

use std::process::ExitCode;

/// Runs `pgas-run` with the arguments of this process.
#[must_use]
pub fn run() -> ExitCode {
    linux::main()
}

/// Runs `pgas-top` with the arguments of this process.
#[must_use]
pub fn top() -> ExitCode {
    #[cfg(all(target_os = "linux", not(pgas_portable)))]
    return top::main();
    #[cfg(any(pgas_portable, not(target_os = "linux")))]
    linux::main()
}

#[cfg(all(test, target_os = "linux", not(pgas_portable)))]
mod tests {
    #[test]
    fn the_readme_names_every_option() {
        const README: &str = include_str!("../README.md");
        for command in [crate::linux::command(), crate::top::command()] {
            let shown = command.get_arguments().filter(|it| !it.is_hide_set());
            for name in shown.filter_map(clap::Arg::get_long) {
                assert!(README.contains(&format!("--{name}")), "--{name}");
            }
        }
    }
}
