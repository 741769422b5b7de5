#![no_main]

p4jet_fuzz::program!(p4jet_fuzz::targets::P4RUNTIME);
