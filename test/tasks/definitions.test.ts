/** Hunts a definition that is accepted and fails in a rollout: each wrong member is named when it is defined. */

import { describe, expect, it } from 'vitest';
import { readArguments } from '../../agents/tools/schema/arguments.ts';
import { checkTool } from '../../agents/tools/schema/check-tool.ts';
import { defineTool } from '../../agents/tools/registry.ts';
import { z } from 'zod';
import { checkTasksOfRun } from '../../config/open-tasks.ts';
import { resolveRunConfig } from '../../config/run-config.ts';
import { defineEnvironment, environmentNamed } from '../../tasks/registry.ts';
import type { Dataset, Environment, Task } from '../../tasks/environment.ts';
import { DataChanged, TaskLoader } from '../../tasks/task-loader.ts';

const run = () => Promise.resolve('');
const tool = {
  name: 'weigh',
  description: 'Weighs.',
  parameters: { grams: { type: 'number', description: 'How many.' } },
  required: ['grams'],
  run,
};
const task = (more: Partial<Task> = {}): Task => ({
  messages: [{ role: 'user', content: 'do' }],
  tools: ['finish'],
  grade: () => Promise.resolve({ code: 'graded', reward: 1, passed: true, reason: '' }),
  ...more,
});
const dataset = (splits: Record<string, number>, load: Dataset['load'] = () => Promise.resolve(task())): Dataset => ({
  digest: 'd',
  splits,
  load,
});
const kind = (name: string, opened: Dataset): Environment => ({ name, open: () => Promise.resolve(opened) });

describe('defineEnvironment', () => {
  it.each([
    [{ name: 'bare' }, /defineEnvironment "bare": open is missing; give a function/],
    [{ name: 'near', opne: run }, /open is missing; give a function \(is it misspelt as opne\?\)/],
    [{ name: 'text', open: 'yes' }, /open is "yes"; give a function/],
    [{ name: 'a b', open: run }, /name is "a b"; give letters/],
    [{ name: 'loose', open: run, options: { file: 'text' } }, /options is .*; give a zod schema, or leave it out/],
    [undefined, /defineEnvironment: definition is missing; give an object/],
  ])('%#: names the member', (given, message) => {
    expect(() => defineEnvironment(given as unknown as Environment)).toThrow(message);
  });
});

describe('defineTool', () => {
  it.each([
    [{ ...tool, run: undefined }, /defineTool "weigh": run is missing/],
    [{ ...tool, name: 'a b' }, /name is "a b"/],
    [{ ...tool, description: '' }, /description is ""; give a text/],
    [
      { ...tool, parameters: { grams: { type: 'float', description: '' } } },
      /parameters\.grams\.type is "float"; give one of string, integer, number/,
    ],
    [{ ...tool, parameters: { grams: { type: 'number' } } }, /parameters\.grams\.description is missing; give a text/],
    [
      { ...tool, parameters: { type: 'object', properties: {} } },
      /required is \["grams"\]; leave it out: the schema in parameters has its own/,
    ],
    [{ ...tool, runs: 'here' }, /runs is "here"; give sandbox or worker/],
    [{ ...tool, runs: 'worker' }, /effect is missing; give none or outside/],
    [{ ...tool, runs: 'worker', effect: 'sandbox' }, /effect is "sandbox"; give none or outside/],
    [{ ...tool, runs: 'worker', effect: 'none', onlyReads: run }, /onlyReads is a function; leave it out/],
    [{ ...tool, options: {} }, /options is \{\}; give a zod schema/],
    [
      { ...tool, parameters: { unit: { type: 'string', description: '', enum: [1] } } },
      /parameters\.unit\.enum is \[1\]/,
    ],
    [{ ...tool, required: ['kilos'] }, /required is \["kilos"\]; name only existing parameters \(grams\)/],
    [{ ...tool, required: undefined }, /required is missing/],
  ])('%#: names the member', (given, message) => {
    expect(() => defineTool(given as never)).toThrow(message);
  });

  it('a number may be whole or not', () => {
    checkTool(tool);
    const read = (grams: unknown) =>
      readArguments('weigh', { grams: { type: 'number', description: '' } }, ['grams'], { grams });
    expect([read(1.5).number('grams'), read('2.25').number('grams'), read(3).number('grams')]).toEqual([1.5, 2.25, 3]);
    for (const wrong of ['heavy', true, 'null', Infinity])
      expect(() => read(wrong)).toThrow(/grams .*must be a number/);
  });
});

it('records that have changed since the start are found by digest, by every process', async () => {
  defineEnvironment(kind('changing', dataset({ train: 1 })));
  const source = { environment: 'changing', options: {} };
  const loader = new TaskLoader();
  expect(await loader.open({ ...source, digest: 'd' })).toMatchObject({ digest: 'd' });
  await expect(loader.open({ ...source, digest: 'e' })).rejects.toThrow(DataChanged);
});

describe('tasks that do not exist', () => {
  const opening = async (given: object, evaluation: object = { tasks: 1 }) => {
    const config = resolveRunConfig({ policy: { base: '/p' }, batch: { tasks: 1 }, evaluation, ...given }, '/');
    return checkTasksOfRun(config, new TaskLoader());
  };
  const sized = { train: 5, 'held-out': 1 };

  it('a program as agent that reports no tokens cannot be trained, whoever chose it; it may say that it does', async () => {
    const external = { type: 'external', options: {} };
    defineEnvironment(
      kind(
        'by-program',
        dataset(sized, () => Promise.resolve(task({ agent: external }))),
      ),
    );
    const refused = { field: 'agent.options.tokens', remedy: expect.stringMatching(/for evals only/) as unknown };
    await expect(opening({ task: { name: 'by-program' } })).rejects.toMatchObject(refused);
    await expect(opening({ task: { name: 'swe-mini' }, agent: { type: 'external' } })).rejects.toMatchObject(refused);
    const agent = { type: 'external', options: { tokens: true } };
    expect((await opening({ task: { name: 'by-program' }, agent })).train).toHaveLength(1);
    await expect(
      opening({
        task: { name: 'by-program' },
        agent: { type: 'external', options: { command: 'true', tokens: true } },
      }),
    ).rejects.toMatchObject({ field: 'agent.options.command' });
  });

  it('more tasks than the dataset has, or than load, are an error with field, value and number', async () => {
    defineEnvironment(kind('sized', dataset(sized)));
    defineEnvironment(kind('trained', dataset({ train: 5 })));
    defineEnvironment(
      kind(
        'listed',
        dataset({ train: 9, test: 1 }, (_split, n) =>
          n > 2 ? Promise.reject(new RangeError('no such row')) : Promise.resolve(task()),
        ),
      ),
    );
    defineEnvironment(
      kind(
        'broken',
        dataset(sized, () => Promise.reject(new Error('no data'))),
      ),
    );
    defineEnvironment(
      kind(
        'toolless',
        dataset(sized, () => Promise.resolve(task({ tools: ['finnish'] }))),
      ),
    );
    defineEnvironment({ name: 'closed', open: () => Promise.reject(new Error('no such file')) });
    expect(await opening({ task: { name: 'sized', train: 5 } })).toMatchObject({
      train: [{ source: 'sized', split: 'train', count: 5 }],
      heldOut: [{ source: 'sized', split: 'held-out', count: 1 }],
    });
    expect((await opening({ task: { name: 'sized' } })).train).toMatchObject([{ count: 5 }]);
    expect((await opening({ task: { name: 'listed', train: 3 } })).heldOut).toMatchObject([{ split: 'test' }]);
    await expect(opening({ task: { name: 'sized', train: 6 } })).rejects.toThrow(
      'task.train: 6 cannot be used; give at most 5: sized has 5 train tasks',
    );
    await expect(opening({ task: { name: 'sized', split: 'trian' } })).rejects.toThrow(
      'task.split: "trian" cannot be used; sized has train, held-out; did you mean train?',
    );
    await expect(opening({ task: { name: 'sized' } }, { tasks: 2 })).rejects.toThrow(
      /evaluation\.tasks: 2 .*at most 1/,
    );
    defineEnvironment(kind('a', dataset({ 'b-train': 5, test: 1 })));
    defineEnvironment(kind('a-b', dataset({ train: 5, test: 1 })));
    await expect(
      opening({ tasks: [{ environment: 'a', split: 'b-train' }, { environment: 'a-b' }], batch: { tasks: 2 } }),
    ).rejects.toThrow(/tasks: "a" cannot be used; give it another source: its keys begin with a-b-train, .*of a-b/);
    await expect(opening({ task: { name: 'trained' } })).rejects.toThrow(
      /evaluation\.split is missing; .*trained has train/,
    );
    await expect(opening({ task: { name: 'listed', train: 4 } })).rejects.toThrow(
      /task\.train: 4 cannot be used; give less: train task 3 of listed cannot be loaded \(no such row \(.*definitions\.test\.ts:\d+\)\)/,
    );
    await expect(opening({ task: { name: 'broken' } })).rejects.toThrow(
      /task\.name: "broken" cannot be used; fix its train task 0 \(no data/,
    );
    await expect(opening({ task: { name: 'toolless' } })).rejects.toThrow(
      /there is no tool finnish; known: .*did you mean finish\?/,
    );
    await expect(opening({ task: { name: 'closed' } })).rejects.toThrow(/fix what closed cannot open \(no such file/);
    await expect(opening({ task: { name: 'sized' }, batch: { tasks: 6 } })).rejects.toThrow(
      'batch.tasks: 6 cannot be used; give less: a step may draw 6 tasks of sized, and its pool has 5',
    );
  });

  it('options that an environment does not take are an error with the name; the others reach it with defaults', async () => {
    const seen: unknown[] = [];
    defineEnvironment({
      name: 'choosy',
      options: z.strictObject({ file: z.string(), limit: z.int().default(3) }),
      open: (options, io) => {
        seen.push(options, io.path('file', options.file));
        return Promise.resolve(dataset(sized));
      },
    });
    await opening({ task: { name: 'choosy', options: { file: 'a.jsonl' }, folder: '/data' } });
    expect(seen).toEqual([{ file: 'a.jsonl', limit: 3 }, '/data/a.jsonl']);
    await expect(opening({ task: { name: 'choosy', options: { file: 1 } } })).rejects.toThrow(/task\.options\.file: 1/);
    await expect(opening({ task: { name: 'sized', options: { file: 'a' } } })).rejects.toThrow(
      'task.options.file: "a" cannot be used; remove it: sized takes no options',
    );
    await expect(opening({ tasks: [{ environment: 'sized' }, { environment: 'sized' }] })).rejects.toThrow(
      /tasks\.1\.source: "sized" .*a different source/,
    );
    await expect(opening({})).rejects.toThrow(/task is missing; give task: \{ name, options \}/);
  });

  it('several entries, each with its own source, are mixed by weight', async () => {
    defineEnvironment(kind('many', dataset({ train: 100, 'held-out': 100 })));
    const tasks = [
      { source: 'a', environment: 'many', weight: 3 },
      { source: 'b', environment: 'many' },
    ];
    const { sources, train, heldOut } = await opening({ tasks, batch: { tasks: 4 } }, { tasks: 10 });
    expect(Object.keys(sources)).toEqual(['a', 'b']);
    expect(train).toEqual([
      { source: 'a', split: 'train', count: 100, weight: 3 },
      { source: 'b', split: 'train', count: 100, weight: 1 },
    ]);
    expect(heldOut.map(({ source, count }) => [source, count])).toEqual([
      ['a', 8],
      ['b', 2],
    ]);
  });

  it('a wrong index or split of a known environment is reported as such; for a misspelt environment, the closest name is', async () => {
    const load = (key: string) => new TaskLoader().load({ task: key });
    for (const id of ['swe-mini', 'swe-mini-train-x', 'swe-mini-held-out--1'])
      await expect(load(id)).rejects.toThrow(`there is no task "${id}": expected swe-mini-SPLIT-N`);
    await expect(load('swe-mini-test-3')).rejects.toThrow('swe-mini has the splits train, held-out');
    await expect(load('sized-train-5')).rejects.toThrow('sized has 5 tasks in train');
    await expect(load('swe-mimi-train-3')).rejects.toThrow(
      /no environment for task swe-mimi-train-3; known: .*did you mean swe-mini\?/,
    );
    expect(() => environmentNamed('swemini')).toThrow(/did you mean swe-mini\?/);
  });
});
