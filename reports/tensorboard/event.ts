/** TensorFlow's `Event` message in protobuf's wire format: the few fields that scalars need (`event.proto`, `summary.proto`). */

import protobuf from 'protobufjs/minimal.js';

export interface ScalarEvent {
  /** Seconds since the epoch. */
  readonly wallTime: number;
  /** Optimizer steps done. */
  readonly step: number;
  /** Tags with their values, which are kept as float32. */
  readonly scalars: ReadonlyArray<readonly [tag: string, value: number]>;
}

const VARINT = 0;
const FIXED64 = 1;
const LENGTH = 2;
const FIXED32 = 5;

const key = (field: number, wireType: number) => (field << 3) | wireType;

/** An `Event` with its time; its other fields follow. */
function eventAt(wallTime: number): protobuf.Writer {
  return protobuf.Writer.create().uint32(key(1, FIXED64)).double(wallTime);
}

/** The first event of every file: it names the format. `wallTime` in seconds since the epoch. */
export function versionEvent(wallTime: number): Uint8Array {
  return eventAt(wallTime).uint32(key(3, LENGTH)).string('brain.Event:2').finish();
}

export function scalarEvent({ wallTime, step, scalars }: ScalarEvent): Uint8Array {
  const event = eventAt(wallTime);
  // Protobuf leaves out an integer that is 0.
  if (step !== 0) event.uint32(key(2, VARINT)).int64(step);
  const summary = event.uint32(key(5, LENGTH)).fork();
  for (const [tag, value] of scalars) {
    const one = summary.uint32(key(1, LENGTH)).fork();
    one.uint32(key(1, LENGTH)).string(tag).uint32(key(2, FIXED32)).float(value).ldelim();
  }
  return summary.ldelim().finish();
}
