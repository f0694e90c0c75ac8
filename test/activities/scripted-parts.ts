/**
 * A tokenizer, an engine, sandboxes and an environment that do what a test scripts, and record the calls that they get.
 */

import type { Backends } from '../../activities/backends/backend.ts';
import { embeddedOnly } from '../../activities/backends/embedded-backend.ts';
import { createHash } from 'node:crypto';
import type { PolicyTokenizer } from '../../activities/generate/sample-ids.ts';
import type { Message } from '../../protocol/message.ts';
import { type ExecCall, type Sandbox, SandboxLost, type SandboxProvider } from '../../sandboxes/sandbox.ts';
import { type Dataset, type Environment, MAIN, type Task } from '../../tasks/environment.ts';
import type { Verdict } from '../../protocol/stages.ts';
import type { Engine } from '../../trainer/engine.ts';
import type { UpdateRequest } from '../../trainer/update-request.ts';
import type { GenerateRequest, GenerateResult } from '../../trainer/generate-request.ts';
import type { GenerateCost } from '../../protocol/sampling.ts';
import type { UpdateMetrics } from '../../protocol/algorithm.ts';

const END = 0;
/** Ids from here on are second ids of characters: text that is decoded and encoded again gets other ids. */
const ALIAS = 1000;

const codeOf = (character: string) => character.codePointAt(0) ?? 0;

/** An id per character; `$` ends a turn. `stable: false`: a template that drops the policy's earlier turns. */
export function characterTokenizer({ stable = true } = {}): PolicyTokenizer {
  const line = (message: Message, isLast: boolean) => {
    const dropped = !stable && !isLast && message.role === 'assistant';
    return `${message.role}:${dropped ? '' : message.content}$`;
  };
  return {
    encode: (text) => Array.from(text, (character) => (character === '$' ? END : codeOf(character))),
    decode: (ids) => ids.map((id) => (id === END ? '$' : String.fromCodePoint(id % ALIAS))).join(''),
    renderChat: (messages, _tools, { addGenerationPrompt }) => {
      const lines = messages.map((message, i) => line(message, i === messages.length - 1));
      return [...lines, ...(addGenerationPrompt ? ['assistant:'] : [])].join('\n');
    },
    endOfTurn: '$',
    chatTemplate: '<function=',
    stopTokenIds: [END],
  };
}

/** A sampled answer with the text `text`, in ids that no encoder would choose. */
export function saying(text: string, finishReason: GenerateResult['finishReason'] = 'stop'): GenerateResult {
  const ids = Array.from(text, (character) => codeOf(character) + ALIAS);
  const tokens = finishReason === 'stop' ? [...ids, END] : ids;
  return { tokens, logprobs: tokens.map((_, i) => -(i + 1) / 8), finishReason };
}

export const call = (command: string) => `<function=bash>\n<parameter=command>${command}</parameter>\n</function>`;
export const finishCall = '<function=finish>\n</function>';

export const someMetrics: UpdateMetrics = {
  loss: 0.5,
  kl: 0.25,
  entropy: 1.5,
  gradNorm: 0.75,
  clipFraction: 0,
  trainedTokens: 7,
  logprobDrift: { meanAbs: 0, maxAbs: 0.125 },
  metrics: { 'policy/ratio_mean': 1 },
  sha256: 'abc',
};

/** Answers each request by the next of `answers`; the functions may wait, or throw. */
export class ScriptedEngine implements Engine {
  readonly requests: GenerateRequest[] = [];
  readonly signals: Array<AbortSignal | undefined> = [];
  readonly updates: UpdateRequest[] = [];
  answers: Array<GenerateResult | (() => Promise<GenerateResult>)> = [];
  /** Receives every call, if it is set. */
  cost: GenerateCost | undefined;
  onUpdate: () => Promise<UpdateMetrics> = async () => someMetrics;

  async generate(
    request: GenerateRequest,
    signal?: AbortSignal,
    onCost?: (cost: GenerateCost) => void,
  ): Promise<GenerateResult> {
    const answer = this.answers[this.requests.length];
    this.requests.push(request);
    this.signals.push(signal);
    if (!answer) throw new Error(`The engine was asked ${this.requests.length} times`);
    if (this.cost) onCost?.(this.cost);
    return typeof answer === 'function' ? answer() : answer;
  }

  update(request: UpdateRequest): Promise<UpdateMetrics> {
    this.updates.push(request);
    return this.onUpdate();
  }

  async close(): Promise<void> {
    await Promise.resolve();
  }
}

/** Sandboxes as a set of names; a command's output is `ran COMMAND`. */
export class ScriptedProvider implements SandboxProvider {
  readonly name = 'scripted';
  readonly live = new Set<string>();
  readonly log: string[] = [];
  /** Commands of tools, in all sandboxes; one that a sandbox has run is answered from its journal. */
  readonly calls: ExecCall[] = [];
  /** What each sandbox ran, by call: its state is this and nothing else. */
  readonly #journals = new Map<string, Map<string, string>>();
  /** A sandbox in which the same commands have other results. */
  drifts: (id: string) => boolean = () => false;
  /** What every sandbox waits for before it is made. */
  prepares: (onLine: (line: string) => void) => Promise<void> = () => Promise.resolve();
  /** Called when a sandbox was made, before `create` returns. */
  afterCreate: () => void | Promise<void> = () => undefined;
  /** Runs before each command. */
  beforeExec: (call: ExecCall) => void = () => undefined;
  /** A returned text is the command's output. */
  duringExec: () => Promise<string | void> = () => Promise.resolve();

  prepare(_spec: unknown, onLine: (line: string) => void): Promise<void> {
    return this.prepares(onLine);
  }

  async create({ id }: { readonly id: string }): Promise<Sandbox> {
    this.log.push(`create ${id}`);
    if (!this.live.has(id)) this.#journals.set(id, new Map());
    this.live.add(id);
    await this.afterCreate();
    return this.#sandbox(id);
  }

  async connect(id: string): Promise<Sandbox> {
    this.log.push(`connect ${id}`);
    if (!this.live.has(id)) throw new SandboxLost(`${id} is gone`);
    return this.#sandbox(id);
  }

  async destroy(id: string): Promise<void> {
    this.log.push(`destroy ${id}`);
    this.live.delete(id);
  }

  list(): Promise<string[]> {
    return Promise.resolve([...this.live]);
  }

  #sandbox(id: string): Sandbox {
    return {
      id,
      exec: async (asked) => {
        const answer = {
          exitCode: 0,
          signal: null,
          droppedBytes: 0,
          timedOut: false,
          outOfMemory: false,
          durationMs: 1,
        };
        const journal = this.#journals.get(id) ?? new Map<string, string>();
        const state = [...journal.values(), ...(this.drifts(id) ? ['drift'] : [])].join('\n');
        if (asked.command.includes('sha256sum'))
          return { ...answer, output: createHash('sha256').update(state).digest('hex') };
        if (!journal.has(asked.callId)) {
          this.beforeExec(asked);
          this.calls.push(asked);
          const said = await this.duringExec();
          journal.set(asked.callId, asked.command);
          if (said !== undefined) return { ...answer, output: said };
        }
        return { ...answer, output: `ran ${asked.command}${this.drifts(id) ? ' on other files' : ''}\n` };
      },
      write: async ({ note }) => ({ note }),
      written: async () => undefined,
      read: async () => ({ kind: 'missing' }),
      renew: async (seconds) => void this.log.push(`renew ${id} ${seconds}`),
      close: () => void this.log.push(`close ${id}`),
    };
  }
}

/** Its grader returns the next of `verdicts`, and after those that everything passed. */
export class ScriptedEnvironment implements Environment {
  readonly name: string;
  readonly graded: Array<{ readonly artifact: string; readonly sandbox: string }> = [];
  verdicts: Array<Verdict | Error> = [];
  /** The number of each attempt, and how many of the first ones fail. */
  readonly collected: number[] = [];
  collectFailures = 0;

  constructor(name: string) {
    this.name = name;
  }

  async open(): Promise<Dataset> {
    return await Promise.resolve({
      digest: this.name,
      splits: { train: 1e9, 'held-out': 1e9 },
      load: async (split: string, index: number) =>
        await Promise.resolve(this.taskOf(`${this.name}-${split}-${index}`)),
    });
  }

  private taskOf(key: string): Task {
    return {
      family: Number(key.slice(key.lastIndexOf('-') + 1)) % 2 === 0 ? 'even' : 'odd',
      messages: [{ role: 'user', content: `Solve ${key}.` }],
      tools: ['bash', 'search', 'finish'],
      sandboxes: {
        [MAIN]: { workdir: '/work', files: [], env: {}, limits: { memoryMiB: 1, processes: 1, diskMiB: 1 } },
      },
      collect: async (ctx) => this.collect(key, await ctx.sandbox(), ctx.provider, ctx.execution),
      grade: ({ provider, id }, { artifact }) => this.grade(key, artifact, provider, id),
    };
  }

  collect(task: string, _sandbox: Sandbox, _provider: SandboxProvider, execution = 1): Promise<Uint8Array> {
    this.collected.push(execution);
    if (this.collected.length <= this.collectFailures) return Promise.reject(new Error('git was cut off'));
    return Promise.resolve(Buffer.from(`diff of ${task}`));
  }

  async grade(_task: string, artifact: Uint8Array, _provider: SandboxProvider, sandbox: string): Promise<Verdict> {
    this.graded.push({ artifact: Buffer.from(artifact).toString(), sandbox });
    const verdict = this.verdicts.shift() ?? { code: 'graded' as const, reward: 1, passed: true, reason: '' };
    if (verdict instanceof Error) throw verdict;
    return verdict;
  }
}

/** The embedded backend around an engine, for updates. */
export function trainingBy(engine: Engine): Backends {
  const unread = () => Promise.reject(new Error('an update reads no tokenizer'));
  return embeddedOnly({ engine, tokenizerOf: unread, digestOf: unread }).backends;
}
