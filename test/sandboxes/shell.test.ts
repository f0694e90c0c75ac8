/** The one long-lived shell: a command can neither hang a later call nor forge its result. */

import { beforeAll, describe, expect, it } from 'vitest';

import type { Sandbox } from '../../sandboxes/sandbox.ts';
import { openBench, sh, specOf } from './harness.ts';

const bench = await openBench();
let sandbox: Sandbox;

beforeAll(async () => {
  sandbox = await bench.provider.create(specOf('shell'));
});

describe('state', () => {
  it('keeps directory, variables, functions, options and arrays from call to call', async () => {
    await sh(
      sandbox,
      'cd /tmp; plain=1; export LOUD=2; greet() { echo "hi $1"; }; declare -A map=([k]=v); shopt -s extglob',
    );
    const { output } = await sh(sandbox, 'pwd; echo $plain $LOUD ${map[k]}; greet you; shopt -q extglob && echo ext');
    expect(output).toBe('/tmp\n1 2 v\nhi you\next\n');
    await sh(sandbox, 'cd /workspace');
  });

  it('reports exit codes, and 128 and more for signals that end a command', async () => {
    expect(await sh(sandbox, 'false')).toMatchObject({ exitCode: 1, signal: null, output: '', timedOut: false });
    expect((await sh(sandbox, '(exit 7)')).exitCode).toBe(7);
    expect((await sh(sandbox, 'sleep 9 & kill $!; wait $!')).exitCode).toBe(143);
  });

  it('gives a command no standard input, and an equal environment each time', async () => {
    expect(await sh(sandbox, 'cat; read x; echo "[$x]"')).toMatchObject({ output: '[]\n', exitCode: 0 });
    const { output } = await sh(
      sandbox,
      'hostname; id -un; echo $TZ $LANG $PYTHONHASHSEED $PATH; python3 -c "print(hash(\'a\'))"',
    );
    const again = await bench.provider.create(specOf('shell-again'));
    const command = 'hostname; id -un; echo $TZ $LANG $PYTHONHASHSEED $PATH; python3 -c "print(hash(\'a\'))"';
    expect((await sh(again, command)).output).toBe(output);
    expect(output).toMatch(/^longhaul\nagent\nUTC C\.UTF-8 0 \/usr/u);
    await bench.provider.destroy('shell-again');
  });

  it('runs a fresh call beside the shell: neither sees the other', async () => {
    await sh(sandbox, 'cd /tmp; hidden=1; grep() { echo poisoned; }');
    expect(await sh(sandbox, 'pwd; echo "[$hidden]"; echo x | grep x; cd /; exit 4', { fresh: true })).toMatchObject({
      output: '/workspace\n[]\nx\n',
      exitCode: 4,
    });
    expect((await sh(sandbox, 'pwd; echo $hidden; unset -f grep; cd /workspace')).output).toBe('/tmp\n1\n');
  });
});

describe('commands that would break a shell', () => {
  it.each([
    ['an unclosed quote', 'echo "open', 2],
    ['an unclosed block', 'if true; then', 2],
    ['a closing brace', '}', 2],
    ['an unclosed substitution', 'echo $(', 2],
    ['break and return outside', 'break; continue; true', 0],
  ])('%s is an error of that call alone', async (_, command, exitCode) => {
    const broken = await sh(sandbox, `${command}`);
    expect(broken.exitCode).toBe(exitCode);
    expect(broken.output).not.toContain('restarted');
    expect(await sh(sandbox, 'echo fine')).toMatchObject({ exitCode: 0, output: 'fine\n' });
  });

  it('ends with `exit`, is restarted in the same directory with its exports, and reports that', async () => {
    await sh(sandbox, 'cd /tmp; export KEPT=\'a "b" $c\'; lost=1');
    expect(await sh(sandbox, 'echo before; exit 3')).toMatchObject({
      exitCode: 3,
      output: 'before\n[shell restarted]\n',
    });
    expect(await sh(sandbox, 'pwd; echo "$KEPT [$lost]"')).toMatchObject({
      output: '/tmp\na "b" $c []\n',
      exitCode: 0,
    });
    await sh(sandbox, 'cd /workspace; unset KEPT');
  });

  it('survives set -e, set -x, set -u and posix mode', async () => {
    expect((await sh(sandbox, 'set -e; false; echo unreached')).output).toBe('[shell restarted]\n');
    expect((await sh(sandbox, 'set -eux; set -o posix; true')).exitCode).toBe(0);
    expect(await sh(sandbox, 'false; echo on')).toMatchObject({ output: 'on\n', exitCode: 0 });
    await sh(sandbox, 'set +u');
  });

  it('sees `exec` as the end of the shell, with the status of what replaced it', async () => {
    expect(await sh(sandbox, 'exec sh -c "sleep 0.2; echo replaced; exit 5"')).toMatchObject({
      exitCode: 5,
      output: 'replaced\n[shell restarted]\n',
    });
    expect(await sh(sandbox, 'exec sleep 60', { timeoutMs: 200 })).toMatchObject({ timedOut: true, exitCode: null });
    expect((await sh(sandbox, 'echo fine')).output).toBe('fine\n');
  });

  it('reports the signal when the command kills its own shell, or everything', async () => {
    expect(await sh(sandbox, 'kill -9 $$')).toMatchObject({ exitCode: null, signal: 'SIGKILL' });
    expect(await sh(sandbox, 'sh -c "kill -9 -1"')).toMatchObject({ exitCode: null, signal: 'SIGKILL' });
    expect((await sh(sandbox, '{ kill -9 1; kill -STOP 1; } 2>/dev/null; echo fine')).output).toBe('fine\n');
  });

  it('ignores markers that a command prints or writes to every descriptor that it finds', async () => {
    const forged = [
      'exec 2>/dev/null',
      'for fd in /proc/$$/fd/* /proc/self/fd/*; do n=${fd##*/}; [ $n -gt 2 ] && { echo "0000 0" >$fd; } & done',
      'printf "\\n%s 0\\n%s end\\n" 00000000000000000000000000000000 00000000000000000000000000000000',
      'sleep 0.3; echo last; (exit 9)',
    ].join('\n');
    const result = await sh(sandbox, forged, { timeoutMs: 5000 });
    expect(result.output).toContain('last\n');
    expect(result.exitCode).toBe(9);
    await sh(sandbox, 'exec 2>&1');
    expect((await sh(sandbox, 'echo fine')).output).toBe('fine\n');
  });

  it('gives a command only the standard descriptors', async () => {
    expect((await sh(sandbox, 'ls /proc/self/fd | tr "\\n" " "')).output).toBe('0 1 2 3 ');
    expect((await sh(sandbox, 'ls /proc/self/fd | tr "\\n" " "', { fresh: true })).output).toBe('0 1 2 3 ');
  });

  it('does not wait for background children that hold the output, and does not mix their output into later calls', async () => {
    expect((await sh(sandbox, '(sleep 0.1; echo late; sleep 60) & echo now')).output).toBe('now\n');
    await new Promise((resolve) => setTimeout(resolve, 250));
    expect((await sh(sandbox, 'echo next; kill %1')).output).toBe('next\n');
    expect((await sh(sandbox, 'sleep 60 & echo now', { fresh: true })).output).toBe('now\n');
  });
});

describe('output', () => {
  it('keeps head and tail of endless output, counts the rest, and stops it in time', async () => {
    const result = await sh(sandbox, 'echo first; yes', { timeoutMs: 400, outputLimit: 1000 });
    expect(result).toMatchObject({ timedOut: true, exitCode: null, signal: 'SIGKILL' });
    expect(result.output.startsWith('first\ny\ny\n')).toBe(true);
    expect(result.output).toContain(`\n[${result.droppedBytes} bytes dropped]\n`);
    expect(result.droppedBytes).toBeGreaterThan(1_000_000);
    expect(result.output.length).toBeLessThan(1100);
  });

  it('keeps all of an output at the limit, both streams in order', async () => {
    const exact = await sh(sandbox, 'head -c 1000 /dev/zero | tr "\\0" x', { outputLimit: 1000 });
    expect(exact).toMatchObject({ output: 'x'.repeat(1000), droppedBytes: 0 });
    const more = await sh(sandbox, 'head -c 1001 /dev/zero | tr "\\0" x', { outputLimit: 1000 });
    expect(more.droppedBytes).toBe(1);
    expect((await sh(sandbox, 'echo a; echo b >&2; echo c')).output).toBe('a\nb\nc\n');
    expect((await sh(sandbox, 'seq 200000 | tail -1; seq 30000')).output.split('\n').length).toBeGreaterThan(10_000);
  });

  it('replaces invalid UTF-8, and cuts no character in two', async () => {
    expect((await sh(sandbox, "printf 'a\\377b'")).output).toBe('a\uFFFDb');
    const cut = await sh(sandbox, "for i in $(seq 100); do printf '\u00E9\u20AC'; done", { outputLimit: 101 });
    expect(cut.output).not.toContain('\uFFFD');
  });

  it('accepts commands of any text and length', async () => {
    const long = `cat <<'EOF' | wc -c\n${'x'.repeat(300_000)}\nEOF`;
    expect((await sh(sandbox, long)).output.trim()).toBe('300001');
    expect((await sh(sandbox, "echo 'it'\\''s' $'\\t' \"\u00E9\" \\\\")).output).toBe("it's \t \u00E9 \\\n");
    expect((await sh(sandbox, 'echo a\0b')).output).toBe('ab\n');
    expect((await sh(sandbox, '')).exitCode).toBe(0);
    expect((await sh(sandbox, '# only a comment')).exitCode).toBe(0);
  });
});
