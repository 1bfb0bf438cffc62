//! The launcher's side of a job over several hosts.

use std::error::Error;
use std::io;
use std::net::TcpListener;
use std::process::ExitCode;

use pgas_smp::launcher::{self, SignalWatch};

use super::door::Door;
use super::invitation::{Invitation, new_token};
use super::members;
use super::wanted::Wanted;
use super::watch::Watch;
use crate::watch::View;

/// Runs the job to its end.
pub(crate) fn run(wanted: &Wanted) -> Result<ExitCode, Box<dyn Error>> {
    let signals = SignalWatch::start()?;
    let tokens = [new_token()?, new_token()?];
    let view = match wanted.watch {
        Some(_) => View::new(),
        None => View::none(),
    };
    let door = Door::open(&wanted.bind, tokens[0], view.clone())?;
    let addresses = door.listeners.iter().map(TcpListener::local_addr);
    let invitation = Invitation {
        tokens,
        host: 0,
        addresses: addresses.collect::<io::Result<_>>()?,
        patience: wanted.patience,
        silence: wanted.silence,
    };
    let mut members = members::start(&wanted.hosts, &wanted.agent, &signals, &invitation)?;
    let forwarders = members::forward(&mut members, &view)?;
    let mut watch = Watch::new(wanted, &signals, (door, tokens[1]), members, view.clone());
    let code = watch.until_all_have_ended();
    view.hide(true);
    let code = code?;
    let finished = launcher::finish(forwarders, &signals, code != 0)?;
    watch.report();
    match finished {
        Ok(None) => Ok(ExitCode::from(code)),
        Ok(Some(signal)) => Ok(ExitCode::from(u8::try_from(128 + signal).unwrap_or(1))),
        Err(error) => Err(format!("cannot write the output of the ranks: {error}").into()),
    }
}
