/**
 * The client of one sandbox's supervisor. Requests are idempotent by their call id, so after a lost connection the
 * client reconnects and sends the request again. The sandbox counts as lost only if no process listens on its socket.
 */

import { constants } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';

import {
  type DoorNews,
  type DoorState,
  type ExecCall,
  type ExecResult,
  type ReadResult,
  type ShellState,
  type WriteCall,
  SandboxLost,
  SandboxUnavailable,
} from '../sandbox.ts';
import { type Answer, ConnectionClosed, type Dial, SupervisorConnection } from './connection.ts';
import { FrameReader, FrameWriter } from './wire.ts';

const op = {
  hello: 1,
  init: 2,
  exec: 3,
  read: 4,
  write: 5,
  written: 6,
  renew: 7,
  end: 8,
  state: 9,
  resume: 10,
  doorOpen: 11,
  doorWait: 12,
  doorAnswer: 13,
  error: 127,
} as const;
const flag = { timedOut: 1, outOfMemory: 2, shellRestarted: 4 } as const;
const doorFlag = { ended: 1, gone: 2, full: 4 } as const;
/**
 * Pauses before further attempts: a dying supervisor still accepts connections for a moment, and closes them unread.
 */
const RECONNECT_AFTER_MS = [0, 50, 250];
/** The supervisor's maximum frame, minus its header. */
const MAX_SPEC_BYTES = (64 << 20) - 16;
const GONE = new Set(['ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ENOTDIR']);

/** The spec that a sandbox receives once. A limit of 0 means no limit. `env`: `KEY=VALUE` strings. */
export interface SupervisorSpec {
  readonly workdir: string;
  readonly ttlMs: number;
  readonly openFiles: number;
  readonly fileBytes: number;
  readonly processes: number;
  readonly addressBytes: number;
  readonly env: readonly string[];
  readonly files: ReadonlyArray<{
    readonly path: string;
    readonly mode: number;
    readonly content: Uint8Array | string;
  }>;
}

export interface WriteOutcome {
  readonly note: string;
  readonly error?: string;
}

const signalNames = new Map<number, string>(Object.entries(constants.signals).map(([name, number]) => [number, name]));

function execResult(body: Buffer): ExecResult {
  const reader = new FrameReader(body);
  const flags = reader.u8();
  const code = reader.i32();
  const signal = reader.u32();
  const droppedBytes = reader.u64();
  const durationMs = reader.u32();
  const output = joinOutput(reader.bytes(), reader.bytes(), droppedBytes);
  const cpuMs = reader.u32();
  const timedOut = (flags & flag.timedOut) !== 0;
  // A call that timed out always ends the shell, and `timedOut` reports that already.
  const restarted = (flags & flag.shellRestarted) !== 0 && !timedOut;
  return {
    exitCode: code < 0 ? null : code,
    signal: signal === 0 ? null : (signalNames.get(signal) ?? `signal ${signal}`),
    output: restarted ? `${output}${output === '' || output.endsWith('\n') ? '' : '\n'}[shell restarted]\n` : output,
    droppedBytes,
    timedOut,
    outOfMemory: (flags & flag.outOfMemory) !== 0,
    durationMs,
    cpuMs,
  };
}

function readResult(body: Buffer): ReadResult {
  const reader = new FrameReader(body);
  switch (reader.u8()) {
    case 0:
      return { kind: 'file', content: reader.bytes() };
    case 1:
      return { kind: 'directory', entries: Array.from({ length: reader.u32() }, () => reader.text()) };
    case 2:
      return { kind: 'missing' };
    case 3:
      return { kind: 'denied', reason: reader.text() };
    default:
      return { kind: 'too-large', bytes: reader.u64() };
  }
}

function writeOutcome(reader: FrameReader): WriteOutcome {
  const note = reader.text();
  const error = reader.text();
  return error === '' ? { note } : { note, error };
}

function encodeSpec(spec: SupervisorSpec): Buffer {
  const writer = new FrameWriter().bytes(spec.workdir).u64(spec.ttlMs).u64(spec.openFiles).u64(spec.fileBytes);
  writer.u64(spec.processes).u64(spec.addressBytes).u32(spec.env.length);
  for (const variable of spec.env) writer.bytes(variable);
  writer.u32(spec.files.length);
  for (const file of spec.files) writer.bytes(file.path).u32(file.mode).bytes(file.content);
  return writer.finish();
}

export class SupervisorClient {
  private readonly dial: Dial;
  private readonly sandboxId: string;
  private connection: Promise<SupervisorConnection> | undefined;
  private closed = false;

  constructor(sandboxId: string, dial: Dial) {
    this.sandboxId = sandboxId;
    this.dial = dial;
  }

  /** True if the sandbox has its spec already. */
  async hello(): Promise<boolean> {
    return (await this.request(op.hello, Buffer.alloc(0))).readUInt8(0) === 1;
  }

  /** True if the supervisor answers. Closes this client. */
  async answers(): Promise<boolean> {
    try {
      await this.hello();
      return true;
    } catch {
      return false;
    } finally {
      this.close();
    }
  }

  /** Gives the sandbox its spec. Returns false, and changes nothing, if it had one already. */
  async init(spec: SupervisorSpec): Promise<boolean> {
    const body = encodeSpec(spec);
    if (body.length > MAX_SPEC_BYTES)
      throw new SandboxUnavailable(
        `sandbox ${this.sandboxId}: its files are ${body.length} bytes; at most ${MAX_SPEC_BYTES} fit`,
      );
    return (await this.request(op.init, body)).readUInt8(0) === 1;
  }

  async exec(call: ExecCall): Promise<ExecResult> {
    const writer = new FrameWriter().bytes(call.callId).u8(call.alone === true ? 2 : call.fresh === true ? 1 : 0);
    writer
      .u32(Math.max(1, Math.min(call.timeoutMs, 0xffff_ffff)))
      .u32(call.outputLimit)
      .bytes(call.command);
    writer.u32(Math.min(call.cpuMs ?? 0, 0xffff_ffff));
    return execResult(await this.request(op.exec, writer.finish()));
  }

  async read(path: string, maxBytes: number): Promise<ReadResult> {
    return readResult(await this.request(op.read, new FrameWriter().bytes(path).u64(maxBytes).finish()));
  }

  async write(call: WriteCall): Promise<WriteOutcome> {
    const writer = new FrameWriter().bytes(call.callId).bytes(call.path).bytes(call.note).bytes(call.content);
    return writeOutcome(new FrameReader(await this.request(op.write, writer.finish())));
  }

  async written(callId: string): Promise<WriteOutcome | undefined> {
    const reader = new FrameReader(await this.request(op.written, new FrameWriter().bytes(callId).finish()));
    return reader.u8() === 1 ? writeOutcome(reader) : undefined;
  }

  async renew(ttlMs: number): Promise<void> {
    await this.request(op.renew, new FrameWriter().u64(ttlMs).finish());
  }

  async state(): Promise<ShellState> {
    const reader = new FrameReader(await this.request(op.state, Buffer.alloc(0)));
    return { directory: reader.text(), exports: reader.text() };
  }

  async resume({ directory, exports }: ShellState): Promise<void> {
    await this.request(op.resume, new FrameWriter().bytes(directory).bytes(exports).finish());
  }

  async openDoor(port: number): Promise<number> {
    return new FrameReader(await this.request(op.doorOpen, new FrameWriter().u32(port).finish())).u32();
  }

  async doorNews(seen: number, known: readonly DoorState[]): Promise<readonly DoorNews[]> {
    const writer = new FrameWriter().u64(seen).u32(known.length);
    for (const { connection, bytes, ended, full } of known)
      writer
        .u64(connection)
        .u64(bytes)
        .u8((ended ? doorFlag.ended : 0) | (full ? doorFlag.full : 0));
    const reader = new FrameReader(await this.request(op.doorWait, writer.finish()));
    return Array.from({ length: reader.u32() }, () => {
      const connection = reader.u64();
      const flags = reader.u8();
      const has = (flag: number): boolean => (flags & flag) !== 0;
      return {
        connection,
        ended: has(doorFlag.ended),
        gone: has(doorFlag.gone),
        full: has(doorFlag.full),
        from: reader.u64(),
        chunk: reader.bytes(),
      };
    });
  }

  async answerDoor(connection: number, bytes: Uint8Array): Promise<boolean> {
    const body = new FrameWriter().u64(connection).bytes(bytes).finish();
    return (await this.request(op.doorAnswer, body)).readUInt8(0) === 1;
  }

  close(): void {
    this.closed = true;
    this.connection?.then(
      (open) => open.close(),
      () => undefined,
    );
    this.connection = undefined;
  }

  private async request(operation: number, body: Buffer): Promise<Buffer> {
    for (const pause of [...RECONNECT_AFTER_MS, undefined]) {
      const answer = await this.attempt(operation, body);
      if (answer?.op === op.error)
        throw new SandboxUnavailable(`sandbox ${this.sandboxId}: ${new FrameReader(answer.body).text()}`);
      if (answer !== undefined) return answer.body;
      if (pause !== undefined) await sleep(pause);
    }
    throw new SandboxUnavailable(`sandbox ${this.sandboxId}: its supervisor closes every connection`);
  }

  /** Returns `undefined` if the connection closed before the answer. */
  private async attempt(operation: number, body: Buffer): Promise<Answer | undefined> {
    const connection = await this.connected();
    try {
      return await connection.request(operation, body);
    } catch (error) {
      if (!(error instanceof ConnectionClosed)) throw error;
      if (this.closed) throw new SandboxUnavailable(`sandbox ${this.sandboxId}: this handle was closed`);
      return undefined;
    }
  }

  private async connected(): Promise<SupervisorConnection> {
    if (this.closed) throw new SandboxUnavailable(`sandbox ${this.sandboxId}: this handle was closed`);
    const opening = this.connection;
    if (opening !== undefined) {
      const open = await opening;
      if (!open.closed) return open;
      if (this.connection !== opening) return await this.connected();
    }
    this.connection = SupervisorConnection.open(this.dial);
    try {
      return await this.connection;
    } catch (error) {
      this.connection = undefined;
      if (error instanceof SandboxLost || error instanceof SandboxUnavailable) throw error;
      const code = error instanceof Error && 'code' in error ? String(error.code) : '';
      if (GONE.has(code)) throw new SandboxLost(`sandbox ${this.sandboxId} is gone (${code})`);
      throw new SandboxUnavailable(`sandbox ${this.sandboxId} cannot be reached: ${String(error)}`);
    }
  }
}

/** Decodes a command's output: invalid UTF-8 becomes U+FFFD. A cut never splits a character (see `joinOutput`). */
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

const isContinuation = (byte: number | undefined): boolean => byte !== undefined && (byte & 0xc0) === 0x80;

/** Length in bytes without an incomplete character at the end. */
function wholeEnd(bytes: Uint8Array): number {
  let lead = bytes.length - 1;
  while (lead > 0 && lead > bytes.length - 4 && isContinuation(bytes[lead])) lead -= 1;
  const first = bytes[lead] ?? 0;
  const needed = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
  return lead + needed > bytes.length ? Math.max(lead, 0) : bytes.length;
}

/** Joins the head and the tail of an output. If bytes were dropped between them, a line gives their number. */
export function joinOutput(head: Uint8Array, tail: Uint8Array, droppedBytes: number): string {
  if (droppedBytes === 0) return decoder.decode(Buffer.concat([head, tail]));
  let start = 0;
  while (start < 3 && isContinuation(tail[start])) start += 1;
  const before = decoder.decode(head.subarray(0, wholeEnd(head)));
  return `${before}\n[${droppedBytes} bytes dropped]\n${decoder.decode(tail.subarray(start))}`;
}
