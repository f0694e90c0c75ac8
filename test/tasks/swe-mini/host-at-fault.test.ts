/**
 * Hunts work that gets no reward because the host was slow or killed the grader. Not asserted: what git and the tests
 * do in real sandboxes; see grade.test.ts and killed-grader.test.ts.
 */
import { describe, expect, it } from 'vitest';
import {
  type ExecCall,
  type ExecResult,
  type Sandbox,
  SandboxLost,
  type SandboxProvider,
  SandboxUnavailable,
} from '../../../sandboxes/sandbox.ts';
import { collectDiff } from '../../../tasks/swe-mini/collect.ts';
import { gradeDiff } from '../../../tasks/swe-mini/grade.ts';
import { makeProblem } from '../../../tasks/swe-mini/problem.ts';
import { pythonRepr } from '../../../tasks/swe-mini/repository.ts';

const ended: ExecResult = {
  exitCode: 0,
  signal: null,
  output: '',
  droppedBytes: 0,
  timedOut: false,
  outOfMemory: false,
  durationMs: 1,
};
const late: ExecResult = { ...ended, exitCode: null, timedOut: true };

/** Sandboxes whose commands return, or throw, the next of `results`. */
function scripted(results: Array<ExecResult | Error>) {
  const calls: ExecCall[] = [];
  const log: string[] = [];
  const sandbox = (id: string): Sandbox => ({
    id,
    exec: async (call) => {
      calls.push(call);
      const result = results.shift();
      if (!result) throw new Error('Nobody expected another command');
      if (result instanceof Error) throw result;
      return result;
    },
    write: async ({ note }) => ({ note }),
    written: async () => undefined,
    read: async () => ({ kind: 'missing' }),
    renew: async () => undefined,
    close: () => undefined,
  });
  const provider: SandboxProvider = {
    name: 'scripted',
    create: async ({ id }) => {
      log.push(`create ${id}`);
      return sandbox(id);
    },
    connect: async (id) => sandbox(id),
    destroy: async (id) => void log.push(`destroy ${id}`),
    list: async () => [],
  };
  return { calls, log, provider, sandbox: sandbox('s') };
}

describe('collectDiff', () => {
  const spec = { workdir: '/work', files: [], env: {}, limits: { memoryMiB: 1, processes: 1, diskMiB: 1 } };
  const collect = async (...results: Array<Partial<ExecResult> | Error>) => {
    const { calls, log, provider, sandbox } = scripted(
      results.map((one) => (one instanceof Error ? one : { ...ended, ...one })),
    );
    const diff = await collectDiff({ sandbox, spec, base: 'base', provider, execution: 1 }).catch(
      (error: unknown) => error,
    );
    return { calls, log, diff: diff instanceof Uint8Array ? Buffer.from(diff).toString() : diff };
  };
  const failed = { name: 'CollectFailed', sandbox: 's', execution: 1 };
  const control = ['create s/collect-1-control', 'destroy s/collect-1-control'];
  const causes: Array<[string, Partial<ExecResult>]> = [
    ['a time-out', { exitCode: null, timedOut: true }],
    ['a signal', { exitCode: null, signal: 'SIGKILL' }],
    ['a signal that the shell reports', { exitCode: 137 }],
    ['a lack of memory', { exitCode: 128, outOfMemory: true }],
    ['a program that cannot start', { exitCode: 126 }],
  ];

  it.each(causes)('takes %s for no word on what changed, where a control is cut off too', async (_, cut) => {
    const { diff, log } = await collect(cut, cut);
    expect(diff).toMatchObject(failed);
    expect(log).toEqual(control);
  });

  it.each(causes)('takes the diff again after %s, beside a control that is not cut off', async (_, cut) => {
    const { diff, calls } = await collect(cut, {}, { output: 'diff' });
    expect(diff).toBe('diff');
    expect(calls.map(({ callId }) => callId)).toEqual([
      's/collect-1',
      's/collect-1-control/collect',
      's/collect-1-again',
    ]);
  });

  it.each(causes)('blames the agent for %s twice, beside two controls that are not cut off', async (_, cut) => {
    expect((await collect(cut, {}, cut, {})).diff).toMatch(/^no diff: git was cut off twice/u);
    expect((await collect(cut, {}, cut, cut)).diff).toMatchObject(failed);
  });

  it.each([new SandboxLost('it ended'), new SandboxUnavailable('no room')])(
    'blames nobody where the control has no sandbox: %s',
    async (error) => {
      expect((await collect(late, error)).diff).toMatchObject(failed);
    },
  );

  it('lets the control take as much processor time as what was late, and blames an overloaded machine', async () => {
    const { calls, diff } = await collect({ ...late, cpuMs: 3210 }, late);
    expect(diff).toMatchObject(failed);
    expect(calls[1]?.command).toContain('process_time() < 3.21:');
    expect(calls.map(({ cpuMs }) => cpuMs)).toEqual([4000, undefined]);
  });

  it('blames the agent at once for processor time beyond the budget: other load does not count', async () => {
    expect((await collect({ exitCode: null, signal: 'SIGXCPU' })).diff).toMatch(/^no diff: .* 4 s of processor time/u);
  });

  it.each([1, 128])('blames the agent for a broken repository if git ends with %i', async (exitCode) => {
    expect((await collect({ exitCode, output: 'fatal' })).diff).toMatch(/^no diff: git cannot read/u);
  });
});

describe('gradeDiff', () => {
  const problem = makeProblem('swe-mini-held-out-5');
  const applied = { ...late, output: 'applied\n' };
  const right = {
    ...ended,
    output: ['applied', '', 'longhaul results', ...problem.hidden.map(({ expected }) => pythonRepr(expected)), ''].join(
      '\n',
    ),
  };
  const grade = async (...results: Array<ExecResult | Error>) => {
    const { calls, log, provider } = scripted(results);
    const verdict = await gradeDiff(problem, Buffer.from('x'), provider, 'g');
    return { verdict, log, limits: calls.map(({ timeoutMs }) => timeoutMs) };
  };
  const control = { ...ended, output: 'applied\n\nlonghaul results\n!\n' };
  const twice = ['create g', 'destroy g', 'create g-again', 'destroy g-again'];

  it('pays for right answers that came late once', async () => {
    const { verdict, log, limits } = await grade(applied, right);
    expect(verdict).toMatchObject({ code: 'graded', reward: 1 });
    expect(log).toEqual(twice);
    expect(limits[1]).toBeGreaterThan(limits[0] ?? Number.POSITIVE_INFINITY);
  });

  it('scores 0 if the longer time is not enough either, beside a control that ends', async () => {
    const { verdict, log, limits } = await grade(applied, applied, control);
    expect(verdict).toMatchObject({ code: 'graded', reward: 0, reason: 'the code did not end in time' });
    // The control runs where nothing of the code can make it late.
    expect(log).toEqual([...twice, 'create g-again-control', 'destroy g-again-control']);
    expect(limits[2]).toBe(limits[1]);
  });

  it.each([
    ['without a word', late],
    ['after the diff applied', applied],
    ['after its results', { ...control, exitCode: null, timedOut: true }],
  ])('blames no work that was late twice where the control is late too: %s', async (_, controlled) => {
    const { verdict, log } = await grade(applied, applied, controlled);
    expect(verdict).toMatchObject({ code: 'grader-failed', reason: expect.stringContaining('not in time') });
    expect(log.at(-1)).toBe('destroy g-again-control');
  });

  describe('what was cut off without results', () => {
    const again = [
      'create g',
      'destroy g',
      'create g-control',
      'destroy g-control',
      'create g-again',
      'destroy g-again',
    ];
    const causes: Array<[string, ExecResult]> = [
      ['a signal to Python', { ...ended, exitCode: null, signal: 'SIGKILL', output: 'applied\n' }],
      ['a signal to git', { ...ended, exitCode: 137 }],
      ['a lack of memory', { ...ended, exitCode: null, signal: 'SIGKILL', outOfMemory: true, output: 'applied\n' }],
      [
        'a program that cannot start',
        { ...ended, exitCode: 126, output: 'applied\nbash: python3: Cannot allocate memory\n' },
      ],
    ];

    it.each(causes)('is graded again where the control ends: %s', async (_, cut) => {
      const { verdict, log } = await grade(cut, control, right);
      expect(verdict).toMatchObject({ code: 'graded', reward: 1 });
      expect(log).toEqual(again);
    });

    it.each(causes)('blames no work where the control is cut off too: %s', async (_, cut) => {
      const { verdict, log } = await grade(cut, cut);
      expect(verdict).toMatchObject({
        code: 'grader-failed',
        reason: expect.stringContaining("and so was its control without the candidate's code"),
      });
      expect(log).toEqual(again.slice(0, 4));
    });

    it.each(causes)('scores 0 twice, beside controls that end: %s', async (_, cut) => {
      const { verdict, log } = await grade(cut, control, cut, control);
      expect(verdict).toMatchObject({ code: 'graded', reward: 0, reason: expect.stringContaining('cut off twice') });
      expect(log).toEqual([...again, 'create g-again-control', 'destroy g-again-control']);
    });

    it('blames no work where only the second control is cut off, or one is late', async () => {
      const [, cut] = causes[0] ?? ['', late];
      expect((await grade(cut, control, cut, cut)).verdict.code).toBe('grader-failed');
      expect((await grade(cut, late)).verdict.code).toBe('grader-failed');
      expect((await grade(cut, applied)).verdict.code).toBe('grader-failed');
      expect((await grade(applied, cut, cut)).verdict.code).toBe('grader-failed');
    });

    it('counts results that were printed before the end', async () => {
      expect((await grade({ ...right, exitCode: null, signal: 'SIGKILL' })).verdict).toMatchObject({
        code: 'graded',
        reward: 1,
      });
    });
  });

  it.each([new SandboxLost('it ended'), new SandboxUnavailable('no answer')])(
    'asks the control about a sandbox that is lost while it is graded in: %s',
    async (error) => {
      expect((await grade(error, error)).verdict).toMatchObject({
        code: 'grader-failed',
        reason: expect.stringContaining('the loss of its sandbox'),
      });
      expect((await grade(error, control, right)).verdict).toMatchObject({ code: 'graded', reward: 1 });
      expect((await grade(error, control, error, control)).verdict).toMatchObject({ code: 'graded', reward: 0 });
    },
  );

  it('scores 0 at once if git or the code has used up the processor time', async () => {
    const spent = { ...ended, exitCode: null, signal: 'SIGXCPU' };
    expect((await grade(spent)).verdict).toMatchObject({
      code: 'graded',
      reward: 0,
      reason: expect.stringMatching(/^git, .*processor time/u),
    });
    expect((await grade({ ...spent, output: 'applied\n' })).verdict).toMatchObject({
      code: 'graded',
      reward: 0,
      reason: expect.stringMatching(/^the code .*processor time/u),
    });
    expect((await grade({ ...right, exitCode: null, signal: 'SIGXCPU' })).verdict).toMatchObject({
      code: 'graded',
      reward: 1,
    });
  });

  it('scores 0 a diff that is late to apply twice, beside a control that is not', async () => {
    expect((await grade(late, late, control)).verdict).toMatchObject({
      code: 'graded',
      reward: 0,
      reason: expect.stringMatching(/^git, .*in time/u),
    });
    expect((await grade(late, late, late)).verdict.code).toBe('grader-failed');
  });

  it('runs code that ends only once', async () => {
    expect((await grade(right)).log).toEqual(['create g', 'destroy g']);
  });
});
