/**
 * Hunts a graph that reads a variable before it is written, loses it between runs, or keeps the tensors that were fed.
 * It does not assert which kernels TensorFlow picks.
 */

import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { attributes } from '../../../trainer/graph/attributes.ts';
import { inFrame } from '../../../trainer/graph/device-tensors.ts';
import { type Edge, GraphBuilder } from '../../../trainer/graph/graph-builder.ts';
import { GraphSession, type Signature, signature } from '../../../trainer/graph/graph-session.ts';

/** A counter: each run adds its input to a variable, and returns the variable doubled. */
function counter(): { session: GraphSession; clear: Signature; add: Signature } {
  const graph = new GraphBuilder();
  const total = graph.variable([3]);
  graph.beginSection();
  const zeros = graph.run('Fill', attributes.fill, [graph.integers(3), graph.floats([], new Float32Array(1))]);
  graph.write('AssignVariableOp', attributes.assign, total, [zeros]);
  const clear = signature([], graph.written());
  graph.beginSection();
  const given = graph.placeholder('float32');
  const before = graph.run('ReadVariableOp', attributes.read, [total]);
  const sum = graph.run('AddV2', attributes.elementwise, [before, given]);
  graph.write('AssignVariableOp', attributes.assign, total, [sum]);
  const after = graph.run('ReadVariableOp', attributes.read, [total]);
  const doubled = graph.run('AddV2', attributes.elementwise, [after, after]);
  return { session: new GraphSession(graph.nodes), clear, add: signature([given], doubled) };
}

describe('GraphBuilder', () => {
  it('makes a read wait for the write before it, and for none of another section', () => {
    const graph = new GraphBuilder();
    const variable = graph.variable([1]);
    graph.write('AssignVariableOp', attributes.assign, variable, [graph.floats([1], new Float32Array(1))]);
    const write = graph.nodes.at(-1)?.name ?? '';
    graph.run('ReadVariableOp', attributes.read, [variable]);
    expect(graph.nodes.at(-1)?.inputs).toEqual([variable, `^${write}`]);
    graph.beginSection();
    graph.run('ReadVariableOp', attributes.read, [variable]);
    expect(graph.nodes.at(-1)?.inputs).toEqual([variable]);
  });

  it('makes a constant of integers once', () => {
    const graph = new GraphBuilder();
    expect(graph.integers(1, 2)).toBe(graph.integers(1, 2));
    expect(graph.integer(1)).not.toBe(graph.integers(1));
  });
});

describe('GraphSession', () => {
  const run = (session: GraphSession, what: Signature, ...values: number[][]): Float32Array | undefined =>
    inFrame((frame) => {
      const feeds = values.map((value) => frame.floats([value.length], Float32Array.from(value)));
      const result = frame.keep(session.run(what, feeds));
      return values.length > 0 ? frame.readFloats(result) : undefined;
    });

  it('keeps its variables from run to run, apart from those of another session', () => {
    const [one, other] = [counter(), counter()];
    for (const { session, clear } of [one, other]) run(session, clear);
    expect(run(one.session, one.add, [1, 2, 3])).toEqual(Float32Array.of(2, 4, 6));
    expect(run(one.session, one.add, [1, 1, 1])).toEqual(Float32Array.of(4, 6, 8));
    expect(run(other.session, other.add, [1, 0, 0])).toEqual(Float32Array.of(2, 0, 0));
    run(one.session, one.clear);
    expect(run(one.session, one.add, [0, 0, 1])).toEqual(Float32Array.of(0, 0, 2));
    one.session.dispose();
    other.session.dispose();
  });

  it('reports what is wrong with a graph, and leaves no folder behind', () => {
    // A folder of its own: other processes make graphs meanwhile.
    const temporary = mkdtempSync(join(tmpdir(), 'longhaul-graphs-of-a-test-'));
    vi.stubEnv('TMPDIR', temporary);
    onTestFinished(() => {
      vi.unstubAllEnvs();
      rmSync(temporary, { recursive: true });
    });
    const graph = new GraphBuilder();
    graph.run('NoSuchOp', {}, []);
    expect(() => new GraphSession(graph.nodes)).toThrow(/NoSuchOp/);
    const { session, add } = counter();
    expect(() => run(session, add, [1, 2, 3])).toThrow(/uninitialized|not been initialized/i);
    expect(() => run(session, { ...add, output: 'nothing' as Edge }, [1, 2, 3])).toThrow(/nothing|not be found/);
    session.dispose();
    expect(readdirSync(temporary)).toEqual([]);
  });

  it('holds no memory for ended runs', () => {
    const graph = new GraphBuilder();
    const given = graph.placeholder('float32');
    const sum = graph.run('AddV2', attributes.elementwise, [given, given]);
    const session = new GraphSession(graph.nodes);
    const what = signature([given], sum);
    const size = 2 ** 18;
    const repeat = (times: number) => {
      for (let i = 0; i < times; i += 1) {
        inFrame((frame) => {
          frame.keep(session.run(what, [frame.floats([size], new Float32Array(size))]));
        });
      }
      return process.memoryUsage().rss;
    };
    const before = repeat(100);
    // Results and arguments of 400 runs are 800 MiB: if they were kept, it would show.
    expect(repeat(400) - before).toBeLessThan(200 * 2 ** 20);
    session.dispose();
  });
});
