/** A graph as TensorFlow's SavedModel: protobuf messages of `saved_model.proto`, `graph.proto` and what they hold. */

import protobuf from 'protobufjs/minimal.js';
import { type AttrValue, dtypes, type GraphNode } from './graph-builder.ts';

type Writer = protobuf.Writer;

/** The tag that selects a SavedModel's graph. */
export const SERVE = 'serve';
/** GraphDef's version: that of TensorFlow 2. */
const PRODUCER = 1882;

const LENGTH = 2;
const VARINT = 0;
const field = (number: number, wireType: number): number => (number << 3) | wireType;

function message(writer: Writer, number: number, body: (inner: Writer) => void): void {
  body(writer.uint32(field(number, LENGTH)).fork());
  writer.ldelim();
}

const text = (writer: Writer, number: number, value: string): Writer =>
  writer.uint32(field(number, LENGTH)).string(value);
const int = (writer: Writer, number: number, value: number): Writer =>
  writer.uint32(field(number, VARINT)).int64(value);

/** `tensor_shape.proto`. */
function writeShape(writer: Writer, shape: readonly number[]): void {
  for (const size of shape) message(writer, 2, (dim) => void int(dim, 1, size));
}

/** `tensor.proto`, with the values as they are in memory: little-endian. */
function writeTensor(writer: Writer, shape: readonly number[], data: Float32Array | Int32Array): void {
  int(writer, 1, data instanceof Float32Array ? dtypes.float32 : dtypes.int32);
  message(writer, 2, (inner) => writeShape(inner, shape));
  writer.uint32(field(4, LENGTH)).bytes(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
}

/** `attr_value.proto`. */
function writeAttribute(writer: Writer, value: AttrValue): void {
  if ('type' in value) int(writer, 6, dtypes[value.type]);
  else if ('int' in value) int(writer, 3, value.int);
  else if ('bool' in value) writer.uint32(field(5, VARINT)).bool(value.bool);
  else if ('text' in value) text(writer, 2, value.text);
  else if ('shape' in value) message(writer, 7, (inner) => writeShape(inner, value.shape));
  else message(writer, 8, (inner) => writeTensor(inner, value.tensor.shape, value.tensor.data));
}

/** `node_def.proto`. */
function writeNode(writer: Writer, { name, op, inputs, attributes }: GraphNode): void {
  text(writer, 1, name);
  text(writer, 2, op);
  for (const input of inputs) text(writer, 3, input);
  for (const [key, value] of Object.entries(attributes)) {
    message(writer, 5, (entry) => {
      text(entry, 1, key);
      message(entry, 2, (inner) => writeAttribute(inner, value));
    });
  }
}

/** The bytes of `saved_model.pb`: one graph under the tag `SERVE`, without variables on disk and without signatures. */
export function encodeSavedModel(nodes: readonly GraphNode[]): Uint8Array {
  const writer = protobuf.Writer.create();
  int(writer, 1, 1);
  message(writer, 2, (metaGraph) => {
    message(metaGraph, 1, (info) => void text(info, 4, SERVE));
    message(metaGraph, 2, (graph) => {
      for (const node of nodes) message(graph, 1, (inner) => writeNode(inner, node));
      message(graph, 4, (versions) => void int(versions, 1, PRODUCER));
    });
  });
  return writer.finish();
}
