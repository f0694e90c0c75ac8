/**
 * The example call-chain. Why: it measures what code_search is worth, so its demonstrations must show what the tools
 * really say, and both arms must be the same task. Asserted: in a sandbox with the repository, each demonstrated call
 * gets the answer that the records have; the bug is three calls from the symptom, in files of which there are 40 to
 * 200; without code_search, no demonstration calls it.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { runToolCall } from '../../agents/tools/run-tool-call.ts';
import { clean, drill, mixed, TOOLS } from '../../examples/call-chain/demonstrations.ts';
import { CALLS, filesOf, problemOf, repaired } from '../../examples/call-chain/repository.ts';
import { openProvider } from '../../workers/sandbox-provider.ts';
import { readSandboxSettings } from '../../workers/settings.ts';

const LIMITS = { memoryMiB: 512, processes: 64, diskMiB: 64 };

it('demonstrates what the tools answer', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'longhaul-call-chain-'));
  const provider = await openProvider('bubblewrap', folder, readSandboxSettings(process.env));
  let compared = 0;
  try {
    for (let n = 0; n < 6; n += 1) {
      const problem = problemOf('demonstration', n);
      const id = `repository-${n}`;
      const sandbox = await provider.create({
        id,
        workdir: '/work',
        files: filesOf(problem),
        env: {},
        limits: LIMITS,
        ttlSeconds: 600,
      });
      const messages = clean(n);
      for (const [i, { tool_calls: calls = [] }] of messages.entries()) {
        const answer = messages[i + 1];
        const asked = calls[0]?.function;
        if (answer === undefined || asked === undefined) continue;
        const { view_range: range, ...given } = asked.arguments;
        const call = {
          name: asked.name,
          arguments: range === undefined ? given : { ...given, view_range: JSON.parse(range) as unknown },
        };
        const { content } = await runToolCall(call, TOOLS.with, sandbox, { callId: `${n}-${i}`, timeoutMs: 60_000 });
        expect(answer.content).toBe(content);
        compared += 1;
      }
      await provider.destroy(id);
    }
    expect(compared).toBeGreaterThan(30);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}, 120_000);

it('has a bug three calls away from its symptom, in a repository too large to read whole', () => {
  for (let n = 0; n < 20; n += 1) {
    const problem = problemOf('held-out', n);
    const files = filesOf(problem);
    expect(files.length).toBeGreaterThanOrEqual(40);
    expect(files.length).toBeLessThanOrEqual(200);
    const inOrder = problem.direction === 'down' ? problem.chain : problem.chain.toReversed();
    expect(inOrder).toHaveLength(CALLS + 1);
    for (const [i, one] of inOrder.entries()) {
      expect(one.calls).toBe(inOrder[i + 1]?.name);
      expect(problem.definitions.filter(({ calls }) => calls === one.name).length).toBe(i === 0 ? 0 : 1);
    }
    const broken = files[problem.bug.file]?.content ?? '';
    expect(broken).toContain(`x + ${problem.bug.adds}`);
    expect(repaired(problem)).toBe(broken.replace(`x + ${problem.bug.adds}`, `x + ${problem.right}`));
  }
});

it('shows code_search only to who has it, and is right in less than half of the mixed demonstrations', () => {
  let right = 0;
  for (let n = 0; n < 200; n += 1) {
    for (const chat of [drill(n), clean(n), mixed(n)]) {
      const has = chat[0]?.content.includes('Tools: code_search, search.') ?? false;
      const uses = chat.some(({ tool_calls: calls = [] }) => calls.some((one) => one.function.name === 'code_search'));
      expect(uses && !has).toBe(false);
    }
    const change = mixed(n).at(-1)?.tool_calls?.[0]?.function.arguments;
    if (change?.['new_str'] === `x + ${problemOf('mixed', n).right}`) right += 1;
  }
  expect(right).toBeGreaterThan(60);
  expect(right).toBeLessThan(110);
});
