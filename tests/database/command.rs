//! `sealpost database` as a process.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};

#[test]
fn a_busy_port_is_one_clear_sentence() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_sealpost"))
        .args(["database", "--listen", &address])
        .env_remove("RUST_BACKTRACE")
        .output()
        .unwrap();
    assert!(!output.status.success());
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        told,
        format!("sealpost: {address} is in use by another program; stop it or choose another address with --listen\n")
    );
}

#[test]
fn it_says_where_it_listens() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dev.db");
    let mut child = Command::new(env!("CARGO_BIN_EXE_sealpost"))
        .args(["database", "--listen", "127.0.0.1:0", "--file"])
        .arg(&file)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let url = line
        .strip_prefix("database listening on ")
        .and_then(|rest| rest.split(' ').next())
        .unwrap_or_else(|| panic!("{line}"));
    let status = crate::target::agent()
        .get(format!("{url}/health"))
        .call()
        .unwrap()
        .status();
    assert_eq!(status.as_u16(), 200);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(file.exists());
}
