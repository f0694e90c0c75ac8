/**
 * What is done in a sandbox before git reads what an agent left: room is made for git, and what would hold git up is
 * taken away. Each entry is handled once, relative to its open folder, so the work grows with the number of entries
 * alone: no path is ever put together, however deep folders are nested.
 */

import { quoteForShell } from '../../agents/tools/search.ts';

/** What git has to look at stays small: a workspace beyond this earns nothing. */
export const MOST = { files: 20_000, depth: 100, pathBytes: 1024 } as const;
/** Exit code of a workspace beyond it. */
export const TOO_MUCH = 3;
/** As a shell says that a program could not start: no word on the workspace. */
const FAILED = 126;

/**
 * `empty` brings each folder up to the top before it looks into it. `tidy` takes away pipes, sockets and devices, which
 * would hold up whoever opens them, links to them, and repositories within the workspace, which git takes for one word,
 * or for a reason to take nothing: their files are files.
 */
const PROGRAM = `
import os, stat, sys

left = ${MOST.files}

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
        if left < 0 or depth > ${MOST.depth} or size > ${MOST.pathBytes}: sys.exit(${TOO_MUCH})
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

/** For a shell in the workspace; ends the shell where the workspace is too much, or where this could not be done. */
export const TIDY = `python3 -I -S -B -c ${quoteForShell(PROGRAM)} 2>/dev/null; case $? in 0) ;; ${TOO_MUCH}) exit ${TOO_MUCH} ;; *) exit ${FAILED} ;; esac`;

/** Takes as much processor time, and does nothing. */
export const spend = (ms: number): string =>
  `python3 -I -S -c ${quoteForShell(`import time\nwhile time.process_time() < ${ms / 1000}: pass`)}`;
