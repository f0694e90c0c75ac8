/**
 * Hunts output: what a policy prints, exports or defines must not forge another call's result, control the supervisor,
 * or block a client. It does not repeat `shell.test.ts`.
 */

import { createHash } from 'node:crypto';
import { createServer, type Socket } from 'node:net';
import { existsSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { runToolCall } from '../../../agents/tools/run-tool-call.ts';
import type { Sandbox } from '../../../sandboxes/sandbox.ts';
import { folderOf } from '../../../sandboxes/supervised/state.ts';
import { SupervisorClient } from '../../../sandboxes/supervisor/client.ts';
import { dialSocket } from '../../../sandboxes/supervisor/connection.ts';
import { callOf, sh } from '../harness.ts';
import { openBenches, pidOf, underAttack } from './host.ts';

const benches = await openBenches(true);
let calls = 0;

async function tool(sandbox: Sandbox, name: string, args: Record<string, unknown>): Promise<string> {
  calls += 1;
  return (
    await runToolCall({ name, arguments: args }, ['bash', 'search', 'str_replace_editor'], sandbox, {
      callId: `tool-${calls}`,
      timeoutMs: 20_000,
    })
  ).content;
}

describe.each(benches)('$name', (bench) => {
  it('a shell whose builtins were all redefined affects only itself: other tools and calls are unaffected', async () => {
    await underAttack(bench, async (sandbox) => {
      await sandbox.write({ callId: 'w', path: 'file', content: Buffer.from('needle\n'), note: '' });
      const poison = [
        'mkdir -p /tmp/evil /tmp/home; for n in grep cat git rm find bash sh env; do printf "#!/bin/bash\\necho poisoned\\n" > /tmp/evil/$n; chmod +x /tmp/evil/$n; done',
        'for f in .bashrc .bash_profile .profile .inputrc .gitconfig; do echo "echo poisoned" > /tmp/home/$f; done; printf "[alias]\\n" > /tmp/home/.gitconfig',
        'echo "echo poisoned" > /tmp/evil/env; export PATH=/tmp/evil BASH_ENV=/tmp/evil/env ENV=/tmp/evil/env LD_PRELOAD=/tmp/evil/x.so PROMPT_COMMAND="echo poisoned" PS0="poisoned" PS4="poisoned" SHELLOPTS IFS=x GREP_OPTIONS=-v PYTHONSTARTUP=/tmp/evil/env',
        'alias echo="echo poisoned"; shopt -s expand_aliases; trap "echo poisoned" DEBUG RETURN; cd() { :; }; export -f cd; enable -n printf',
      ];
      await sh(sandbox, poison.join('\n'), { timeoutMs: 1500 });
      expect(await tool(sandbox, 'search', { query: 'needle' })).toBe('file:1:needle');
      expect(
        await tool(sandbox, 'str_replace_editor', {
          command: 'str_replace',
          path: 'file',
          old_str: 'needle',
          new_str: 'thread',
        }),
      ).toBe('Edited file.');
      expect(await tool(sandbox, 'str_replace_editor', { command: 'undo_edit', path: 'file' })).toBe(
        'Undid the last edit of file.',
      );
      expect((await sh(sandbox, 'cat file; echo "$PATH [$LD_PRELOAD$BASH_ENV]"', { fresh: true })).output).toMatch(
        /^needle\n\/usr\S+ \[\]\n$/u,
      );
      await sh(sandbox, 'builtin :', { alone: true });
    });
  });

  it('a shell that forges its end markers can only forge its own results, until the time limit', async () => {
    await underAttack(bench, async (sandbox) => {
      const forged = await sh(
        sandbox,
        'builtin() { case $1 in printf) command printf "%s 0\\n%s end\\n" "$3" "$3";; esac; }; declare() { :; }; false',
        { timeoutMs: 1500 },
      );
      expect([0, 1, null]).toContain(forged.exitCode);
      expect(await sh(sandbox, 'builtin echo true; (exit 7)', { fresh: true })).toMatchObject({
        output: 'true\n',
        exitCode: 7,
      });
      // It withholds the real markers too, so only an end from outside ends it.
      await sh(sandbox, 'true', { alone: true });
    });
  });

  it('end markers that are cut short, too long or missing do not end the sandbox', async () => {
    await underAttack(bench, async (sandbox, id) => {
      const pid = await pidOf(bench, id);
      for (const word of [
        '"$3"',
        '"$3 "',
        '"$3 1234567890123456"',
        '"$3 12345678901234"',
        '"$3 x" "$3 end"',
        '"$3" "$3 0" "$3 end"',
      ]) {
        // Its own result may be anything.
        await sh(sandbox, `builtin() { case $1 in printf) command printf '\\n%s\\n' ${word};; esac; }; true`, {
          timeoutMs: 300,
        });
        await sh(sandbox, 'true', { alone: true });
      }
      expect(await pidOf(bench, id)).toBe(pid);
    });
  });

  it('endless answers do not fill the journal: each gets at most a share of the remaining room', async () => {
    await underAttack(bench, async (sandbox, id) => {
      const most = { outputLimit: 8 << 20 };
      let dropped = 0;
      for (let n = 0; n < 48; n += 1)
        dropped += (await sh(sandbox, "head -c 8388608 /dev/zero | tr '\\0' x", most)).droppedBytes;
      expect(dropped).toBeGreaterThan(0);
      // With exec, the journal is inside the sandbox.
      const journal = join(folderOf(bench.stateDir, id), dirname(bench.socket), 'journal');
      if (existsSync(journal)) expect(statSync(journal).size).toBeLessThan(256 << 20);
      expect((await sh(sandbox, 'seq 1000', most)).output).toContain('\n1000\n');
    });
  });

  it('escapes, NULs, partial characters and endless lines are only text for the policy', async () => {
    await underAttack(bench, async (sandbox) => {
      const said = await tool(sandbox, 'bash', {
        command:
          "printf '\\033[2J\\033]0;t\\007\\033P1;2q\\033\\\\a\\0b\\377\\xc3\\n\\x9b31m\\u009b1m[timed out]\\r\\n'; head -c 1000000 /dev/zero | tr '\\0' x; printf '\\n[exit code 0]\\n'; exit 3",
      });
      expect(said.replaceAll(/[\n\t]/gu, '')).not.toMatch(/\p{Cc}/u);
      expect(said.length).toBeLessThan(8200);
      expect(said.endsWith('[exit code 3]')).toBe(true);
    });
  });

  it('an impossible path gets an answer, whatever the policy has prepared', async () => {
    await underAttack(bench, async (sandbox) => {
      const path = 'a\0b';
      // The editor's folder of versions: the policy writes a version itself.
      const kept = `/tmp/.undo/${createHash('sha256').update(path).digest('hex').slice(0, 16)}`;
      await sh(sandbox, `mkdir -p ${kept}; echo x > ${kept}/1; echo x > file`);
      for (const args of [
        { command: 'undo_edit' },
        { command: 'create', file_text: 'x' },
        { command: 'view' },
        { command: 'str_replace', old_str: 'x', new_str: 'y' },
      ])
        expect(await tool(sandbox, 'str_replace_editor', { path, ...args })).toMatch(/^Error: /u);
      expect(
        await tool(sandbox, 'str_replace_editor', {
          command: 'str_replace',
          path: 'file',
          old_str: 'x',
          new_str: 'a\0b',
        }),
      ).toBe('Edited file.');
      await sandbox.write({ callId: 'noted', path: 'file', content: Buffer.from('x'), note: 'a\0b' });
      expect(await sandbox.written('noted')).toEqual({ note: 'ab' });
    });
  });

  it('endless exports are dropped, not kept', async () => {
    await underAttack(bench, async (sandbox) => {
      await sh(sandbox, 'export KEPT=1; for ((i = 0; i < 3000; i++)); do printf -v V$i %0200d $i; export V$i; done');
      expect((await sandbox.state?.())?.exports.length).toBeLessThan(300_000);
      expect((await sh(sandbox, 'echo $KEPT')).output).toBe('1\n');
    });
  });
});

it('a hijacked supervisor cannot make the client keep an endless frame', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'longhaul-frames-'));
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket
      .on('error', () => undefined)
      .on('data', () => socket.write(Buffer.from([0xff, 0xff, 0xff, 0x7f, 1, 0, 0, 0, 3])));
  });
  await new Promise<void>((resolve) => void server.listen(join(dir, 'socket'), resolve));
  const client = new SupervisorClient('taken-over', dialSocket(join(dir, 'socket')));
  await expect(client.exec(callOf('true'))).rejects.toThrow('its supervisor closes every connection');
  client.close();
  for (const socket of sockets) socket.destroy();
  await new Promise((resolve) => server.close(resolve));
  rmSync(dir, { recursive: true });
});
