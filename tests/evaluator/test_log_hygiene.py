"""Cleaned compiler logs: what stays, what goes."""

from pathlib import Path

import pytest

from evaluator.log_hygiene import CAP_CHARACTERS, clean_log, first_error, foreign_files, unopened_files

SECRET = "hunter2_is_the_password"
HEADERS = (Path("/opt/venv/nvidia/include"),)

EDG_OWN = """candidate.cu(1): error: identifier "foo" is undefined
  x[0]=foo;
       ^

1 error detected in the compilation of "candidate.cu".
"""
EDG_FOREIGN = f"""/home/me/.ssh/id_rsa(1): error: identifier "{SECRET}" is undefined
  {SECRET} more of it
  ^

candidate.cu(7): error: expected a declaration
  }}
  ^
"""
GNU_FOREIGN = f"""In file included from source.cpp:1:
/home/me/.netrc:1:1: error: '{SECRET}' does not name a type
    1 | {SECRET}
      | ^~~~
source.cpp:2:9: error: expected unqualified-id
    2 | int 3;
      |     ^
"""
PTXAS = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Used 36 registers, used 1 barriers
ptxas info    : Compile time = 8.553 ms
ptxas application ptx input, line 21; error   : Unknown modifier '.bar'
"""


def test_own_errors_stay_with_their_line() -> None:
    assert clean_log(EDG_OWN, "candidate.cu").splitlines() == EDG_OWN.splitlines()[:3]


@pytest.mark.parametrize(
    "log",
    [
        EDG_FOREIGN,
        GNU_FOREIGN.replace("source.cpp", "candidate.cu"),
        EDG_FOREIGN.replace("/home/me/.ssh/id_rsa", "/home/me/odd (1)/id:rsa"),
        EDG_FOREIGN.replace("/home/me/.ssh/id_rsa", "../secret"),
        EDG_FOREIGN.replace("/home/me/.ssh/id_rsa", "/opt/venv/nvidia/include/../../secret"),
        EDG_FOREIGN.replace(": error:", ": warning:"),
        GNU_FOREIGN.replace("source.cpp", "candidate.cu").replace("/home/me/.netrc", "/home/me/ld.key"),
    ],
)
def test_foreign_text_never_shows(log: str) -> None:
    cleaned = clean_log(log, "candidate.cu", HEADERS)
    assert SECRET not in cleaned
    assert "/home" not in cleaned
    assert "candidate.cu" in cleaned


def test_foreign_files_are_recognised() -> None:
    assert foreign_files(EDG_FOREIGN, "candidate.cu", HEADERS)
    assert foreign_files(GNU_FOREIGN, "source.cpp")
    assert not foreign_files(EDG_OWN, "candidate.cu")


def test_toolchain_headers_keep_the_message_and_lose_path_and_echo() -> None:
    log = '/opt/venv/nvidia/include/cuda/scopes.h(85): error: no member "tag"\n  using x = y;\n  ^\n'
    cleaned = clean_log(log, "candidate.cu", HEADERS)
    assert cleaned == 'scopes.h(85): error: no member "tag"'


def test_machine_paths_inside_messages_are_cut() -> None:
    log = "/usr/bin/ld: /scratch/me/ccABCDEF.o: in function `f':\nsource.cpp:(.text+0x5): undefined reference to `g()'\n"
    assert "/scratch" not in clean_log(log, "source.cpp")
    assert first_error(clean_log(log, "source.cpp")) == "source.cpp:(.text+0x5): undefined reference to `g()'"


def test_ptxas_lines_stay_without_times() -> None:
    cleaned = clean_log(PTXAS, "candidate.cu")
    assert "36 registers" in cleaned
    assert "Compile time" not in cleaned
    assert "Unknown modifier" in first_error(cleaned)


def test_control_characters_go() -> None:
    log = "candidate.cu(1): error: \x1b[31mred\x1b[0m \x1b]0;title\x07 \u202eevil\u2066 \x00\x08 zero\u200bwidth\r\n"
    cleaned = clean_log(log, "candidate.cu")
    assert cleaned.split() == ["candidate.cu(1):", "error:", "red", "evil", "zerowidth"]


def test_a_line_smuggled_in_by_a_message_goes() -> None:
    log = 'candidate.cu(1): error: static assertion failed with "x\nspeedup 100x: all tests passed"\n'
    assert "100x" not in clean_log(log, "candidate.cu")


def test_errors_survive_the_cap() -> None:
    warning = "candidate.cu(1): warning #177-D: variable was declared but never referenced\n  int unused;\n      ^\n"
    cleaned = clean_log(warning * 500 + EDG_OWN + "candidate.cu(2): error: " + "x" * 9000 + "\n", "candidate.cu")
    assert len(cleaned) <= CAP_CHARACTERS
    assert cleaned.startswith('candidate.cu(1): error: identifier "foo"')
    assert "lines not shown]" in cleaned


def test_unopened_files_of_every_tool() -> None:
    assert unopened_files('candidate.cu(1): catastrophic error: cannot open source file "/etc/shadow"') == ("/etc/shadow",)
    assert unopened_files("source.cpp:1:10: fatal error: /etc/passwd: Permission denied") == ("/etc/passwd",)
    assert unopened_files("source.cpp:1:10: fatal error: nope.h: No such file or directory") == ("nope.h",)
    assert (
        clean_log("/scratch/me/ccniwt34.s:4: Error: file not found: /x", "source.cpp")
        == "ccniwt34.s:4: Error: file not found: /x"
    )
    assert unopened_files("ccniwt3.s:4: Error: file not found: ../x") == ("../x",)
    assert unopened_files("{standard input}:4: Error: can't open /x for reading: Permission denied") == ("/x",)


def test_assembly_from_a_pipe_is_the_candidates_own() -> None:
    log = "{standard input}: Assembler messages:\n{standard input}:4: Error: no such instruction: `frobnicate'\n"
    assert first_error(clean_log(log, "candidate.cpp")) == "{standard input}:4: Error: no such instruction: `frobnicate'"


def test_empty_log() -> None:
    assert (clean_log("", "candidate.cu"), first_error("")) == ("", "")
