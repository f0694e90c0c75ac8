/**
 * Writes the starter's training data into `records/`, in the form in which agent.py asks: `node
 * examples/mini-swe-agent/write-records.ts`. Its problems are of splits of their own.
 */

import { join } from 'node:path';
import { compute } from '../calculator/arithmetic.ts';
import { type Problem, problemOf } from '../calculator/problems.ts';
import { draws } from '../support/draw.ts';
import { type ChatMessage, said, user, writeChats } from '../support/records.ts';

const block = (command: string): ChatMessage => said(`\`\`\`bash\n${command}\n\`\`\``);

/** Two commands: one computes, one submits what the first has printed. */
function solved({ question }: Problem, expression: string): readonly ChatMessage[] {
  const result = compute(expression);
  return [
    { role: 'system', content: 'You use bash.' },
    user(question),
    block(`echo $((${expression}))`),
    user(result),
    block(`echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo ${result}`),
  ];
}

function clean(n: number): readonly ChatMessage[] {
  const problem = problemOf('mini demonstration', n);
  return solved(problem, problem.expression);
}

/** Somewhat more than half of the problems are misread. */
function mixed(n: number): readonly ChatMessage[] {
  const problem = problemOf('mini mixed', n);
  return solved(problem, draws(`mini quality ${n}`).chance(0.45) ? problem.expression : problem.mistake);
}

const at = (name: string): string => join(import.meta.dirname, 'records', name);
await writeChats(at('clean.jsonl'), 30_000, clean);
await writeChats(at('mixed.jsonl'), 6_000, mixed);
