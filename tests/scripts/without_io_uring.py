"""Runs a command under a seccomp filter that refuses a call of io_uring with the given errno:
io_uring_setup, or another one by its number.

usage: without_io_uring.py ERRNO[:CALL] COMMAND [ARGUMENT ...]

Needs no privilege: a process that gives up new privileges may filter itself.
"""

import ctypes
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
SECCOMP_RET_ALLOW = 0x7FFF0000
SECCOMP_RET_ERRNO = 0x00050000
BPF_LD_W_ABS = 0x20
BPF_JMP_JEQ_K = 0x15
BPF_RET_K = 0x06
IO_URING_SETUP = 425  # the same number on every architecture


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def instruction(code, if_true, if_false, value):
    return struct.pack("HBBI", code, if_true, if_false, value)


def main():
    errno, _, call = sys.argv[1].partition(":")
    errno, call = int(errno), int(call or IO_URING_SETUP)
    code = b"".join(
        [
            instruction(BPF_LD_W_ABS, 0, 0, 0),
            instruction(BPF_JMP_JEQ_K, 0, 1, call),
            instruction(BPF_RET_K, 0, 0, SECCOMP_RET_ERRNO | errno),
            instruction(BPF_RET_K, 0, 0, SECCOMP_RET_ALLOW),
        ]
    )
    buffer = ctypes.create_string_buffer(code, len(code))
    program = Program(4, ctypes.cast(buffer, ctypes.c_void_p).value)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        sys.exit("prctl(PR_SET_NO_NEW_PRIVS): " + os.strerror(ctypes.get_errno()))
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) != 0:
        sys.exit("prctl(PR_SET_SECCOMP): " + os.strerror(ctypes.get_errno()))
    os.execvp(sys.argv[2], sys.argv[2:])


main()
