#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| playgate_fuzzing::run("challenge", data));
