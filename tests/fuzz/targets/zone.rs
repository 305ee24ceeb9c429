#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| playgate::fuzzing::run("zone", data));
