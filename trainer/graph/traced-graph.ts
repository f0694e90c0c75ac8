/**
 * Ops that are recorded first and then run as one graph. The same ops give the same graph, which is made once and kept.
 * What differs from run to run (tensors, shapes) is fed, so that a graph serves batches of any size.
 */

import { type OpAttribute, type TensorMetadata, attributeTypes, dtypeOf } from '../tensorflow.ts';
import { type Frame, type TensorId, inFrame } from './device-tensors.ts';
import { type AttrValue, type Attributes, type Edge, GraphBuilder, type GraphDtype } from './graph-builder.ts';
import { GraphSession } from './graph-session.ts';

/** A result that is not computed yet. */
export class Traced {
  readonly index: number;
  constructor(index: number) {
    this.index = index;
  }
}

type Step =
  | { readonly kind: 'feed'; readonly dtype: GraphDtype }
  | { readonly kind: 'integers'; readonly values: number | readonly number[] }
  | {
      readonly kind: 'op';
      readonly op: string;
      readonly attributes: readonly OpAttribute[];
      readonly inputs: readonly number[];
      readonly outputs: number;
    };

interface Numbers {
  readonly shape: readonly number[];
  readonly values: Int32Array | Float32Array;
}

/** An existing tensor, or numbers that become a tensor for one run. */
type Feed = TensorId | Numbers;

interface Compiled {
  readonly session: GraphSession;
  readonly inputs: string;
  readonly outputs: string;
}

/** The most graphs that are kept. They are small and few: they differ by attention chunks, family, wanted results. */
const KEPT_GRAPHS = 128;
const compiled = new Map<string, Compiled>();

const described = ({ name, value }: OpAttribute): string => `${name}=${String(value)}`;

function keyOf(step: Step): string {
  if (step.kind === 'feed') return step.dtype;
  if (step.kind === 'integers') return typeof step.values === 'number' ? `#${step.values}` : `[${step.values.join()}]`;
  return `${step.op} ${step.attributes.map(described).join()} ${step.inputs.join()} ${step.outputs}`;
}

function attributeOf({ name, type, value }: OpAttribute): AttrValue {
  if (type === attributeTypes.type && typeof value === 'number') return { type: dtypeOf(value) };
  if (type === attributeTypes.bool && typeof value === 'boolean') return { bool: value };
  if (type === attributeTypes.int && typeof value === 'number') return { int: value };
  throw new TypeError(`the attribute ${name} = ${String(value)} cannot be used in a graph`);
}

const attributesOf = (attributes: readonly OpAttribute[]): Attributes =>
  Object.fromEntries(attributes.map((attribute) => [attribute.name, attributeOf(attribute)]));

export class TracedGraph {
  readonly #steps: Step[] = [];
  readonly #feeds: Feed[] = [];
  readonly #known = new Map<TensorId, Traced>();
  #values = 0;

  /** A tensor from outside; it must live until the run. */
  given(id: TensorId, dtype: GraphDtype): Traced {
    const known = this.#known.get(id);
    if (known !== undefined) return known;
    const traced = this.#feed(dtype, id);
    this.#known.set(id, traced);
    return traced;
  }

  /** Numbers that may differ in another run: shapes, offsets, factors. */
  changing(numbers: Numbers): Traced {
    return this.#feed(numbers.values instanceof Int32Array ? 'int32' : 'float32', numbers);
  }

  /** Integers that belong to the graph: axes, permutations. */
  integers(values: number | readonly number[]): Traced {
    return this.#step({ kind: 'integers', values }, 1);
  }

  run(op: string, attributes: readonly OpAttribute[], inputs: readonly Traced[], outputs: number): Traced[] {
    const first = this.#step(
      { kind: 'op', op, attributes, inputs: inputs.map(({ index }) => index), outputs },
      outputs,
    );
    return Array.from({ length: outputs }, (_, i) => (i === 0 ? first : new Traced(first.index + i)));
  }

  /** Computes `wanted`, in order, and nothing that they do not need. */
  compute(wanted: readonly Traced[]): readonly TensorMetadata[] {
    const { session, inputs, outputs } = this.#compiled(wanted);
    return inFrame((frame) => {
      return session.runAll(
        inputs,
        outputs,
        this.#feeds.map((feed) => (typeof feed === 'number' ? feed : tensorIn(frame, feed))),
      );
    });
  }

  #feed(dtype: GraphDtype, feed: Feed): Traced {
    this.#feeds.push(feed);
    return this.#step({ kind: 'feed', dtype }, 1);
  }

  #step(step: Step, outputs: number): Traced {
    const traced = new Traced(this.#values);
    this.#values += outputs;
    this.#steps.push(step);
    return traced;
  }

  #compiled(wanted: readonly Traced[]): Compiled {
    const key = [...this.#steps.map(keyOf), ...wanted.map(({ index }) => index)].join('\n');
    const known = compiled.get(key) ?? this.#compile(wanted);
    // The graph that was used longest ago comes first.
    compiled.delete(key);
    compiled.set(key, known);
    for (const [old, { session }] of compiled) {
      if (compiled.size <= KEPT_GRAPHS) break;
      session.dispose();
      compiled.delete(old);
    }
    return known;
  }

  #compile(wanted: readonly Traced[]): Compiled {
    const graph = new GraphBuilder();
    const edges: Edge[] = [];
    const fed: Edge[] = [];
    for (const step of this.#steps) {
      const made = addStep(graph, step, edges);
      if (step.kind === 'feed') fed.push(...made);
      edges.push(...made);
    }
    const named = wanted.map(({ index }) => edgeAt(edges, index));
    return { session: new GraphSession(graph.nodes), inputs: fed.join(), outputs: named.join() };
  }
}

const tensorIn = (frame: Frame, { shape, values }: Numbers): TensorId =>
  values instanceof Int32Array ? frame.ints(shape, values) : frame.floats(shape, values);

function addStep(graph: GraphBuilder, step: Step, edges: readonly Edge[]): Edge[] {
  if (step.kind === 'feed') return [graph.placeholder(step.dtype)];
  if (step.kind === 'integers')
    return [typeof step.values === 'number' ? graph.integer(step.values) : graph.integers(...step.values)];
  return graph.split(
    step.op,
    attributesOf(step.attributes),
    step.inputs.map((index) => edgeAt(edges, index)),
    step.outputs,
  );
}

function edgeAt(edges: readonly Edge[], index: number): Edge {
  const edge = edges[index];
  if (edge === undefined) throw new RangeError(`the graph has no value ${index}`);
  return edge;
}
