//! Environments of various launchers, and the result for each.

use super::{LaunchError, LaunchErrorKind, Launcher, Place};

fn detect(variables: &[(&str, &str)]) -> Result<Launcher, LaunchError> {
    Launcher::detect(&|name| {
        variables
            .iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| (*value).to_owned())
    })
}

fn place(rank: u32, n_ranks: u32, n_local_ranks: Option<u32>) -> Place {
    Place {
        rank,
        n_ranks,
        n_local_ranks,
    }
}

/// As `env` shows it under Open MPI 4.1.4.
const OPEN_MPI: &[(&str, &str)] = &[
    ("OMPI_COMM_WORLD_RANK", "1"),
    ("OMPI_COMM_WORLD_SIZE", "4"),
    ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
    ("OMPI_MCA_ess_base_jobid", "1970339841"),
    (
        "OMPI_MCA_orte_precondition_transports",
        "73b8c21caeeff2cc-1f24fba6b843d2c0",
    ),
    ("PMIX_NAMESPACE", "1970339841"),
    ("PMIX_RANK", "1"),
];

/// As `env` shows it under `srun` 22.05.
const SLURM: &[(&str, &str)] = &[
    ("SLURM_JOB_ID", "17"),
    ("SLURM_STEP_ID", "0"),
    ("SLURM_PROCID", "1"),
    ("SLURM_NTASKS", "8"),
    ("SLURM_STEP_NUM_TASKS", "2"),
    ("SLURM_NODEID", "0"),
    ("SLURM_STEP_TASKS_PER_NODE", "2"),
    ("SLURM_SRUN_COMM_HOST", "127.0.0.1"),
    ("SLURM_SRUN_COMM_PORT", "37777"),
];

/// As `env` shows it under MPICH 4.0.2.
const HYDRA: &[(&str, &str)] = &[
    ("PMI_FD", "6"),
    ("PMI_RANK", "0"),
    ("PMI_SIZE", "2"),
    ("MPI_LOCALNRANKS", "2"),
    ("MPI_LOCALRANKID", "0"),
];

#[test]
fn an_empty_environment_is_a_single_rank() {
    assert_eq!(detect(&[]), Ok(Launcher::Single));
}

#[test]
fn variables_set_to_nothing_count_as_not_set() {
    assert_eq!(
        detect(&[("PGAS_RANK", ""), ("PGAS_RANKS", "")]),
        Ok(Launcher::Single)
    );
}

#[test]
fn the_own_launcher_comes_first() {
    let mut variables = vec![
        ("PGAS_RANK", "3"),
        ("PGAS_RANKS", "4"),
        ("PGAS_JOB_FD", "5"),
        ("PGAS_JOB_ID", "pgas-run 77"),
    ];
    variables.extend(HYDRA.iter().chain(OPEN_MPI).chain(SLURM));
    let expected = Launcher::Own {
        rank: 3,
        n_ranks: 4,
        job_fd: 5,
        job_id: "pgas-run 77".to_owned(),
    };
    assert_eq!(detect(&variables), Ok(expected));
}

#[test]
fn mpiexec_inside_an_allocation_is_hydra() {
    let variables: Vec<_> = HYDRA.iter().chain(SLURM).copied().collect();
    let expected = Launcher::Pmi {
        place: place(0, 2, Some(2)),
        pmi_fd: 6,
    };
    assert_eq!(detect(&variables), Ok(expected));
}

#[test]
fn srun_with_pmi2_takes_the_local_ranks_from_slurm() {
    let variables: Vec<_> = HYDRA[..3].iter().chain(SLURM).copied().collect();
    let expected = Launcher::Pmi {
        place: place(0, 2, Some(2)),
        pmi_fd: 6,
    };
    assert_eq!(detect(&variables), Ok(expected));
}

#[test]
fn open_mpi_is_told_by_its_world() {
    let expected = Launcher::OpenMpi {
        place: place(1, 4, Some(4)),
        job_key: "openmpi 1970339841 73b8c21caeeff2cc-1f24fba6b843d2c0".to_owned(),
    };
    assert_eq!(detect(OPEN_MPI), Ok(expected));
}

#[test]
fn a_job_on_several_hosts_is_recognised() {
    let mut variables = OPEN_MPI.to_vec();
    variables[2].1 = "2";
    let Ok(Launcher::OpenMpi { place, .. }) = detect(&variables) else {
        panic!("not Open MPI")
    };
    assert!(place.spans_hosts());
}

#[test]
fn srun_counts_the_tasks_of_the_step_and_not_of_the_job() {
    let expected = Launcher::Slurm {
        place: place(1, 2, Some(2)),
        job_key: "slurm 17.0 127.0.0.1:37777".to_owned(),
    };
    assert_eq!(detect(SLURM), Ok(expected));
}

#[test]
fn the_tasks_of_a_node_come_from_the_compressed_list() {
    for (list, node, expected) in [
        ("2(x3),1", "0", Some(2)),
        ("2(x3),1", "3", Some(1)),
        ("4,5", "1", Some(5)),
        ("4", "9", None),
    ] {
        let mut variables = SLURM.to_vec();
        variables[5].1 = node;
        variables[6].1 = list;
        let Ok(Launcher::Slurm { place, .. }) = detect(&variables) else {
            panic!("not Slurm")
        };
        assert_eq!(place.n_local_ranks, expected, "{list} node {node}");
    }
    let mut variables = SLURM.to_vec();
    variables[6].1 = "2(x";
    let error = detect(&variables).expect_err("the list is cut short");
    let LaunchErrorKind::Malformed { variable, .. } = error.kind() else {
        panic!("{error}")
    };
    assert_eq!(*variable, "SLURM_STEP_TASKS_PER_NODE");
}

#[test]
fn a_batch_script_is_not_rank_zero_of_its_allocation() {
    let script = [
        ("SLURM_JOB_ID", "2"),
        ("SLURM_PROCID", "0"),
        ("SLURM_NTASKS", "4"),
    ];
    assert_eq!(detect(&script), Ok(Launcher::Single));
    let interactive = [
        ("SLURM_JOB_ID", "2"),
        ("SLURM_STEP_ID", "4294967290"),
        ("SLURM_PROCID", "0"),
        ("SLURM_STEP_NUM_TASKS", "1"),
    ];
    assert_eq!(detect(&interactive), Ok(Launcher::Single));
}

#[test]
fn a_number_of_ranks_alone_asks_for_a_self_launch() {
    assert_eq!(
        detect(&[("PGAS_RANKS", "7")]),
        Ok(Launcher::SelfLaunch { n_ranks: 7 })
    );
    assert_eq!(detect(&[("PGAS_RANKS", "1")]), Ok(Launcher::Single));
}

#[test]
fn a_launcher_that_started_one_process_yields_to_the_wanted_number_of_ranks() {
    let mut variables = SLURM.to_vec();
    variables[2].1 = "0";
    variables[4].1 = "1";
    variables.push(("PGAS_RANKS", "3"));
    assert_eq!(detect(&variables), Ok(Launcher::SelfLaunch { n_ranks: 3 }));
    variables[4].1 = "2";
    assert!(matches!(detect(&variables), Ok(Launcher::Slurm { .. })));
}

#[test]
fn a_value_that_cannot_be_right_is_named_with_its_variable() {
    for (variables, message) in [
        (
            &[("PGAS_RANKS", "0")][..],
            r#"PGAS_RANKS="0" is not a number of ranks between 1 and 16777216"#,
        ),
        (
            &[("PGAS_RANKS", "four")],
            r#"PGAS_RANKS="four" is not a number of ranks between 1 and 16777216"#,
        ),
        (
            &[("PGAS_RANK", "-1")],
            r#"PGAS_RANK="-1" is not a number from 0 on"#,
        ),
        (
            &[("PGAS_RANK", "0")],
            "PGAS_RANK is set but PGAS_RANKS is not",
        ),
        (
            &[("PGAS_RANK", "0"), ("PGAS_RANKS", "1")],
            "PGAS_RANK is set but PGAS_JOB_FD is not",
        ),
        (
            &[("PGAS_RANK", "4"), ("PGAS_RANKS", "4")],
            "PGAS_RANK=4 is not a rank of a job of 4",
        ),
        (
            &[("PMI_FD", "-6"), ("PMI_RANK", "0")],
            r#"PMI_FD="-6" is not the number of a file descriptor"#,
        ),
        (&[("PMI_FD", "6")], "PMI_FD is set but PMI_RANK is not"),
        (
            &[("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "2")],
            "OMPI_COMM_WORLD_RANK is set but PMIX_NAMESPACE is not",
        ),
    ] {
        let error = detect(variables).expect_err("the environment makes no sense");
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn a_launcher_that_speaks_pmix_alone_is_not_taken_for_none() {
    let pmix = [("PMIX_RANK", "1"), ("PMIX_NAMESPACE", "prte-7@1")];
    assert_eq!(detect(&pmix), Ok(Launcher::Pmix));
    let alone = [&pmix[..], &[("PGAS_RANKS", "1")]].concat();
    assert_eq!(detect(&alone), Ok(Launcher::Single));
    let several = [&pmix[..], &[("PGAS_RANKS", "3")]].concat();
    assert_eq!(detect(&several), Ok(Launcher::SelfLaunch { n_ranks: 3 }));
    let with_slurm = [&pmix[..], SLURM].concat();
    assert!(matches!(detect(&with_slurm), Ok(Launcher::Slurm { .. })));
}
