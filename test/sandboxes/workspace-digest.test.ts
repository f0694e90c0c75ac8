/**
 * Hunts digests that differ between equal states, which would cost a rollout with a lost sandbox its attempt, and equal
 * digests of different states, which would let a policy continue from a state that it never saw.
 */
import { describe, expect, it } from 'vitest';
import type { ExecCall, Sandbox } from '../../sandboxes/sandbox.ts';
import { workspaceDigest } from '../../sandboxes/workspace-digest.ts';
import { openBench, sh, specOf } from './harness.ts';

const bench = await openBench();
let made = 0;
const fresh = () =>
  bench.provider.create(
    specOf(`digest/${made++}`, {
      files: [
        { path: 'a/one.txt', content: 'one\n' },
        { path: 'run.sh', content: 'true\n', mode: 0o755 },
      ],
    }),
  );
let looks = 0;
const digest = (sandbox: Sandbox) => workspaceDigest(sandbox, `look-${looks++}`);

describe('the digest of a workspace', () => {
  it('is the same for the same calls in another sandbox, at another time', async () => {
    const commands = [
      'mkdir -p x/y && cd x && export A=1',
      'echo two > y/f; ln -s f y/link; mkfifo y/pipe',
      'git init -q . && git add -A . && git -c user.name=a -c user.email=a@b.invalid commit -qm c --date=2024-01-01T00:00:00Z; git status --short',
    ];
    const digests: Array<string | undefined> = [];
    for (let i = 0; i < 2; i++) {
      const sandbox = await fresh();
      await sh(sandbox, 'export GIT_COMMITTER_DATE=2024-01-01T00:00:00Z');
      for (const command of commands) await sh(sandbox, command);
      digests.push(await digest(sandbox));
      // Reading the repository refreshes git's cache of times, and does not change the files.
      await sh(sandbox, 'sleep 1.1; touch -d 2001-01-01 y/f; git status >/dev/null');
      digests.push(await digest(sandbox));
      sandbox.close();
    }
    expect(digests[0]).toMatch(/^[0-9a-f]{64}$/);
    expect(new Set(digests).size).toBe(1);
  });

  it.each([
    ['content', 'echo two > a/one.txt'],
    ['a name', 'mv a/one.txt a/two.txt'],
    ['a mode', 'chmod 644 run.sh'],
    ['an empty folder', 'mkdir b'],
    ['where a link points', 'ln -s a c'],
    ['the directory of the shell', 'cd a'],
    ['an exported variable', 'export B=2'],
  ])('changes with %s', async (_what, command) => {
    const sandbox = await fresh();
    await sh(sandbox, 'true');
    const before = await digest(sandbox);
    await sh(sandbox, command);
    expect(await digest(sandbox)).not.toBe(before);
    sandbox.close();
  });

  it('exists if a file cannot be read, and does not exist if no process can be started', async () => {
    const forks = `import os,time
os.setpgrp()
while True:
  try:
    if os.fork() == 0: time.sleep(60)
  except OSError: break
with open('full', 'w') as f: f.write('full\\n')
time.sleep(60)`;
    const sandbox = await fresh();
    await sh(sandbox, 'echo secret > locked && chmod 000 locked');
    expect(await digest(sandbox)).toMatch(/^[0-9a-f]{64}$/);
    // Not by the shell, which tries for 15 s to start each process.
    const { output } = await sh(
      sandbox,
      `mkfifo full; python3 -c "${forks}" >/dev/null 2>&1 & read -r said < full; echo $said`,
    );
    expect(output).toBe('full\n');
    expect(await digest(sandbox)).toBeUndefined();
    await sh(sandbox, 'kill -KILL -- -$!');
    await expect.poll(() => digest(sandbox)).toMatch(/^[0-9a-f]{64}$/);
    sandbox.close();
  });

  /** A sandbox in which this replaces `tar`; `$@` are its arguments. */
  const lookingBy = (script: string) =>
    bench.provider.create(
      specOf(`digest/${made++}`, {
        env: { PATH: '/workspace/bin:/usr/bin:/bin' },
        files: [{ path: 'bin/tar', content: `#!/bin/bash\n${script}\n`, mode: 0o755 }],
      }),
    );

  /**
   * Why: a budget of the call would count everything in the sandbox, and end everything when it is used up. The test
   * sets a fiftieth of such a budget, which a busy machine can use up in time.
   */
  it('is computed while the policy’s own processes use processor time, and does not end them', async () => {
    const burn = `import os,time
for i in range(4):
  if os.fork() == 0:
    while time.process_time() < 0.1: pass
    open(f'/tmp/burnt-{i}', 'w')
    time.sleep(1000)
time.sleep(1000)`;
    const sandbox = await lookingBy(
      'mkfifo /tmp/looks; echo > /tmp/looks\nuntil [ "$(ls /tmp | grep -c burnt)" = 4 ]; do sleep 0.1; done\nexec /usr/bin/tar "$@"',
    );
    const hurried = new Proxy(sandbox, {
      get: (target, name) => {
        const real = Reflect.get(target, name) as (...given: unknown[]) => unknown;
        return name === 'exec'
          ? (call: ExecCall) => target.exec(call.cpuMs === undefined ? call : { ...call, cpuMs: call.cpuMs / 50 })
          : real.bind(target);
      },
    });
    await sh(
      sandbox,
      `plain=kept; (until [ -p /tmp/looks ]; do sleep 0.05; done; read -r < /tmp/looks; exec python3 -c "${burn}") > /tmp/said 2>&1 &`,
    );
    expect(await digest(hurried)).toMatch(/^[0-9a-f]{64}$/);
    expect((await sh(sandbox, 'echo $plain; pgrep -c python3')).output).toBe('kept\n5\n');
    sandbox.close();
  });

  it('has a limit on its processor time, and does not exist if it was cut off', async () => {
    const bounded = await lookingBy('ulimit -t > /tmp/limit; exec /usr/bin/tar "$@"');
    expect(await digest(bounded)).toMatch(/^[0-9a-f]{64}$/);
    expect((await sh(bounded, 'cat /tmp/limit')).output).toBe('5\n');
    bounded.close();
    const cut = await lookingBy('echo half of an archive; kill -KILL $$');
    expect(await digest(cut)).toBeUndefined();
    cut.close();
  });

  it('neither sees nor changes the shell’s own state', async () => {
    const sandbox = await fresh();
    await sh(sandbox, 'cd a; plain=kept; f() { echo "$plain"; }');
    await digest(sandbox);
    expect((await sh(sandbox, 'f; pwd')).output).toBe('kept\n/workspace/a\n');
    sandbox.close();
  });
});
