/** Hunts a definition that is accepted and fails in a rollout: each wrong member is named when it is defined. */

import { describe, expect, it } from 'vitest';
import { readArguments } from '../../agents/tools/arguments.ts';
import { checkTool } from '../../agents/tools/check-tool.ts';
import { defineTool } from '../../agents/tools/registry.ts';
import { defineTask, environmentNamed, environmentOf } from '../../tasks/registry.ts';
import type { Environment } from '../../tasks/task.ts';
import { checkAskedTasks } from '../../config/check-tasks.ts';

const run = () => Promise.resolve('');
const tool = {
  name: 'weigh',
  description: 'Weighs.',
  parameters: { grams: { type: 'number', description: 'How many.' } },
  required: ['grams'],
  run,
};
const task = (name: string, more: Partial<Environment> = {}): Environment => ({
  name,
  taskId: (split, index) => `${name}-${split}-${index}`,
  load: (id) => ({ id, family: 'f', messages: [{ role: 'user', content: 'do' }], tools: ['finish'] }),
  sandbox: (_task, id) => ({
    id,
    workdir: '/w',
    files: [],
    env: {},
    limits: { memoryMiB: 64, processes: 8, diskMiB: 8 },
  }),
  collect: () => Promise.resolve(new Uint8Array()),
  grade: () => Promise.resolve({ code: 'graded', reward: 1, passed: true, reason: '' }),
  ...more,
});

describe('defineTask', () => {
  it.each([
    [{ name: 'bare' }, /defineTask "bare": taskId is missing; give a function/],
    [
      { ...task('near'), collect: undefined, colect: run },
      /collect is missing; give a function \(is it misspelt as colect\?\)/,
    ],
    [{ ...task('text'), grade: 'yes' }, /grade is "yes"; give a function/],
    [{ ...task('a b') }, /name is "a b"; give letters/],
    [undefined, /defineTask: definition is missing; give an object/],
  ])('%#: names the member', (given, message) => {
    expect(() => defineTask(given as unknown as Environment)).toThrow(message);
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
    [
      { ...tool, parameters: { all: { type: 'array', description: '', items: { type: 'string' } } } },
      /parameters\.all\.items is .* whole numbers/,
    ],
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

describe('tasks that do not exist', () => {
  const fields = { name: 'task.name', count: 'task.train' };
  const asked = { split: 'train', from: 0, fields } as const;
  it('more tasks than the environment has, or than load, are an error with field, value and number', () => {
    defineTask(task('sized', { size: (split) => (split === 'train' ? 5 : 0) }));
    defineTask(
      task('listed', {
        load: (id) => {
          if (Number(id.split('-').at(-1)) > 2) throw new RangeError('no such row');
          return task('listed').load(id);
        },
      }),
    );
    defineTask(
      task('broken', {
        load: () => {
          throw new Error('no data');
        },
      }),
    );
    defineTask(task('toolless', { load: (id) => ({ ...task('x').load(id), tools: ['finnish'] }) }));
    checkAskedTasks({ ...asked, name: 'sized', count: 5 });
    checkAskedTasks({ ...asked, name: 'listed', count: 3 });
    expect(() => checkAskedTasks({ ...asked, name: 'sized', count: 6 })).toThrow(
      'task.train: 6 cannot be used; give at most 5: sized has 5 train tasks',
    );
    expect(() => checkAskedTasks({ ...asked, name: 'sized', split: 'held-out', count: 1 })).toThrow(
      'sized has 0 held-out tasks',
    );
    expect(() => checkAskedTasks({ ...asked, name: 'listed', count: 4 })).toThrow(
      /task\.train: 4 cannot be used; give less: train task 3 of listed cannot be loaded \(no such row \(.*definitions\.test\.ts:\d+\)\)/,
    );
    expect(() => checkAskedTasks({ ...asked, name: 'broken', count: 4 })).toThrow(
      /task\.name: "broken" cannot be used; fix its first train task \(no data/,
    );
    expect(() => checkAskedTasks({ ...asked, name: 'toolless', count: 1 })).toThrow(
      /there is no tool finnish; known: .*did you mean finish\?/,
    );
  });

  it('a wrong index or split of a known environment is reported as such; for a misspelt environment, the closest name is', () => {
    for (const id of ['swe-mini', 'swe-mini-train-x', 'swe-mini-test-3', 'swe-mini-held-out--1']) {
      expect(() => environmentOf(id)).toThrow(
        `there is no task "${id}": expected swe-mini-train-N or swe-mini-held-out-N`,
      );
    }
    expect(() => environmentOf('swe-mimi-train-3')).toThrow(
      /no environment for task swe-mimi-train-3; known: .*did you mean swe-mini\?/,
    );
    expect(() => environmentNamed('swemini')).toThrow(/did you mean swe-mini\?/);
  });
});
