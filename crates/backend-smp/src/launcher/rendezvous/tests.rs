//! Ranks as threads that meet, and visitors that should not be let in.

use super::{ANOTHER_JOB, HEADER_BYTES, MeetError, Meeting, Seat, meet};
use pgas_core::config::launch::Launcher;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(50);

fn srun(rank: u32, n_ranks: u32, job: &str) -> Launcher {
    let variables = [
        ("SLURM_JOB_ID", "1".to_owned()),
        ("SLURM_STEP_ID", "0".to_owned()),
        ("SLURM_PROCID", rank.to_string()),
        ("SLURM_STEP_NUM_TASKS", n_ranks.to_string()),
        ("SLURM_SRUN_COMM_HOST", job.to_owned()),
    ];
    let lookup = |name: &str| Some(variables.iter().find(|(key, _)| *key == name)?.1.clone());
    Launcher::detect(&lookup).unwrap()
}

fn place(rank: u32, n_ranks: u32) -> Seat {
    Seat { rank, n_ranks }
}

/// A name that no other test, and no test of another process, uses.
fn new_job() -> String {
    static N_JOBS: AtomicU32 = AtomicU32::new(0);
    format!(
        "test {} {}",
        std::process::id(),
        N_JOBS.fetch_add(1, Ordering::Relaxed)
    )
}

fn memory(n_ranks: u32) -> Result<File, MeetError> {
    let memory = rustix::fs::memfd_create("job", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&memory, n_ranks.into()).unwrap();
    Ok(File::from(memory))
}

fn inode(fd: impl AsFd) -> (u64, u64) {
    let stat = rustix::fs::fstat(fd).unwrap();
    (stat.st_dev, stat.st_ino)
}

#[test]
fn all_ranks_get_the_memory_that_rank_zero_created() {
    for n_ranks in [1, 2, 7, 64] {
        let job = new_job();
        let inodes: Vec<_> = thread::scope(|scope| {
            let ranks: Vec<_> = (0..n_ranks)
                .rev()
                .map(|rank| {
                    let launcher = srun(rank, n_ranks, &job);
                    scope.spawn(move || {
                        let create = |n| {
                            assert_eq!((rank, n), (0, n_ranks), "only rank 0 creates");
                            memory(n)
                        };
                        inode(meet(&launcher, PATIENCE, create).unwrap())
                    })
                })
                .collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        assert!(
            inodes.windows(2).all(|pair| pair[0] == pair[1]),
            "{inodes:?}"
        );
    }
}

#[test]
fn a_rank_that_waits_in_vain_says_for_whom() {
    let job = new_job();
    let error = meet(&srun(1, 2, &job), SHORT, memory).unwrap_err();
    let expected = "rank 1 waited 0 s for rank 0 on this host";
    assert!(error.to_string().starts_with(expected), "{error}");
    let error = meet(&srun(0, 12, &job), SHORT, memory).unwrap_err();
    let expected =
        "rank 0 waited 0 s on this host for rank 1, 2, 3, 4, 5, 6, 7, 8, and 3 more of 12;";
    assert!(error.to_string().starts_with(expected), "{error}");
}

#[test]
fn a_job_on_several_hosts_is_refused_at_once() {
    let lookup = |name: &str| {
        let value = match name {
            "OMPI_COMM_WORLD_RANK" => "1",
            "OMPI_COMM_WORLD_SIZE" => "4",
            "OMPI_COMM_WORLD_LOCAL_SIZE" => "2",
            "PMIX_NAMESPACE" => "7",
            _ => return None,
        };
        Some(value.to_owned())
    };
    let launcher = Launcher::detect(&lookup).unwrap();
    let started = Instant::now();
    let error = meet(&launcher, PATIENCE, memory).unwrap_err();
    assert!(started.elapsed() < PATIENCE / 2);
    let expected = "the job has 4 ranks, of which 2 are on this host; \
                    ranks on several hosts need another backend than shared memory";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_job_of_our_own_needs_no_meeting() {
    let error = meet(&Launcher::Single, PATIENCE, memory).unwrap_err();
    assert!(matches!(error, MeetError::NotForeign));
}

#[test]
fn an_error_of_the_creator_is_passed_on() {
    #[derive(Debug)]
    enum Error {
        Creator,
        Meet,
    }
    impl From<MeetError> for Error {
        fn from(_: MeetError) -> Self {
            Self::Meet
        }
    }
    let job = new_job();
    let result = meet::<File, _>(&srun(0, 2, &job), PATIENCE, |_| Err(Error::Creator));
    assert!(matches!(result, Err(Error::Creator)));
    let result = meet::<File, _>(&srun(1, 2, &job), SHORT, |_| Err(Error::Creator));
    assert!(matches!(result, Err(Error::Meet)));
}

/// Rank 0 of a job of 3 in a thread, with something else happening meanwhile.
fn with_rank_zero(job: &str, meanwhile: impl FnOnce(&Meeting)) {
    let rank_one = Meeting::new(place(1, 3), job.to_owned(), PATIENCE).unwrap();
    let rank_two = Meeting::new(place(2, 3), job.to_owned(), PATIENCE).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let rank_zero = Meeting::new(place(0, 3), job.to_owned(), PATIENCE).unwrap();
            rank_zero.host(memory(3).unwrap().as_fd()).unwrap();
        });
        let joined = rank_one.join().unwrap();
        meanwhile(&rank_two);
        assert_eq!(inode(joined), inode(rank_two.join().unwrap()));
    });
}

#[test]
fn a_second_process_with_the_same_rank_is_refused() {
    let job = new_job();
    with_rank_zero(&job, |_| {
        let again = Meeting::new(place(1, 3), job.clone(), PATIENCE).unwrap();
        let error = again.join().unwrap_err();
        let expected = "rank 0 refused rank 1: another process has already come as this rank";
        assert_eq!(error.to_string(), expected);
    });
}

#[test]
fn a_process_of_another_job_is_refused() {
    let job = new_job();
    with_rank_zero(&job, |_| {
        let bigger = Meeting::new(place(2, 4), job.clone(), PATIENCE).unwrap();
        let error = bigger.join().unwrap_err();
        let expected =
            "rank 0 refused rank 2: it belongs to another job, or counts its ranks differently";
        assert_eq!(error.to_string(), expected);
    });
}

#[test]
fn visitors_that_break_off_or_talk_nonsense_do_no_harm() {
    let job = new_job();
    with_rank_zero(&job, |rank_two| {
        drop(UnixStream::connect_addr(&rank_two.address).unwrap());
        let mut nonsense = UnixStream::connect_addr(&rank_two.address).unwrap();
        nonsense.write_all(&[b'x'; HEADER_BYTES]).unwrap();
        let mut reply = [0];
        nonsense.read_exact(&mut reply).unwrap();
        assert_eq!(reply, [ANOTHER_JOB]);
        let mut half = UnixStream::connect_addr(&rank_two.address).unwrap();
        half.write_all(&rank_two.header(2)).unwrap();
        half.write_all(&rank_two.key.as_bytes()[..3]).unwrap();
    });
}

#[test]
fn another_users_process_is_not_trusted() {
    let job = new_job();
    with_rank_zero(&job, |rank_two| {
        let mut other_user = Meeting::new(rank_two.place, job.clone(), PATIENCE).unwrap();
        other_user.uid += 1;
        other_user.address = rank_two.address.clone();
        let error = other_user.join().unwrap_err();
        assert!(matches!(error, MeetError::Stranger { uid, .. } if uid + 1 == other_user.uid));
    });
}

#[test]
fn rank_zero_lets_no_other_user_in() {
    let job = new_job();
    let mut rank_zero = Meeting::new(place(0, 2), job.clone(), 4 * SHORT).unwrap();
    rank_zero.uid += 1;
    let rank_one = Meeting::new(place(1, 2), job, 2 * SHORT).unwrap();
    thread::scope(|scope| {
        let host = scope.spawn(|| rank_zero.host(memory(2).unwrap().as_fd()));
        assert!(matches!(
            rank_one.join(),
            Err(MeetError::NoRankZero { rank: 1, .. })
        ));
        assert!(matches!(
            host.join().unwrap(),
            Err(MeetError::RanksMissing { .. })
        ));
    });
}

#[test]
fn a_job_name_of_any_length_makes_an_address() {
    let job = "x".repeat(5000);
    Meeting::new(place(0, 2), job, SHORT).unwrap();
}
