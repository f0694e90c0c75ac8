/**
 * What the policy of an `rlm` task reads: what its REPL is, what the context is like, and before each turn an ephemeral
 * reminder. The roles and their order are SkyRL-Gym's.
 */

import type { Message } from '../../protocol/message.ts';
import type { Launched } from './repl.ts';

/** The place in a system prompt where the functions are listed. */
export const TOOLS_PLACE = '{custom_tools_section}';

const INTRODUCTION =
  'You answer a query about a context that may be far too long to be read at once. You work in a Python REPL that ' +
  'keeps its variables from turn to turn, and you are asked again after each turn until you give an answer.';
const CONTEXT =
  '`context`: a variable with everything that is known about the query. Look at its type and its parts first, and ' +
  'read all that matters.';
const ANSWERS =
  'Collect what you find in variables. When you know the answer, give it in one of these two ways, at the start of a ' +
  'line, in a message that also has a block:';

export const SYSTEM_PROMPT = `${INTRODUCTION}

The REPL has:
1. ${CONTEXT}
2. \`SHOW_VARS()\`: the variables that you have made so far.
3. \`print()\`: what you print is what you see in the next turn. Very long output is cut.
${TOOLS_PLACE}
To run code, write it in a block like this, one block in a message:
\`\`\`repl
print(type(context), len(context))
\`\`\`

${ANSWERS}
1. FINAL(the answer itself)
2. FINAL_VAR(name), the value of a variable that a block has made. A block may also call FINAL_VAR("name") itself.

Plan in a few words, and act in the same message.`;

const queries = (number: number): string =>
  `\n${number}. A language model that you can ask:
- \`llm_query(prompt)\` returns its answer, a str
- \`llm_query_batched(prompts)\` asks several at once, and returns a list of str
- \`rlm_query(prompt)\`, \`rlm_query_batched(prompts)\`: the same`;

/** The system prompt with the functions that the REPL has. */
function systemPrompt(template: string, hasModel: boolean, tools: readonly string[]): string {
  const model = hasModel ? queries(4) : '';
  const own = tools.length === 0 ? '' : `\n${hasModel ? 5 : 4}. Further functions and values:\n${tools.join('\n')}`;
  return template.replaceAll(TOOLS_PLACE, () => model + own);
}

/** What the policy reads before a turn. `turns`: those that it has made. */
export function turnPrompt(query: string, turns: number): Message {
  const before =
    turns === 0
      ? 'You have not looked at the context yet. Do that first, and give no answer in this turn.'
      : 'Above is what you have done in the REPL so far.';
  const content =
    `${before}\n\nThink step by step about how to answer the query with the REPL, whose variable \`context\` has ` +
    `the context: "${query}"\n\nWrite a \`\`\`repl\`\`\` block, and determine the answer. Your next action:`;
  return { role: 'user', content, ephemeral: true };
}

/** What the policy reads first. */
export function openingOf(
  query: string,
  { context, lengths, tools }: Launched,
  given: { readonly systemPrompt: string; readonly hasModel: boolean },
): readonly Message[] {
  const total = lengths.reduce((sum, length) => sum + length, 0);
  const size =
    `Your context is a ${context} with ${total} characters in total, ` +
    `in parts of these lengths: [${lengths.join(', ')}].`;
  return [
    { role: 'system', content: systemPrompt(given.systemPrompt, given.hasModel, tools) },
    { role: 'user', content: size },
    turnPrompt(query, 0),
  ];
}

export const NO_BLOCK = '[There is no ```repl``` block. Write the code between ```repl and ``` on lines of their own.]';

/** What the policy reads after a block. */
export const observation = (code: string, shown: string): string =>
  `Code executed:\n\`\`\`python\n${code}\n\`\`\`\n\nREPL output:\n${shown}`;
