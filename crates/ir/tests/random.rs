//! Random programs are valid, and the text form preserves them.

use p4jet_ir::{random, text, verify};

#[test]
fn random_programs_are_valid() {
    for seed in 0..400 {
        let program = random::program(seed);
        if let Err(errors) = verify::verify(&program) {
            panic!("seed {seed}: {}\n{}", errors[0], text::print(&program));
        }
    }
}

#[test]
fn random_programs_survive_the_text_form() {
    for seed in 0..200 {
        let program = random::program(seed);
        let printed = text::print(&program);
        match text::parse(&printed) {
            Ok(read) => assert!(read == program, "seed {seed}\n{printed}\n{}", text::print(&read)),
            Err(error) => panic!("seed {seed}: {error}\n{printed}"),
        }
    }
}

#[test]
fn the_same_seed_makes_the_same() {
    for seed in 0..20 {
        let program = random::program(seed);
        assert_eq!(program, random::program(seed));
        assert_eq!(random::packet(seed, &program), random::packet(seed, &program));
    }
}
