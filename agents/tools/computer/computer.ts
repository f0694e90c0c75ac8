/**
 * `computer`: a desktop in the sandbox, never on the worker, with pointer, keys and screenshots by reference. A policy
 * that takes no images reads the windows, which of them has the keys, and where the pointer is.
 */

import { MOST_IMAGE_BYTES } from '../../../protocol/image.ts';
import type { Arguments } from '../schema/arguments.ts';
import { truncateMiddle } from '../observation.ts';
import { DEFAULT_MAX_CHARACTERS, makeTool } from '../tool.ts';
import { actOnDesktop, readScreenshot } from './run-desktop.ts';

const ACTIONS = ['screenshot', 'click', 'double_click', 'move', 'drag', 'scroll', 'type', 'press', 'wait'] as const;

/** What an action needs, by name. */
const NEEDED: Readonly<Record<string, readonly string[]>> = {
  click: ['x', 'y'],
  double_click: ['x', 'y'],
  move: ['x', 'y'],
  drag: ['x', 'y', 'to_x', 'to_y'],
  scroll: ['direction'],
  type: ['text'],
  press: ['keys'],
};

function checked(args: Arguments): Record<string, unknown> {
  const given = args.all();
  const action = args.text('action');
  const missing = (NEEDED[action] ?? []).find((name) => given[name] === undefined);
  if (missing !== undefined) throw args.wrong(missing, `must be given for ${action}.`);
  return given;
}

export const computer = makeTool({
  name: 'computer',
  description:
    'Uses a desktop of 800 x 600 pixels. Each answer has its windows; screenshot shows the picture. ' +
    'Keys go to the window that was clicked last.',
  parameters: {
    action: { type: 'string', enum: [...ACTIONS], description: 'What to do.' },
    x: { type: 'number', description: 'Pixels from the left: of the click, or where a drag begins.' },
    y: { type: 'number', description: 'Pixels from the top.' },
    to_x: { type: 'number', description: 'For drag: where it ends.' },
    to_y: { type: 'number', description: 'For drag: where it ends.' },
    button: { type: 'string', enum: ['left', 'middle', 'right'], description: 'For clicks. Default: left.' },
    direction: { type: 'string', enum: ['up', 'down', 'left', 'right'], description: 'For scroll.' },
    amount: { type: 'integer', description: 'For scroll: steps of the wheel, at most 50. Default: 3.' },
    text: { type: 'string', description: 'For type: at most 2000 characters.' },
    keys: { type: 'string', description: 'For press: a key such as Enter, Tab, a, ctrl+s.' },
    seconds: { type: 'number', description: 'For wait: at most 10.' },
  },
  required: ['action'],
  images: true,

  async run(args, sandbox, { callId, timeoutMs, maxCharacters = DEFAULT_MAX_CHARACTERS }) {
    const given = checked(args);
    const said = await actOnDesktop(given, { sandbox, callId, timeoutMs });
    const text = truncateMiddle(said, maxCharacters);
    if (given['action'] !== 'screenshot' || said.includes('Error: ')) return text;
    const shot = await readScreenshot(sandbox, MOST_IMAGE_BYTES);
    return shot.kind === 'file' ? { text, images: [shot.content] } : `${text}\nError: the screenshot is ${shot.kind}.`;
  },
});
