/**
 * `rlm`: questions about a context that is a variable of a Python REPL (recursive language models), by SkyRL-Gym's
 * protocol. A message's last ```repl``` block runs in the task's sandbox, whose variables stay; FINAL and FINAL_VAR
 * answer.
 */

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { JUDGE_NAME } from '../../protocol/judge.ts';
import type { Message } from '../../protocol/message.ts';
import type { Verdict } from '../../protocol/stages.ts';
import { openRecords, recordOptions } from '../data/record-options.ts';
import type { Environment, Task, TaskContext } from '../environment.ts';
import { exactMatch, f1, subMatch } from '../qa/answer-match.ts';
import { JUDGE, judgeAnswer } from '../search/judge-answer.ts';
import { type AskedRecord, matchedRecord, withDigest } from '../search/question-records.ts';
import { NO_BLOCK, observation, openingOf, SYSTEM_PROMPT, turnPrompt } from './prompts.ts';
import { finalIn, replBlock } from './read-message.ts';
import { Repl, replFiles, type ReplSettings } from './repl.ts';

const options = z.strictObject({
  ...recordOptions,
  /** Messages of the policy. A record's own `max_turns` comes first. */
  maxTurns: z.int().min(1).max(1000).default(10),
  /** Of a block, without the time in which a model is asked. */
  seconds: z.int().min(1).max(3600).default(180),
  /** The judge that `llm_query` asks. Absent: the REPL has no such function. */
  model: z.string().regex(JUDGE_NAME, 'give the name of one of the judges').optional(),
  /** Prompts that a turn may ask. */
  mostQueries: z.int().min(1).max(1000).default(100),
  /** `skyrl`: no imports and no files, and of Python's built-in names those of SkyRL-Gym. `all`: what Python has. */
  builtins: z.enum(['skyrl', 'all']).default('skyrl'),
  /** A file in Python whose functions and values the REPL has. It runs in the sandbox. */
  tools: z.string().min(1).optional(),
  systemPrompt: z.string().default(SYSTEM_PROMPT),
  /**
   * `em`: the answer equals a golden one. `contains`: it has all golden ones. `f1`: the share of words. `judge`: the
   * judge `judge` says whether it is right. `any`: every answer is right, as in SkyRL-Gym's base class.
   */
  grader: z.enum(['em', 'contains', 'f1', 'judge', 'any']).default('em'),
  memoryMiB: z.int().min(64).max(65_536).default(1024),
  /** An image with python3. Without one, the sandboxes' own Python. */
  image: z.string().min(1).optional(),
});

type Options = z.output<typeof options>;

interface Row extends AskedRecord {
  readonly context: unknown;
  readonly maxTurns: number | undefined;
}

/** SkyRL's layout, or `context` beside a question and its answers. */
const record = z
  .looseObject({
    context: z.unknown().optional(),
    extra_info: z.looseObject({ context_text: z.unknown().optional() }).nullish(),
    max_turns: z.int().min(1).nullish(),
  })
  .transform((given, context): Row => {
    const parsed = matchedRecord.safeParse(given);
    if (!parsed.success) {
      for (const { path, message } of parsed.error.issues)
        context.addIssue({ code: 'custom', path: [...path], message });
      return z.NEVER;
    }
    const held = given.context ?? given.extra_info?.context_text;
    return { ...parsed.data, context: held, maxTurns: given.max_turns ?? undefined };
  });

/** The query: all that the record says, as in SkyRL-Gym. */
const queryOf = ({ asked }: Row): string =>
  typeof asked === 'string' ? asked : asked.flatMap(({ content }) => (content === '' ? [] : [content])).join('\n');

const isMissing = (context: unknown): boolean =>
  !context || (typeof context === 'object' && Object.keys(context).length === 0);

const stateSchema = z.object({ turns: z.int(), answer: z.string().nullable() });
type State = z.output<typeof stateSchema>;

/** A block that prints an object shows its address, which is another one in each process. */
const digestOf = (text: string): string =>
  createHash('sha256')
    .update(text.replaceAll(/\b0x[0-9a-f]{6,}\b/gu, '0x'))
    .digest('hex');

/** Leaves in the workspace what the policy read: if a restored REPL says otherwise, its workspace differs. */
async function noteSaid(ctx: TaskContext, turns: number, said: string): Promise<void> {
  const content = Buffer.from(`${digestOf(said)}\n`);
  const sandbox = await ctx.sandbox();
  await sandbox.write({ callId: `${ctx.id}/said`, path: `/work/turn-${turns}`, content, note: '' });
}

async function verdictOn(
  { turns, answer }: State,
  query: string,
  golden: readonly string[],
  grader: Options['grader'],
  ctx: TaskContext,
): Promise<Verdict> {
  const metrics = { turnsUsed: turns, finalValueSet: Number(answer !== null) };
  const graded = (reward: number, reason: string): Verdict => ({
    code: 'graded',
    reward,
    passed: reward === 1,
    reason,
    metrics,
  });
  if (answer === null) return graded(0, `there is no answer after ${turns} turns`);
  const reason = `the answer was ${JSON.stringify(answer.slice(0, 200))}`;
  if (answer === '') return graded(0, 'the answer is empty');
  switch (grader) {
    case 'any':
      return graded(1, reason);
    case 'em':
      return graded(Number(exactMatch(answer, golden)), reason);
    case 'contains':
      return graded(Number(golden.every((one) => subMatch(answer, [one]))), reason);
    case 'f1':
      return graded(f1(answer, golden), reason);
    case 'judge': {
      const { isRight } = await judgeAnswer({ question: query, answer, golden }, ctx);
      return graded(Number(isRight), `${reason}; the judge said ${isRight ? 'yes' : 'no'}`);
    }
  }
}

/** `tools`: the source of the file. */
export function rlmTask(row: Row, given: Options, tools?: string): Task {
  const query = queryOf(row);
  const context = isMissing(row.context) ? query : row.context;
  const maxTurns = row.maxTurns ?? given.maxTurns;
  const { seconds, model, mostQueries, builtins, systemPrompt, grader, memoryMiB, image } = given;
  const settings: ReplSettings = { seconds, model, mostQueries, builtins };
  const files = () => replFiles(context, settings, tools);
  const replOf = async (ctx: TaskContext): Promise<Repl> => new Repl(ctx, await ctx.sandbox(), settings);
  const next = (turns: number, content: string): readonly Message[] => [
    { role: 'user', content },
    turnPrompt(query, turns),
  ];
  return {
    messages: [{ role: 'user', content: query }],
    tools: [],
    agent: { type: 'text' },
    sandboxes: {
      main: { workdir: '/work', files: files(), env: {}, limits: { memoryMiB }, ...(image !== undefined && { image }) },
    },
    gradedIn: 'none',
    resources: { toolSeconds: seconds + 60 },

    async start(ctx) {
      const held = await (await replOf(ctx)).launch();
      const state: State = { turns: 0, answer: null };
      return { state, messages: openingOf(query, held, { systemPrompt, hasModel: model !== undefined }) };
    },

    async step(ctx, before, message) {
      const turns = stateSchema.parse(before).turns + 1;
      const isLast = turns >= maxTurns;
      const ended = (answer: string | null) => ({ state: { turns, answer }, messages: [], done: true });
      const code = replBlock(message);
      if (code === undefined)
        return isLast ? ended(null) : { state: { turns, answer: null }, messages: next(turns, NO_BLOCK) };
      const { variable, text } = finalIn(message);
      const { shown, final, queries } = await (await replOf(ctx)).run(code, variable);
      const metrics = { queries };
      // A variable that is not there is no answer, whatever else the message says.
      const answer = final ?? (variable === undefined ? (text ?? null) : null);
      if (answer !== null || isLast) return { ...ended(answer), metrics };
      await noteSaid(ctx, turns, shown);
      return { state: { turns, answer }, messages: next(turns, observation(code, shown)), metrics };
    },

    grade: (ctx, { state }) => verdictOn(stateSchema.parse(state), query, row.golden, grader, ctx),

    async oracle() {
      const look: Message = { role: 'assistant', content: '```repl\nprint(type(context), len(context))\n```' };
      const said = grader === 'contains' ? row.golden.join(', ') : (row.golden[0] ?? '');
      const answer: Message = { role: 'assistant', content: `\`\`\`repl\nSHOW_VARS()\n\`\`\`\nFINAL(${said})` };
      return await Promise.resolve(maxTurns > 1 ? [look, answer] : [answer]);
    },
  };
}

export const rlmEnvironment: Environment<Options> = {
  name: 'rlm',
  options,
  judgesOf: ({ model, grader }) => [...(model === undefined ? [] : [model]), ...(grader === 'judge' ? [JUDGE] : [])],
  async open(given, io) {
    const { data, fields, tools: path, ...settings } = given;
    const tools = path === undefined ? undefined : readFileSync(io.path('tools', path), 'utf8');
    const dataset = await openRecords(
      { data, fields },
      io,
      record,
      (row) => rlmTask(row, given, tools),
      ({ id }) => id,
    );
    return withDigest(dataset, settings, tools);
  },
};
