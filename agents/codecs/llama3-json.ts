/** JSON with `name` and `parameters`, alone or after `<|python_tag|>`: the form of Llama 3.1 and later. */

import { argumentsText } from '../../protocol/message.ts';
import { type Codec, endOfJson, type Section } from './codec.ts';
import { readJsonCall } from './hermes-json.ts';

const TAG = '<|python_tag|>';
/** The tag anywhere; else a call's first key, at the start of a line. Other JSON is an answer. */
const START = /<\|python_tag\|>|(?:^|\n)[ \t]*\{\s*"(?:name"\s*:|type"\s*:\s*"function")/gu;
/** What may be between two calls. */
const BETWEEN = /[\s;,]*(?=\{\s*"(?:name|type)")/uy;

function startAfter(text: string, from: number): number {
  START.lastIndex = from;
  const found = START.exec(text);
  if (found === null) return text.length;
  return found[0] === TAG ? found.index : text.indexOf('{', found.index);
}

export const llama3Json: Codec = {
  name: 'llama3-json',
  marks: [TAG, '{'],
  form: '{"name": NAME, "parameters": {"P": value}}',
  opening: (name) => `{"name":${name === undefined ? '' : ` ${JSON.stringify(name)}, "parameters":`}`,
  several: true,
  reader(text) {
    let known = -1;
    /** The end of the last call: another one may follow on the same line. */
    let last = -1;
    return {
      next(from) {
        if (from === last) {
          BETWEEN.lastIndex = from;
          const between = BETWEEN.exec(text);
          if (between !== null) return from + between[0].length;
        }
        if (known < from) known = startAfter(text, from);
        return known;
      },
      read(start): Section {
        const isTagged = text.startsWith(TAG, start);
        const rest = isTagged ? start + TAG.length : start;
        const begin = text.indexOf('{', rest);
        if (begin < 0 || text.slice(rest, begin).trim() !== '')
          return { kind: 'mistake', error: `After ${TAG} the call must be a JSON object.` };
        const end = endOfJson(text, begin);
        if (end === undefined) return { kind: 'unclosed', error: 'The JSON object of the call has no end.' };
        const call = readJsonCall(text.slice(begin, end), ['parameters', 'arguments']);
        if (typeof call === 'string') return { kind: 'mistake', error: call };
        last = end;
        return { kind: 'call', end, call };
      },
    };
  },
  callText: (call) => `{"name": ${JSON.stringify(call.name)}, "parameters": ${argumentsText(call)}}`,
  answerText: (tool, content) => `EXECUTION RESULT of [${tool}]:\n${content}`,
};
