/**
 * `browser`: Chromium in the sandbox, never on the worker. Pages are read as an accessibility tree, whose elements have
 * numbers; a screenshot is an image by reference. Its pages stay from call to call.
 */

import { MOST_IMAGE_BYTES } from '../../../protocol/image.ts';
import type { Arguments } from '../schema/arguments.ts';
import { truncateMiddle } from '../observation.ts';
import { DEFAULT_MAX_CHARACTERS, makeTool } from '../tool.ts';
import { actInBrowser, readScreenshot } from './run-server.ts';

const ACTIONS = [
  'navigate',
  'read',
  'text',
  'click',
  'type',
  'select',
  'press',
  'hover',
  'scroll',
  'back',
  'forward',
  'reload',
  'new_tab',
  'switch_tab',
  'close_tab',
  'wait',
  'screenshot',
] as const;

/** What an action needs, by name: `element` may be `x` and `y` for a click. */
const NEEDED: Readonly<Record<string, readonly string[]>> = {
  navigate: ['url'],
  type: ['element', 'text'],
  select: ['element', 'text'],
  hover: ['element'],
  press: ['keys'],
  scroll: ['direction'],
  switch_tab: ['tab'],
  close_tab: ['tab'],
};

function checked(args: Arguments): Record<string, unknown> {
  const given = args.all();
  const action = args.text('action');
  const missing = (NEEDED[action] ?? []).find((name) => given[name] === undefined);
  if (missing !== undefined) throw args.wrong(missing, `must be given for ${action}.`);
  const isPoint = given['x'] !== undefined && given['y'] !== undefined;
  if (action === 'click' && given['element'] === undefined && !isPoint)
    throw args.wrong('element', 'must be given for click, or x and y.');
  return given;
}

export const browser = makeTool({
  name: 'browser',
  description:
    'Uses a web browser. Each answer has the page as a tree of its elements: [n] is the number of an element. ' +
    'Numbers hold until the page changes.',
  parameters: {
    action: {
      type: 'string',
      enum: [...ACTIONS],
      description: 'What to do. read shows the page, text its plain text.',
    },
    url: { type: 'string', description: 'For navigate and new_tab: http:// or https://.' },
    element: { type: 'integer', description: 'Number of the element for click, type, select, hover, scroll.' },
    x: { type: 'number', description: 'For click without an element: pixels from the left of the screenshot.' },
    y: { type: 'number', description: 'For click without an element: pixels from the top of the screenshot.' },
    text: { type: 'string', description: 'For type: replaces the content. For select: the label to choose.' },
    submit: { type: 'boolean', description: 'For type: presses Enter afterwards.' },
    keys: { type: 'string', description: 'For press: a key such as Enter, ArrowDown or Control+a.' },
    direction: { type: 'string', enum: ['up', 'down', 'left', 'right'], description: 'For scroll.' },
    amount: { type: 'integer', description: 'For scroll: pixels. Default: 600.' },
    tab: { type: 'integer', description: 'For switch_tab and close_tab: from 1.' },
    seconds: { type: 'number', description: 'For wait: at most 10.' },
    find: { type: 'string', description: 'Shows only the lines of the tree with this text.' },
    line: { type: 'integer', description: 'Shows the tree from this line on.' },
    dialog: {
      type: 'string',
      enum: ['accept', 'dismiss'],
      description: 'How to answer dialogs of this action. Default: dismiss.',
    },
  },
  required: ['action'],
  images: true,

  async run(args, sandbox, { callId, timeoutMs, maxCharacters = DEFAULT_MAX_CHARACTERS }) {
    const given = checked(args);
    // The head and a note of the answer come on top of the tree.
    const characters = Math.max(500, maxCharacters - 800);
    const said = await actInBrowser({ ...given, characters }, { sandbox, callId, timeoutMs });
    const text = truncateMiddle(said, maxCharacters);
    if (given['action'] !== 'screenshot' || said.includes('Error: ')) return text;
    const shot = await readScreenshot(sandbox, MOST_IMAGE_BYTES);
    return shot.kind === 'file' ? { text, images: [shot.content] } : `${text}\nError: the screenshot is ${shot.kind}.`;
  },
});
