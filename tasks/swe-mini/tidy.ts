/**
 * Prepares a sandbox before git reads the agent's workspace: it empties /tmp and /dev/shm to make room for git, and
 * removes entries that would block git. It handles each entry once, relative to its open folder and without building
 * paths, so the work is linear in the number of entries at any depth of folders.
 */

import { quoteForShell } from '../../agents/tools/search.ts';

/** Limits on a workspace that git has to read. */
export interface Most {
  readonly files: number;
  readonly depth: number;
  readonly pathBytes: number;
}

/** Of a small repository. A larger workspace gets a reward of 0. */
export const MOST: Most = { files: 20_000, depth: 100, pathBytes: 1024 };
/** Exit code for a workspace beyond these limits. */
export const TOO_MUCH = 3;
/** The shell's exit code for a program that could not start. It says nothing about the workspace. */
const FAILED = 126;

/**
 * `empty` moves each folder to the top before it lists it. `tidy` removes pipes, sockets and devices, which block the
 * process that opens them, and links to them. It removes the `.git` of nested repositories: git would add such a
 * repository as one entry, or fail; without it, its files are added as files.
 */
const program = (most: Most): string => `
import os, stat, sys

left = ${most.files}

def kind_of(name, at):
    return os.stat(name, dir_fd=at, follow_symlinks=False).st_mode

def opened(name, at, mode):
    os.chmod(name, stat.S_IMODE(mode) | 0o700, dir_fd=at)
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)

def empty(top):
    folders, prefix, count = [], os.urandom(8).hex(), 0
    def clear(at):
        nonlocal count
        for name in os.listdir(at):
            try:
                mode = kind_of(name, at)
                if not stat.S_ISDIR(mode):
                    os.unlink(name, dir_fd=at)
                    continue
                os.chmod(name, 0o700, dir_fd=at)
                count += 1
                os.rename(name, prefix + str(count), src_dir_fd=at, dst_dir_fd=top)
                folders.append(prefix + str(count))
            except OSError: pass
    clear(top)
    while folders:
        name = folders.pop()
        try:
            at = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
            clear(at)
            os.close(at)
            os.rmdir(name, dir_fd=top)
        except OSError: pass

def blocks(mode):
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))

def leads_to_block(name, at):
    try: return blocks(os.stat(name, dir_fd=at).st_mode)
    except OSError: return False

def tidy(top, depth, length):
    global left
    for name in os.listdir(top):
        left -= 1
        size = length + len(os.fsencode(name)) + 1
        if left < 0 or depth > ${most.depth} or size > ${most.pathBytes}: sys.exit(${TOO_MUCH})
        mode = kind_of(name, top)
        if stat.S_ISDIR(mode):
            at = opened(name, top, mode)
            if depth > 1 and name == ".git":
                empty(at)
                os.rmdir(name, dir_fd=top)
            else: tidy(at, depth + 1, size)
            os.close(at)
        elif blocks(mode) or leads_to_block(name, top) or (depth > 1 and name == ".git"):
            os.unlink(name, dir_fd=top)
        elif stat.S_ISREG(mode): os.chmod(name, stat.S_IMODE(mode) | 0o600, dir_fd=top)

for place in "/tmp", "/dev/shm": empty(os.open(place, os.O_RDONLY | os.O_DIRECTORY))
tidy(os.open(".", os.O_RDONLY | os.O_DIRECTORY), 1, 0)
`;

/**
 * Command for a shell in the workspace. It ends the shell if the workspace is beyond the limits, or if the program
 * failed.
 */
export const tidy = (most: Most): string =>
  `python3 -I -S -B -c ${quoteForShell(program(most))} 2>/dev/null; case $? in 0) ;; ` +
  `${TOO_MUCH}) exit ${TOO_MUCH} ;; *) exit ${FAILED} ;; esac`;

/** A command that uses `ms` milliseconds of processor time and does nothing else. */
export const spend = (ms: number): string =>
  `python3 -I -S -c ${quoteForShell(`import time\nwhile time.process_time() < ${ms / 1000}: pass`)}`;
