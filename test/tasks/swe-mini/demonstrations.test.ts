/** Demonstrations replayed in real sandboxes: their observations equal the real tools' output, byte for byte. */

import { describe, expect, it } from 'vitest';

import type { Message } from '../../../protocol/message.ts';
import { NOT_FINISHED } from '../../../agents/tools/finish.ts';
import { nameOfTool } from '../../../agents/tools/toolbox.ts';
import { runToolCall } from '../../../agents/tools/run-tool-call.ts';
import type { Sandbox } from '../../../sandboxes/sandbox.ts';
import { type Demonstration, demonstrate, MIX } from '../../../tasks/swe-mini/demonstrations.ts';
import { FAMILIES } from '../../../tasks/swe-mini/draft.ts';
import * as one from './one-task.ts';
import { openBench } from '../../sandboxes/harness.ts';

const { provider } = await openBench();

/** The conversation with the real tools' answers to the demonstration's calls. */
async function replay({ taskId, messages }: Demonstration, sandbox: Sandbox): Promise<Message[]> {
  const { messages: start, tools } = await one.taskOf(taskId);
  const replayed: Message[] = [...start];
  let calls = 0;
  for (const message of messages) {
    if (message.role !== 'assistant') continue;
    replayed.push(message);
    const answers: Message[] = [];
    let failed = false;
    for (const call of message.toolCalls ?? []) {
      if (call.name === 'finish' && !failed) return replayed;
      calls += 1;
      const { content, refused } =
        call.name === 'finish'
          ? { content: NOT_FINISHED }
          : await runToolCall(call, tools.map(nameOfTool), sandbox, { callId: `call-${calls}`, timeoutMs: 20_000 });
      failed ||= refused === true;
      answers.push({ role: 'tool', name: call.name, content });
    }
    replayed.push(...answers);
  }
  return replayed;
}

const uses = (demonstration: Demonstration, name: string): boolean =>
  demonstration.messages.some((message) => message.role === 'tool' && message.name === name);

/** True if a slip of the demonstration got this answer. */
const answered = ({ messages, slips }: Demonstration, words: string): boolean =>
  slips.some((i) => messages[i + 1]?.content.includes(words));

/**
 * A few of each kind: every family right and mistaken, a search, a test run, a turn of one call and of two, both kinds
 * of slips.
 */
function chosen(): Demonstration[] {
  const all = Array.from({ length: 400 }, (_, i) => demonstrate(`swe-mini-train-${i}`, 'mixed'));
  const first = (test: (demonstration: Demonstration) => boolean): Demonstration => {
    const found = all.find(test);
    if (found === undefined) throw new Error('the mix lacks a kind of demonstration');
    return found;
  };
  return [
    ...FAMILIES.flatMap((family) =>
      (['right', 'mistake'] as const).map((outcome) => first((d) => d.family === family && d.outcome === outcome)),
    ),
    first((d) => d.outcome === 'give-up'),
    first((d) => uses(d, 'search')),
    first((d) => uses(d, 'bash')),
    first((d) => d.outcome === 'right' && d.messages.every((m) => m.role !== 'assistant' || m.toolCalls?.length === 1)),
    first((d) => d.messages.some((m) => m.role === 'assistant' && (m.toolCalls?.length ?? 0) > 1)),
    first((d) => answered(d, 'does not exist')),
    first((d) => answered(d, 'is not in') && d.messages.some(({ content }) => content === NOT_FINISHED)),
    first((d) => answered(d, 'is not in') && d.messages.every(({ content }) => content !== NOT_FINISHED)),
  ];
}

describe('demonstrations', () => {
  it('match a real sandbox, and are graded according to their outcome', async () => {
    for (const [i, demonstration] of chosen().entries()) {
      const { taskId, messages, outcome, family } = demonstration;
      const sandbox = await provider.create(await one.specOf(taskId, `replay-${i}`));
      expect(await replay(demonstration, sandbox), taskId).toEqual(messages);
      const diff = await one.collect(taskId, sandbox, provider);
      sandbox.close();
      await provider.destroy(`replay-${i}`);
      const verdict = await one.grade(taskId, diff, provider, `graded-${i}`);
      expect(verdict, `${taskId} ${family} ${outcome}`).toMatchObject({
        code: 'graded',
        reward: outcome === 'right' ? 1 : 0,
      });
    }
  });

  it('are right when clean, and have the documented shares when mixed', () => {
    const ids = Array.from({ length: 4000 }, (_, i) => `swe-mini-train-${i}`);
    expect(ids.slice(0, 400).every((taskId) => demonstrate(taskId, 'clean').outcome === 'right')).toBe(true);
    const mixed = ids.map((taskId) => demonstrate(taskId, 'mixed'));
    for (const family of FAMILIES) {
      const own = mixed.filter((d) => d.family === family);
      const share = (outcome: string): number => own.filter((d) => d.outcome === outcome).length / own.length;
      // Four standard deviations of a share, with 500 samples.
      expect(Math.abs(share('right') - MIX[family].right)).toBeLessThan(0.09);
      expect(Math.abs(share('mistake') - MIX[family].mistake)).toBeLessThan(0.09);
    }
  });

  it('sometimes have slips, in turns that are answered with an error and are not learning targets', () => {
    const all = Array.from({ length: 1000 }, (_, i) => demonstrate(`swe-mini-train-${i}`, 'clean'));
    for (const { messages, slips } of all) {
      const errors = messages.flatMap(({ role }, i) =>
        role === 'assistant' && messages[i + 1]?.content.startsWith('Error: ') ? [i] : [],
      );
      expect(slips).toEqual(errors);
    }
    expect(all.filter(({ slips }) => slips.length > 0).length).toBeGreaterThan(100);
  });

  it('differ between variants, and never between calls', () => {
    const variants = Array.from({ length: 30 }, (_, i) => JSON.stringify(demonstrate('swe-mini-train-1', 'mixed', i)));
    expect(new Set(variants).size).toBeGreaterThan(2);
    expect(JSON.stringify(demonstrate('swe-mini-train-1', 'mixed', 3))).toBe(variants[3]);
  });
});
