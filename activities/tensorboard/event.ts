/** TensorFlow's `Event` message in protobuf's wire format: the few fields that scalars need (`event.proto`, `summary.proto`). */

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

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) | 0x80);
  return Buffer.from([...bytes, rest]);
}

function double(field: number, value: number): Buffer {
  const bytes = Buffer.alloc(9);
  bytes[0] = key(field, FIXED64);
  bytes.writeDoubleLE(value, 1);
  return bytes;
}

function float(field: number, value: number): Buffer {
  const bytes = Buffer.alloc(5);
  bytes[0] = key(field, FIXED32);
  bytes.writeFloatLE(value, 1);
  return bytes;
}

function message(field: number, ...parts: readonly Buffer[]): Buffer {
  const body = Buffer.concat(parts);
  return Buffer.concat([Buffer.from([key(field, LENGTH)]), varint(body.length), body]);
}

/** The first event of every file: it names the format. `wallTime` in seconds since the epoch. */
export function versionEvent(wallTime: number): Buffer {
  return Buffer.concat([double(1, wallTime), message(3, Buffer.from('brain.Event:2'))]);
}

export function scalarEvent({ wallTime, step, scalars }: ScalarEvent): Buffer {
  const values = scalars.map(([tag, value]) => message(1, message(1, Buffer.from(tag)), float(2, value)));
  // Protobuf leaves out an integer that is 0.
  const stepField = step === 0 ? [] : [Buffer.from([key(2, VARINT)]), varint(step)];
  return Buffer.concat([double(1, wallTime), ...stepField, message(5, ...values)]);
}
