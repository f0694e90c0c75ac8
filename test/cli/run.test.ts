/** Hunts wrong exit codes, and anything on stdout besides the one JSON document. */

import { expect, test } from 'vitest';
import { Interrupted, JobFailed, UserInputError, Unreachable } from '../../client/errors.ts';
import { runCommandLine } from '../../cli/run.ts';
import type { Work } from '../../cli/verb.ts';
import type { VerbEntry } from '../../cli/verbs/index.ts';

function verb(work: Work): VerbEntry {
  return {
    summary: 'a verb for tests',
    load: async () => ({ define: (command, run) => void command.option('--size <n>').action(() => run(work)) }),
  };
}

async function call(args: string[], work: Work, signal = new AbortController().signal) {
  let [out, err] = ['', ''];
  const exitCode = await runCommandLine(args, {
    out: (text) => {
      out += text;
    },
    err: (text) => {
      err += text;
    },
    env: {},
    cwd: '/',
    signal,
    verbs: { act: verb(work), other: verb(async () => ({ document: 'the other' })) },
  });
  return { exitCode, out, err };
}

const fine: Work = async ({ say, note }) => {
  say('for people');
  note('on the way');
  return { document: { answer: 42 } };
};

test('without --json, people read lines on stdout', async () => {
  expect(await call(['act'], fine)).toEqual({ exitCode: 0, out: 'for people\n', err: 'on the way\n' });
});

test('with --json, stdout holds one document and nothing else', async () => {
  const { exitCode, out, err } = await call(['act', '--json'], fine);
  expect([exitCode, JSON.parse(out), err]).toEqual([0, { answer: 42 }, 'on the way\n']);
});

test.each([
  [1, new JobFailed('the policy did not improve', { before: 0.4 })],
  [1, new TypeError('nobody foresaw this')],
  [2, new UserInputError('steps', -1, 'give a whole number')],
  [3, new Unreachable('Temporal at nowhere', 'Run: npx longhaul up')],
  [130, new Interrupted('the run goes on; attach: npx longhaul watch r')],
  [
    2,
    new Error('Workflow execution failed', {
      cause: Object.assign(new Error('steps'), { name: 'ApplicationFailure', type: 'UserInputError' }),
    }),
  ],
])('exit code %i for %s', async (exitCode, error) => {
  const failing: Work = async () => {
    throw error;
  };
  const text = await call(['act'], failing);
  expect(text).toMatchObject({ exitCode, out: '' });
  expect(text.err).toContain(error.message);
  const json = await call(['act', '--json'], failing);
  expect(json.exitCode).toBe(exitCode);
  expect(JSON.parse(json.out)).toMatchObject({ error: { name: error.name, message: error.message } });
});

class DamagedThing extends Error {
  override readonly name = 'DamagedThing';
}

test.each([
  ['a class of its own', new DamagedThing('the thing is damaged: mend it'), false],
  [
    'what the system refused',
    Object.assign(new Error("ENOTDIR: not a directory, mkdir '/file/home'"), { code: 'ENOTDIR', syscall: 'mkdir' }),
    false,
  ],
  ['what nobody foresaw', new TypeError('x is not a function'), true],
])(
  '%s fails with its message, and with a stack trace only if nothing else explains it',
  async (_what, error, traced) => {
    const { exitCode, err } = await call(['act'], async () => {
      throw error;
    });
    expect([exitCode, err.includes(error.message), /\n\s+at /.test(err)]).toEqual([1, true, traced]);
  },
);

test('an error keeps its fields in the document', async () => {
  const { out } = await call(['act', '--json'], async () => {
    throw new UserInputError('steps', -1, 'give a whole number');
  });
  expect(JSON.parse(out).error).toMatchObject({ field: 'steps', value: -1, remedy: 'give a whole number' });
});

test('a verb may report and fail: the document is printed, the exit code is its own', async () => {
  const { exitCode, out } = await call(['act', '--json'], async () => ({ document: { ok: false }, exitCode: 3 }));
  expect([exitCode, JSON.parse(out)]).toEqual([3, { ok: false }]);
});

test.each([[['nope']], [['act', '--nope']], [['act', '--size']], [[]], [['act', 'surplus']]])(
  '%j is bad input',
  async (args) => {
    const { exitCode, out, err } = await call(args, fine);
    expect([exitCode, out]).toEqual([2, '']);
    expect(err).toMatch(/--help/);
  },
);

test('bad input with --json is a document too', async () => {
  const { exitCode, out } = await call(['act', '--nope', '--json'], fine);
  expect(exitCode).toBe(2);
  expect(JSON.parse(out).error.message).toContain('--nope');
});

test('help is no error, names the verbs, and shows --json for each', async () => {
  const overview = await call(['--help'], fine);
  expect(overview).toMatchObject({ exitCode: 0, err: '' });
  expect(overview.out).toMatch(/act +a verb for tests/);
  const one = await call(['act', '--help'], fine);
  expect(one).toMatchObject({ exitCode: 0, err: '' });
  expect(one.out).toMatch(/--size[^]*--json/);
  expect((await call(['help', 'act'], fine)).out).toBe(one.out);
});

test('any error after Ctrl-C is reported as an interrupt, not as a failed job', async () => {
  const interrupt = new AbortController();
  const broken = await call(
    ['act'],
    async ({ signal }) => {
      interrupt.abort();
      signal.throwIfAborted();
      return { document: null };
    },
    interrupt.signal,
  );
  expect(broken.exitCode).toBe(130);
  expect(broken.err).toContain('durable work continues');
});
