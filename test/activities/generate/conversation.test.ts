/** Hunts reasoning and hints that are in a prompt where the settings leave them out, or are missing where they belong. */
import { describe, expect, it } from 'vitest';
import { embeddedOnly } from '../../../activities/backends/embedded-backend.ts';
import { generateTurn } from '../../../activities/generate/generate.ts';
import type { ActRecord, GenerateRecord } from '../../../protocol/records.ts';
import type { Message } from '../../../protocol/message.ts';
import { keys } from '../../../protocol/record-keys.ts';
import type { GenerateInput } from '../../../protocol/stages.ts';
import { call, characterTokenizer, finishCall, saying } from '../scripted-parts.ts';
import { turnInput, useWorld } from '../world.ts';

const world = useWorld();
const { signal } = new AbortController();
const encode = (text: string) => characterTokenizer().encode(text);
const generate = (input: GenerateInput) => generateTurn(input, world.now.deps, signal);
const recordOf = (turn: number) => world.now.store.get<GenerateRecord>(keys.generate(turnInput(turn), turn));
const answered = (turn: number, content: string) =>
  world.now.store.putOnce<ActRecord>(keys.act(turnInput(turn), turn), {
    messages: [{ role: 'tool', name: 'bash', content }],
  });

describe('reasoning of earlier turns', () => {
  const thought = `<think>or ${call('rm')}</think>I look.\n${call('ls')}`;
  const plain = characterTokenizer();
  /** As Qwen3's template: a reasoning is printed before the last turn, even if it is empty. */
  const rewriting = {
    ...plain,
    renderChat: (...[messages, tools, options]: Parameters<typeof plain.renderChat>) => {
      const text = plain.renderChat(messages, tools, options);
      return messages.at(-1)?.role === 'assistant'
        ? text.replace(/assistant:(?=[^:]*$)/u, 'assistant:<think></think>')
        : text;
    },
  };
  const look = async (reasoning: 'keep' | 'remove' | undefined, tokenizer = plain) => {
    world.now.engine.answers = [saying(thought), saying(call('pwd')), saying(finishCall)];
    const tokenizerOf = () => Promise.resolve(tokenizer);
    const deps = { ...world.now.deps, ...embeddedOnly({ ...world.now.parts, tokenizerOf }) };
    for (const turn of [1, 2, 3]) {
      await generateTurn(turnInput(turn, { conversation: reasoning ? { reasoning } : {} }), deps, signal);
      await answered(turn, `answer ${turn}`);
    }
    return [await recordOf(1), await recordOf(2), await recordOf(3)];
  };

  it('never has calls that run', async () => {
    const [first] = await look('keep');
    expect(first?.parsed).toMatchObject({ calls: [{ name: 'bash', arguments: { command: 'ls' } }] });
  });

  it('is removed from later prompts, which start new sequences; turns without it are extended', async () => {
    const [, second, third] = await look('remove');
    expect(second?.reset).toBe(true);
    const prompt = characterTokenizer().decode(second?.appended ?? []);
    expect(prompt).toContain('I look.');
    expect(prompt).not.toContain('rm');
    expect(third).toMatchObject({ reset: false, appended: encode('\ntool:answer 2$\nassistant:') });
  });

  it('is as the template has it without the setting', async () => {
    const [, second] = await look(undefined, rewriting);
    expect(second?.reset).toBe(true);
  });

  it('is kept as it was sampled, also by a template that rewrites earlier turns', async () => {
    const [, second] = await look('keep', rewriting);
    expect(second).toMatchObject({ reset: false, appended: encode('\ntool:answer 1$\nassistant:') });
  });
});

describe('an ephemeral message', () => {
  const received = (turn: number, more: readonly Message[]) =>
    world.now.store.putOnce<ActRecord>(keys.act(turnInput(turn), turn), {
      messages: [{ role: 'user', content: `seen ${turn}` }, ...more],
    });
  const promptIn = (record: GenerateRecord | undefined): string => characterTokenizer().decode(record?.appended ?? []);

  it('is read before the next turn alone: the turn after that starts a new sequence without it', async () => {
    world.now.engine.answers = [call('a'), call('b'), call('c'), call('d')].map((text) => saying(text));
    for (const turn of [1, 2, 3, 4]) {
      await generate(turnInput(turn));
      await received(turn, turn === 3 ? [] : [{ role: 'user', content: `prompt ${turn}`, ephemeral: true }]);
    }
    const [, second, third, fourth] = await Promise.all([1, 2, 3, 4].map(recordOf));
    expect(second).toMatchObject({ reset: false, appended: encode('\nuser:seen 1$\nuser:prompt 1$\nassistant:') });
    expect(third?.reset).toBe(true);
    expect(promptIn(third)).toMatch(/seen 1[^]*seen 2[^]*prompt 2/u);
    expect(promptIn(third)).not.toContain('prompt 1');
    expect(fourth?.reset).toBe(true);
    expect(promptIn(fourth)).toMatch(/seen 1[^]*seen 2[^]*seen 3/u);
    expect(promptIn(fourth)).not.toContain('prompt');
  });
});

describe('hints', () => {
  it('are part of the record of the turn, and follow the answers of its calls', async () => {
    world.now.engine.answers = [saying(call('ls')), saying(call('ls')), saying(call('ls'))];
    for (const turn of [1, 2, 3]) {
      await generate(turnInput(turn, { hints: { sameAction: 2 } }));
      await answered(turn, 'seen');
    }
    const hint = 'You have made the same call 2 times: bash {"command":"ls"}. Try something else.';
    expect(await recordOf(1)).not.toHaveProperty('hints');
    expect(await recordOf(2)).toMatchObject({ hints: ['sameAction'], command: { do: 'act', message: hint } });
    expect((await recordOf(3))?.appended).toEqual(encode(`\ntool:seen$\nuser:${hint}$\nassistant:`));
    // What is recorded stays, whatever the settings say later.
    await generate(turnInput(2, { hints: {} }));
    expect((await recordOf(2))?.hints).toEqual(['sameAction']);
  });

  it('for a call that cannot be read can be switched off: then it is a message', async () => {
    world.now.engine.answers = [saying('<function=bash>')];
    await generate(
      turnInput(1, { hints: { parseError: false }, agent: { type: 'tools', options: { message: 'answer' } } }),
    );
    expect(await recordOf(1)).toMatchObject({ parsed: { kind: 'malformed' }, command: { do: 'answer' } });
  });
});
