/** Hunts messages of a rollout that are printed twice, out of order, or never, and text that controls the terminal. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, expect, it } from 'vitest';
import type { ActRecord, GenerateRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { TurnPrinter } from '../../../cli/rollout/show-turns.ts';
import { openSqliteStore } from '../../../store/sqlite-store.ts';
import type { Store } from '../../../store/store.ts';

const dir = mkdtempSync(join(tmpdir(), 'longhaul-turns-'));
let store: Store;
let said: string[];
beforeEach(() => {
  store = openSqliteStore(mkdtempSync(join(dir, 'store-')));
  said = [];
});
afterEach(async () => {
  await store.close();
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const at = (attempt: number) => ({ run: 'r', rollout: 'x', attempt, task: 't-train-0' });
const common = { version: 0, appended: [1], reset: false, sampled: [1, 2], logprobs: [0, 0] } as const;
const calls = (attempt: number, turn: number, command: string) =>
  store.putOnce<GenerateRecord>(keys.generate(at(attempt), turn), {
    ...common,
    end: 'stop',
    parsed: { kind: 'calls', content: '', calls: [{ name: 'bash', arguments: { command } }] },
  });
const acts = (attempt: number, turn: number, content: string) =>
  store.putOnce<ActRecord>(keys.act(at(attempt), turn), { messages: [{ role: 'tool', name: 'bash', content }] });

it('prints each message once, as it comes', async () => {
  const printer = new TurnPrinter('x', store, (line) => void said.push(line));
  printer.prompt([{ role: 'user', content: 'mend it' }]);
  await calls(1, 1, 'ls');
  await printer.print(1);
  await printer.print(1);
  await acts(1, 1, 'a.py');
  await calls(1, 2, 'cat a.py');
  await printer.print(1);
  await printer.print(1);
  expect(said).toEqual([
    '── user\nmend it',
    '── turn 1 · 2 tokens\n→ bash\n  command: ls',
    '── turn 1 · observation\na.py',
    '── turn 2 · 2 tokens\n→ bash\n  command: cat a.py',
  ]);
});

it('a hint is printed as the answer to a turn without a call, and a cut turn is marked', async () => {
  await store.putOnce<GenerateRecord>(keys.generate(at(1), 1), {
    ...common,
    end: 'length',
    parsed: { kind: 'no-call', content: 'well' },
    command: { do: 'reply', message: 'call a tool' },
  });
  await new TurnPrinter('x', store, (line) => void said.push(line)).print(1);
  expect(said).toEqual(['── turn 1 · 2 tokens · length\nwell', '── turn 1 · user\ncall a tool']);
});

it('a turn of a chat endpoint has as many tokens as its server counted, and none if it does not report them', async () => {
  const chat = (turn: number, usage: { promptTokens: number; completionTokens: number } | null) =>
    store.putOnce<GenerateRecord>(keys.generate(at(1), turn), {
      ...common,
      sampled: [],
      logprobs: [],
      end: 'stop',
      parsed: { kind: 'no-call', content: 'well' },
      chat: { turn: { content: 'well', toolCalls: [] }, usage },
    });
  await chat(1, { promptTokens: 10, completionTokens: 7 });
  await chat(2, null);
  await new TurnPrinter('x', store, (line) => void said.push(line)).print(1);
  expect(said).toEqual(['── turn 1 · 7 tokens\nwell', '── turn 2\nwell']);
});

it('a new attempt is printed from its first turn, with a line that names it', async () => {
  const printer = new TurnPrinter('x', store, (line) => void said.push(line));
  await calls(1, 1, 'ls');
  await printer.print(1);
  await calls(2, 1, 'pwd');
  await printer.print(2);
  expect(said.slice(1)).toEqual([
    expect.stringMatching(/attempt 2: the sandbox was lost/),
    '── turn 1 · 2 tokens\n→ bash\n  command: pwd',
  ]);
});

it('control characters of policies and tools are written out', async () => {
  await calls(1, 1, 'echo \u001b[2J');
  await acts(1, 1, 'a\tb\nc\u0012\r');
  await new TurnPrinter('x', store, (line) => void said.push(line)).print(1);
  expect(said[0]).toContain('echo \\x1b[2J');
  expect(said[1]).toBe('── turn 1 · observation\na\tb\nc\\x12\\x0d');
});

it("a sub-agent's turns are named, and its answer is told to its caller when it has ended", async () => {
  const put = (turn: number, over: Partial<GenerateRecord>) =>
    store.putOnce<GenerateRecord>(keys.generate(at(1), turn), {
      ...common,
      end: 'stop',
      parsed: { kind: 'no-call', content: `text ${turn}` },
      ...over,
    });
  const agentPath = ['helper@1'];
  const messages = [{ role: 'user', content: 'Help.' }] as const;
  const printer = new TurnPrinter('x', store, (line) => void said.push(line));
  await put(1, {
    parsed: { kind: 'calls', content: '', calls: [{ name: 'delegate', arguments: { agent: 'helper' } }] },
    command: { do: 'delegate', name: 'helper', agent: { type: 'text' }, tools: [], messages, call: 0 },
  });
  await printer.print(1);
  await put(2, { agentPath, command: { do: 'summarise', summary: 'half' } });
  await printer.print(1);
  await put(3, { agentPath, segment: 2, command: { do: 'answer' } });
  await put(4, { command: { do: 'answer' } });
  await printer.print(1);
  expect(said).toEqual([
    '── turn 1 · 2 tokens\n→ delegate\n  agent: helper',
    '── turn 2 · helper · user\nHelp.',
    '── turn 2 · helper · 2 tokens\ntext 2',
    '── turn 3 · helper, segment 2 · user\nSummary of the work so far:\nhalf\n\nContinue from there.',
    '── turn 3 · helper, segment 2 · 2 tokens\ntext 3',
    '── turn 3 · observation\ntext 3',
    '── turn 4 · 2 tokens\ntext 4',
  ]);
});
