//! A million odd answers to every environment that is built in, each checked, with the memory that they leave behind:
//! `cargo bench -p accredit-environments --bench odd_actions`, or with ` -- 100000` for fewer.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use accredit_environments::make;

#[expect(dead_code, reason = "fuzz targets make an environment for each episode")]
#[path = "../fuzz/play.rs"]
mod play;
#[path = "../tests/it/odd_actions/texts.rs"]
mod texts;

const ANSWERS: usize = 1_000_000;
/// The longest repetition in an answer, in bytes.
const LONGEST: usize = 100_000;
/// How much resident memory may grow after the first tenth of the answers, in KiB.
const GROWTH: u64 = 4096;

/// Resident memory of this process, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// That memory which is held is seen, and that it is no longer seen once it is given back.
fn check_that_memory_is_measured() {
    const HELD: u64 = 64 * 1024;
    let before = resident();
    let held = black_box(vec![1_u8; 1024 * HELD as usize]);
    assert!(resident() >= before + HELD * 9 / 10, "64 MiB that are held are not seen");
    drop(held);
    assert!(resident() < before + HELD / 10, "64 MiB that were given back are still seen");
}

fn main() {
    let answers = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(ANSWERS);
    check_that_memory_is_measured();
    let games = texts::games();
    for (index, (name, settings)) in games.iter().enumerate() {
        // The answers of an environment are dealt to the ways in which it reads them.
        let answers = answers / games.iter().filter(|(other, _)| other == name).count();
        let mut environment = make(name, settings.as_object().unwrap()).unwrap();
        let mut texts = texts::Texts::new(index as u64, LONGEST);
        let (mut seed, mut played, mut settled) = (0, 0, None);
        let start = Instant::now();
        while played < answers {
            played += play::episode(name, environment.as_mut(), seed, &texts.episode());
            seed += 1;
            if settled.is_none() && played >= answers / 10 {
                settled = Some(resident());
            }
        }
        let (settled, end) = (settled.unwrap_or_default(), resident());
        println!(
            "{name} {settings}: {played} answers in {seed} episodes, each twice, {:.1} s; resident memory {settled} KiB \
             after a tenth, {end} KiB at the end",
            start.elapsed().as_secs_f64(),
        );
        assert!(end <= settled + GROWTH, "{name}: memory grows");
    }
}
