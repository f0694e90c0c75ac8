/**
 * A decoder of one shape with its key-value cache, as one TensorFlow graph: a pass is one call. The cache is in
 * variables that are updated in place, and a pass reads only the pages that it needs.
 */

import { attributes } from '../../../graph/attributes.ts';
import { type Frame, inFrame, type TensorId } from '../../../graph/device-tensors.ts';
import { type Edge, GraphBuilder } from '../../../graph/graph-builder.ts';
import { GraphSession, type Signature, signature } from '../../../graph/graph-session.ts';
import { type ModelConfig, hasBiases } from '../../../model/config.ts';
import { type BatchPlan, type CacheLayout, decodeQueries, pageCount, pageSize } from './batch-plan.ts';
import {
  addPass,
  type ConstantEdges,
  type DecoderEdges,
  type LayerEdges,
  type PlanEdges,
  type WidthEdges,
} from './decoder-graph.ts';
import { layerShapes, layerTensors, type SamplerModel } from './sampler-model.ts';

/** Added to scores of positions that a query does not see: `exp` of it is exactly 0. */
const HIDDEN = -1e9;

/** Passes of one token per row, and of several. */
interface PassSignatures {
  readonly decode: Signature;
  readonly prefill: Signature;
}

interface Signatures {
  readonly clear: Signature;
  readonly assign: Signature;
  readonly copyKeysAndValues: Signature;
  readonly plain: PassSignatures;
  readonly shifted: PassSignatures;
}

export class DecoderSession {
  readonly layout: CacheLayout;
  readonly #config: ModelConfig;
  readonly #session: GraphSession;
  readonly #signatures: Signatures;
  /** The model whose weights the session's variables hold. */
  #assigned: SamplerModel | undefined;

  /** `positions`: number of positions in the rotary tables of its models. */
  constructor(config: ModelConfig, positions: number, layout: CacheLayout) {
    this.layout = layout;
    this.#config = config;
    const graph = new GraphBuilder();
    this.#signatures = addSignatures(graph, config, positions, layout);
    this.#session = new GraphSession(graph.nodes);
    try {
      inFrame((frame) => this.#run(frame, this.#signatures.clear, []));
    } catch (error) {
      this.#session.dispose();
      throw error;
    }
  }

  /** The logits of each planned row's last token, `[last.length, vocab]`; keys and values go to the cache. */
  forward(model: SamplerModel, plan: BatchPlan): Float32Array {
    return inFrame((frame) => {
      this.#assign(frame, model);
      const kinds = model.shifted ? this.#signatures.shifted : this.#signatures.plain;
      const feeds = planTensors(frame, plan);
      if (plan.width === 1) return frame.readFloats(this.#run(frame, kinds.decode, feeds));
      return frame.readFloats(this.#run(frame, kinds.prefill, [...feeds, ...this.#widthTensors(frame, plan.width)]));
    });
  }

  /** Copies whole pages `from[i]` to `to[i]` in every layer. */
  copyPages(from: readonly number[], to: readonly number[]): void {
    inFrame((frame) => {
      const ids = [from, to].map((pages) => frame.ints([pages.length], Int32Array.from(pages)));
      this.#run(frame, this.#signatures.copyKeysAndValues, ids);
    });
  }

  /** Frees the memory. The session cannot be used afterwards. */
  dispose(): void {
    this.#session.dispose();
  }

  #assign(frame: Frame, model: SamplerModel): void {
    if (this.#assigned === model) return;
    // If assigning fails, the variables hold neither model.
    this.#assigned = undefined;
    this.#run(frame, this.#signatures.assign, model.tensors);
    this.#assigned = model;
  }

  /** In the order of `WidthEdges`. */
  #widthTensors(frame: Frame, width: number): TensorId[] {
    const { heads, kvHeads, headDim } = this.#config;
    const group = heads / kvHeads;
    return [
      [-1, width, kvHeads, group * headDim],
      [-1, kvHeads, width * group, headDim],
      [-1, kvHeads, width, group * headDim],
      [-1, kvHeads, width * group, 1],
    ].map((shape) => frame.ints([shape.length], Int32Array.from(shape)));
  }

  #run(frame: Frame, what: Signature, feeds: readonly TensorId[]): TensorId {
    return frame.keep(this.#session.run(what, feeds));
  }
}

/** In the order of `PlanEdges`. */
function planTensors(frame: Frame, plan: BatchPlan): TensorId[] {
  return [
    frame.ints([plan.tokens.length], plan.tokens),
    frame.ints([plan.positions.length], plan.positions),
    frame.ints([plan.scatter.length / 3, 3], plan.scatter),
    frame.ints([plan.chunks], plan.pages),
    frame.ints([plan.chunks], plan.chunkRows),
    frame.ints([plan.chunks, 1, plan.queries], plan.visible),
    frame.ints([plan.last.length], plan.last),
  ];
}

interface Variables {
  readonly embedding: Edge;
  readonly head: Edge;
  readonly layers: readonly LayerEdges[];
}

function addVariables(graph: GraphBuilder, config: ModelConfig, positions: number, layout: CacheLayout): Variables {
  const { hiddenSize, vocabSize, headDim } = config;
  const shapes = layerShapes(config, positions);
  const cache = [pageCount(layout), layout.kvHeads, pageSize, headDim];
  return {
    embedding: graph.variable([vocabSize, hiddenSize]),
    head: graph.variable([hiddenSize, vocabSize]),
    layers: Array.from({ length: config.layers }, () => ({
      qk: graph.variable(shapes.qk),
      v: graph.variable(shapes.v),
      rope: graph.variable(shapes.rope),
      output: graph.variable(shapes.output),
      gate: graph.variable(shapes.gate),
      up: graph.variable(shapes.up),
      down: graph.variable(shapes.down),
      ...(hasBiases(config) ? { qkBias: graph.variable(shapes.qkBias), vBias: graph.variable(shapes.vBias) } : {}),
      keys: graph.variable(cache),
      values: graph.variable(cache),
    })),
  };
}

function addConstants(graph: GraphBuilder, { hiddenSize, headDim, normEpsilon }: ModelConfig): ConstantEdges {
  return {
    masks: graph.floats([pageSize + 1, pageSize], maskTable()),
    meanOfHidden: graph.floats([hiddenSize, 1], new Float32Array(hiddenSize).fill(1 / hiddenSize)),
    meanOfHead: graph.floats([2 * headDim, 1], new Float32Array(2 * headDim).fill(0.5 / headDim)),
    addHalves: graph.floats([2 * headDim, headDim], stackedIdentity(headDim)),
    ones: graph.floats([pageSize, 1], new Float32Array(pageSize).fill(1)),
    epsilon: graph.floats([], Float32Array.of(normEpsilon)),
  };
}

const caches = ({ layers }: Variables): Edge[] => layers.flatMap(({ keys, values }) => [keys, values]);

function addSignatures(graph: GraphBuilder, config: ModelConfig, positions: number, layout: CacheLayout): Signatures {
  const variables = addVariables(graph, config, positions, layout);
  const constants = addConstants(graph, config);
  const decoder = readWeights(graph, variables, constants);
  const plan = planPlaceholders(graph);
  const widths = widthPlaceholders(graph);
  const pass = (shifted: boolean, several: boolean): Signature => {
    graph.beginSection();
    const kind = { widths: several ? widths : null, queries: decodeQueries(layout), shifted };
    const logits = addPass(graph, config, decoder, plan, kind);
    return signature([...Object.values(plan), ...(several ? Object.values(widths) : [])], logits);
  };
  return {
    clear: addClear(graph, variables, layout, config.headDim),
    assign: addAssign(graph, config, variables),
    copyKeysAndValues: addCopy(graph, variables),
    plain: { decode: pass(false, false), prefill: pass(false, true) },
    shifted: { decode: pass(true, false), prefill: pass(true, true) },
  };
}

function readWeights(graph: GraphBuilder, variables: Variables, constants: ConstantEdges): DecoderEdges {
  const read = (variable: Edge): Edge => graph.run('ReadVariableOp', attributes.read, [variable]);
  return {
    embedding: read(variables.embedding),
    head: read(variables.head),
    layers: variables.layers.map((layer) => ({
      ...layer,
      qk: read(layer.qk),
      v: read(layer.v),
      rope: read(layer.rope),
      output: read(layer.output),
      gate: read(layer.gate),
      up: read(layer.up),
      down: read(layer.down),
      ...(layer.qkBias === undefined ? {} : { qkBias: read(layer.qkBias) }),
      ...(layer.vBias === undefined ? {} : { vBias: read(layer.vBias) }),
    })),
    constants,
  };
}

function planPlaceholders(graph: GraphBuilder): PlanEdges {
  const ints = (): Edge => graph.placeholder('int32');
  return {
    tokens: ints(),
    positions: ints(),
    scatter: ints(),
    pages: ints(),
    chunkRows: ints(),
    visible: ints(),
    last: ints(),
  };
}

function widthPlaceholders(graph: GraphBuilder): WidthEdges {
  const ints = (): Edge => graph.placeholder('int32');
  return { apart: ints(), grouped: ints(), swapped: ints(), sums: ints() };
}

function addClear(graph: GraphBuilder, variables: Variables, layout: CacheLayout, headDim: number): Signature {
  graph.beginSection();
  const shape = graph.integers(pageCount(layout), layout.kvHeads, pageSize, headDim);
  const zero = graph.floats([], new Float32Array(1));
  for (const cache of caches(variables)) {
    // Each variable gets its own zeros: TensorFlow copies a shared tensor before it writes in place.
    graph.write('AssignVariableOp', attributes.assign, cache, [graph.run('Fill', attributes.fill, [shape, zero])]);
  }
  return signature([], graph.written());
}

/** Takes a model's tensors in the order of `SamplerModel.tensors`. */
function addAssign(graph: GraphBuilder, config: ModelConfig, { embedding, head, layers }: Variables): Signature {
  graph.beginSection();
  const targets = [
    embedding,
    head,
    ...layers.flatMap((layer) => layerTensors(config).flatMap((name) => layer[name] ?? [])),
  ];
  const given = targets.map(() => graph.placeholder('float32'));
  targets.forEach((target, i) => {
    graph.write('AssignVariableOp', attributes.assign, target, given.slice(i, i + 1));
  });
  return signature(given, graph.written());
}

function addCopy(graph: GraphBuilder, variables: Variables): Signature {
  graph.beginSection();
  const [from, to] = [graph.placeholder('int32'), graph.placeholder('int32')];
  for (const cache of caches(variables)) {
    const rows = graph.run('ResourceGather', attributes.gatherVariable, [cache, from]);
    graph.write('ResourceScatterUpdate', attributes.scatterRows, cache, [to, rows]);
  }
  return signature([from, to], graph.written());
}

function maskTable(): Float32Array {
  const table = new Float32Array((pageSize + 1) * pageSize);
  for (let seen = 0; seen <= pageSize; seen++) table.fill(HIDDEN, seen * pageSize + seen, (seen + 1) * pageSize);
  return table;
}

function stackedIdentity(size: number): Float32Array {
  const out = new Float32Array(2 * size * size);
  for (let i = 0; i < 2 * size; i++) out[i * size + (i % size)] = 1;
  return out;
}
