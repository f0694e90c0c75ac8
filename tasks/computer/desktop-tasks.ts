/** Small tasks on a desktop: what is asked, what the application's state must be, and actions that bring it about. */

import { createRandom, type Random } from '../random.ts';

export const KINDS = ['write', 'form', 'slider', 'dialog'] as const;
export type Kind = (typeof KINDS)[number];

type Action = Readonly<Record<string, unknown>>;

export interface DesktopTask {
  readonly kind: Kind;
  readonly request: string;
  /** What the application is told. */
  readonly given: Readonly<Record<string, unknown>>;
  /** The state that the application must have written last. */
  readonly state: Readonly<Record<string, unknown>>;
  readonly solution: readonly Action[];
}

const WORDS = ['river', 'candle', 'orange', 'marble', 'window', 'garden', 'pepper', 'silver', 'basket', 'thunder'];
const LABELS = ['Sound', 'Backups', 'Dark mode', 'Reminders', 'Shortcuts', 'Previews', 'Sync', 'Animations'];
const QUESTIONS = ['An update is there.', 'A new version is there.', 'Updates can be installed.'];

/** `count` of the list, in its order. */
function some<T>(list: readonly T[], count: number, random: Random): T[] {
  const left = [...list];
  while (left.length > count) left.splice(random.integer(0, left.length - 1), 1);
  return left;
}

const click = (x: number, y: number): Action => ({ action: 'click', x, y });

function write(random: Random): Omit<DesktopTask, 'kind'> {
  const text = `${some(WORDS, 3, random).join(' ')} ${random.integer(100, 999)}`;
  return {
    request: `Type the text ${JSON.stringify(text)} into the editor, without quotes, and save it.`,
    given: {},
    state: { saved: text },
    solution: [click(300, 200), { action: 'type', text }, { action: 'press', keys: 'ctrl+s' }],
  };
}

function form(random: Random): Omit<DesktopTask, 'kind'> {
  const labels = some(LABELS, 4, random);
  const ticked = some(labels, 2, random);
  const off = random.pick(ticked);
  const on = random.pick(labels.filter((one) => !ticked.includes(one)));
  const box = (label: string): Action => click(232, 150 + 20 + 45 * labels.indexOf(label) + 15);
  return {
    request:
      `In the settings, turn ${JSON.stringify(on)} on and ${JSON.stringify(off)} off, leave the others as they ` +
      'are, and press OK.',
    given: { labels, ticked },
    state: { ok: labels.filter((one) => one === on || (ticked.includes(one) && one !== off)) },
    solution: [box(on), box(off), click(270, 415)],
  };
}

/** The middle of the slider's handle. It is 30 pixels of the 440, below the shown value. */
const handle = (value: number): number => 160 + 15 + (value * (440 - 30)) / 100;
const SLIDER_Y = 240;

function slider(random: Random): Omit<DesktopTask, 'kind'> {
  const from = 10 * random.integer(0, 10);
  const to = (from + 10 * random.integer(2, 9)) % 110;
  const drag = {
    action: 'drag',
    x: Math.round(handle(from)),
    y: SLIDER_Y,
    to_x: Math.round(handle(to)),
    to_y: SLIDER_Y,
  };
  return {
    request: `Set the volume to ${to} and press Apply.`,
    given: { from },
    state: { applied: to },
    solution: [drag, click(210, 325)],
  };
}

function dialog(random: Random): Omit<DesktopTask, 'kind'> {
  const buttons = random.integer(0, 1) === 0 ? ['Later', 'Install'] : ['Install', 'Later'];
  return {
    request: 'Close the dialog without installing anything, then press Done in the notes.',
    given: { question: random.pick(QUESTIONS), buttons },
    state: { dialog: 'Later', done: true },
    solution: [click(220 + 20 + 140 * buttons.indexOf('Later') + 50, 180 + 85), click(160, 370)],
  };
}

const MAKERS: Readonly<Record<Kind, (random: Random) => Omit<DesktopTask, 'kind'>>> = { write, form, slider, dialog };

/** Task `index` of a split; the kinds take turns. */
export function desktopTask(split: string, index: number, kinds: readonly Kind[]): DesktopTask {
  const kind = kinds[index % kinds.length] ?? 'write';
  return { kind, ...MAKERS[kind](createRandom(`computer ${split} ${index}`)) };
}
