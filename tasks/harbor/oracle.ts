/**
 * The reference solution as messages: its files are written and its script is run by calls of `bash`, as a policy's.
 */

import type { Message } from '../../protocol/message.ts';
import { filesIn } from './folder.ts';
import { shellLine } from './compose.ts';
import type { Step, TaskFolder } from './read-task.ts';
import { filledAll, type Variables } from './templates.ts';

/** Characters of base64 in one command. */
const CHUNK = 48_000;

const bash = (command: string): Message => ({
  role: 'assistant',
  content: '',
  toolCalls: [{ name: 'bash', arguments: { command } }],
});
export const FINISH: Message = { role: 'assistant', content: '', toolCalls: [{ name: 'finish', arguments: {} }] };

/** Writes a file by commands of bounded length. */
function written(path: string, content: Buffer): Message[] {
  const encoded = content.toString('base64');
  const parts = encoded.length === 0 ? [''] : (encoded.match(new RegExp(`.{1,${CHUNK}}`, 'gu')) ?? []);
  const folder = path.slice(0, path.lastIndexOf('/'));
  const target = shellLine([path]);
  return parts.map((part, at) =>
    bash(`mkdir -p ${shellLine([folder])} && echo '${part}' | base64 -d ${at === 0 ? '>' : '>>'}${target}`),
  );
}

/** `undefined` if the step has no solution. */
function solved({ solution }: Step, env: Variables, workdir: string): Message[] | undefined {
  if (solution === undefined) return undefined;
  if ('lines' in solution) return solution.lines.map(bash);
  const files = filesIn(solution.folder).filter(
    ({ path }) => solution.script === 'solve.sh' || path === solution.script,
  );
  const assigned = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  const run = `cd ${shellLine([workdir])} && env ${shellLine(assigned)} bash /solution/${solution.script} </dev/null`;
  return [...files.flatMap(({ path, content }) => written(`/solution/${path}`, content)), bash(run)];
}

/** The messages that solve the task, or as many of its steps as have a solution. */
export function oracleOf(task: TaskFolder, variables: Variables, workdir: string): Message[] {
  const env = filledAll(task.toml.solution.env, variables, `${task.name}: solution.env`);
  const messages: Message[] = [];
  for (const step of task.steps) {
    const own = solved(step, env, workdir);
    if (own === undefined) break;
    messages.push(
      ...own,
      ...(task.isMultiStep ? [{ role: 'assistant' as const, content: `Step ${step.name} is done.` }] : []),
    );
  }
  return task.isMultiStep ? messages : [...messages, FINISH];
}
