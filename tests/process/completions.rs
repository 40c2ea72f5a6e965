//! `rendezvous completions`: for each shell a script that knows every command.

use crate::child::{Process, rendezvous};
use crate::say::not_run;
use std::io::Write;
use std::process::{Command, Stdio};

const SHELLS: [&str; 5] = ["bash", "elvish", "fish", "powershell", "zsh"];

fn said(arguments: &[&str]) -> String {
    let mut process = Process::start(rendezvous().args(arguments));
    process.assert_exit(0);
    process.stdout.text()
}

/// The commands that `--help` names.
fn commands() -> Vec<String> {
    let help = said(&["--help"]);
    let list = help.split("Commands:").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("a list of commands");
    let names = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<String> = names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
    assert!(names.len() >= 10 && names.iter().any(|name| name == "completions"), "{names:?}");
    names
}

/// Feeds `input` to a shell and gives what it printed; it must like it.
fn shell(program: &str, arguments: &[&str], input: &str) -> Option<String> {
    let child = Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        not_run(format_args!("{program} isn't installed"));
        return None;
    };
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{program} {arguments:?}: {}", output.status);
    Some(String::from_utf8(output.stdout).expect("text"))
}

#[test]
fn every_shells_script_names_every_command() {
    let commands = commands();
    for shell in SHELLS {
        let script = said(&["completions", shell]);
        for command in &commands {
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            assert!(script.split(|c| !is_word(c)).any(|word| word == command), "{shell}: no {command}");
        }
    }
}

#[test]
fn bash_reads_its_script_and_completes_by_it() {
    let script = said(&["completions", "bash"]);
    shell("bash", &["-n"], &script);
    let asks =
        "COMP_WORDS=(rendezvous \"\"); COMP_CWORD=1; _rendezvous rendezvous \"\" rendezvous; echo \"${COMPREPLY[@]}\"";
    if let Some(offered) = shell("bash", &[], &format!("{script}\n{asks}\n")) {
        let offered: Vec<&str> = offered.split_whitespace().collect();
        for command in commands() {
            assert!(offered.contains(&&*command), "{command} is not among {offered:?}");
        }
    }
}

#[test]
fn a_shell_that_is_not_known_is_refused_with_those_that_are() {
    let mut process = Process::start(rendezvous().args(["completions", "cmd"]));
    process.assert_exit(2);
    let said = process.stderr.text();
    assert!(SHELLS.iter().all(|shell| said.contains(shell)), "{said}");
}
