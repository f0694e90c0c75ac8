/**
 * Hunts templates that render another text here than in Python. The cases are `render_jinja_template` of transformers
 * 5.23.0 on Jinja 3.1.6: `kwargs` are its keywords.
 */

import { describe, expect, it } from 'vitest';
import { ChatTemplate, ChatTemplateRefused, type TemplateInput } from '../../../trainer/tokenizer/chat-template.ts';
import { readJson } from '../tiny-policy.ts';

interface Case {
  readonly name: string;
  readonly template: string;
  readonly messages: TemplateInput['messages'];
  readonly kwargs: Readonly<Record<string, unknown>>;
  readonly rendered: string | { readonly error: string };
}

const cases = readJson<Case[]>(import.meta.dirname, 'jinja-cases.json');

describe('a template', () => {
  it.each(cases.map((one) => [one.name, one] as const))('%s', (_, { template, messages, kwargs, rendered }) => {
    const {
      tools = null,
      continue_final_message: goesOn,
      ...variables
    } = kwargs as { tools?: unknown[]; continue_final_message?: boolean };
    const render = () =>
      new ChatTemplate(template, {}).render({ messages, tools, variables, continueFinalMessage: goesOn === true });
    if (typeof rendered === 'string') expect(render()).toBe(rendered);
    else expect(render).toThrow(ChatTemplateRefused);
  });

  it('that strips a value that is not a string fails with the reason', () => {
    expect(() =>
      new ChatTemplate('{{ nothing.strip() }}', {}).render({ messages: [], tools: null, variables: {} }),
    ).toThrow(/strip needs a string, but it is called on an undefined value/);
  });

  it('does not change its messages', () => {
    const messages = [{ role: 'assistant', content: 'a', reasoning: 'r' }];
    new ChatTemplate('{{ messages[0].content }}', {}).render({
      messages,
      tools: null,
      variables: {},
      continueFinalMessage: true,
    });
    expect(messages).toEqual([{ role: 'assistant', content: 'a', reasoning: 'r' }]);
  });
});
