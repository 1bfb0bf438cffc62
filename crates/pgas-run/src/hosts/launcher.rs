//! The launcher's side of a job over several hosts.

use std::env;
use std::error::Error;
use std::mem;
use std::process::ExitCode;

use pgas_network::addresses;
use pgas_smp::launcher::{self, SignalWatch};

use super::door::Door;
use super::invitation::Invitation;
use super::members;
use super::wanted::Wanted;
use super::watch::Watch;
use crate::watch::View;

/// Runs the job to its end.
pub(crate) fn run(wanted: &Wanted) -> Result<ExitCode, Box<dyn Error>> {
    let folder = env::current_dir()
        .map_err(|error| format!("cannot tell the working directory of the ranks: {error}"))?;
    let signals = SignalWatch::start()?;
    let view = match wanted.watch {
        Some(_) => View::new(),
        None => View::none(),
    };
    let door = Door::open(&wanted.bind, wanted.hosts.len(), view.clone())?;
    let network = addresses::network();
    let places = (0..).zip(door.places()?);
    let invitations = places.map(|(host, places)| Invitation {
        host,
        network,
        places,
        patience: wanted.patience,
        silence: wanted.silence,
    });
    let invitations: Vec<_> = invitations.collect();
    let mut members = members::start(&wanted.hosts, &invitations, &wanted.agent, &signals)?;
    let forwarders = members::forward(&mut members, &view)?;
    let mut watch = Watch::new(
        (wanted, folder),
        &signals,
        door,
        (members, forwarders),
        view.clone(),
    );
    let code = watch.until_all_have_ended();
    view.hide(true);
    let code = code?;
    let finished = launcher::finish(mem::take(&mut watch.forwarders), &signals, code != 0)?;
    watch.report();
    match finished {
        Ok(None) => Ok(ExitCode::from(code)),
        Ok(Some(signal)) => Ok(ExitCode::from(u8::try_from(128 + signal).unwrap_or(1))),
        Err(error) => Err(format!("cannot write the output of the ranks: {error}").into()),
    }
}
