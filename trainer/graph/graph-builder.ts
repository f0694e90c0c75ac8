/**
 * A TensorFlow graph under construction. The inputs of an op are added before the op, and a variable is read only after
 * the writes that were added before the read.
 */

/** Values of `tensorflow.DataType`. */
export const dtypes = { float32: 1, int32: 3, resource: 20 } as const;
export type GraphDtype = keyof typeof dtypes;

/** The one field of `tensorflow.AttrValue` that is set. */
export type AttrValue =
  | { readonly type: GraphDtype }
  | { readonly int: number }
  | { readonly bool: boolean }
  | { readonly text: string }
  | { readonly shape: readonly number[] }
  | { readonly tensor: { readonly shape: readonly number[]; readonly data: Float32Array | Int32Array } };

export type Attributes = Readonly<Record<string, AttrValue>>;

export interface GraphNode {
  readonly name: string;
  readonly op: string;
  /** Names of nodes: `NAME:OUTPUT` for outputs after the first, `^NAME` for a node that only has to run before. */
  readonly inputs: readonly string[];
  readonly attributes: Attributes;
}

/** An output of a node, in GraphDef's own notation. */
export type Edge = string & { readonly brand: 'edge' };

export class GraphBuilder {
  readonly nodes: GraphNode[] = [];
  readonly #variables = new Set<Edge>();
  readonly #constants = new Map<string, Edge>();
  /** The last write to each variable in this section. */
  #writers = new Map<Edge, Edge>();

  /** Starts a section, which is run by itself: its ops do not wait for writes of earlier sections. */
  beginSection(): void {
    this.#writers = new Map();
  }

  /** A value that each run of the graph receives. */
  placeholder(dtype: GraphDtype): Edge {
    return this.run('Placeholder', { dtype: { type: dtype } }, []);
  }

  /** A float32 variable of the session. */
  variable(shape: readonly number[]): Edge {
    const shared = { text: `v${this.nodes.length}` };
    const handle = this.run('VarHandleOp', { dtype: { type: 'float32' }, shape: { shape }, shared_name: shared }, []);
    this.#variables.add(handle);
    return handle;
  }

  floats(shape: readonly number[], data: Float32Array): Edge {
    return this.run('Const', { dtype: { type: 'float32' }, value: { tensor: { shape, data } } }, []);
  }

  /** A constant vector of integers: a shape, a permutation, sizes. */
  integers(...values: readonly number[]): Edge {
    return this.#integers([values.length], values);
  }

  /** A constant scalar integer: an axis. */
  integer(value: number): Edge {
    return this.#integers([], [value]);
  }

  /** Adds an op with one result. */
  run(op: string, attributes: Attributes, inputs: readonly Edge[]): Edge {
    const name = `n${this.nodes.length}` as Edge;
    this.nodes.push({ name, op, inputs: [...inputs, ...this.#writesBefore(inputs)], attributes });
    return name;
  }

  /** Adds an op with several results. */
  split(op: string, attributes: Attributes, inputs: readonly Edge[], outputs: number): Edge[] {
    const name = this.run(op, attributes, inputs);
    return Array.from({ length: outputs }, (_, i) => (i === 0 ? name : (`${name}:${i}` as Edge)));
  }

  /** Adds an op that changes `variable`. */
  write(op: string, attributes: Attributes, variable: Edge, inputs: readonly Edge[]): void {
    this.#writers.set(variable, this.run(op, attributes, [variable, ...inputs]));
  }

  /** A value that is available when all writes of this section are done. */
  written(): Edge {
    const name = `n${this.nodes.length}` as Edge;
    const value = { tensor: { shape: [], data: Int32Array.of(1) } };
    const inputs = [...this.#writers.values()].map((writer) => `^${writer}`);
    this.nodes.push({ name, op: 'Const', inputs, attributes: { dtype: { type: 'int32' }, value } });
    return name;
  }

  #writesBefore(inputs: readonly Edge[]): string[] {
    const writers = inputs.flatMap((input) => (this.#variables.has(input) ? (this.#writers.get(input) ?? []) : []));
    return [...new Set(writers)].map((writer) => `^${writer}`);
  }

  #integers(shape: readonly number[], values: readonly number[]): Edge {
    const key = `${shape.length} ${values.join()}`;
    const known = this.#constants.get(key);
    if (known !== undefined) return known;
    const value = { tensor: { shape, data: Int32Array.from(values) } };
    const edge = this.run('Const', { dtype: { type: 'int32' }, value }, []);
    this.#constants.set(key, edge);
    return edge;
  }
}
