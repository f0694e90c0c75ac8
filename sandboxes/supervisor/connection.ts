/**
 * One connection to a supervisor: sends requests, and matches answers by tag. Every request ends: with an answer, or
 * with an error when the connection closes. A supervisor that leaves several pings unanswered counts as closed.
 */

import { closeSync, openSync } from 'node:fs';
import { type Socket, connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { dirname, basename } from 'node:path';

const MAX_SOCKET_PATH = 100;
const CONNECT_DEADLINE_MS = 10_000;
const PING_EVERY_MS = 5_000;
const PINGS_UNANSWERED = 6;
const PING_TAG = 0;
const HELLO = 1;
/** The supervisor's own maximum. A longer frame cannot be the supervisor's, and would fill the memory here. */
const MAX_FRAME = 64 << 20;

export interface Answer {
  readonly op: number;
  readonly body: Buffer;
}

/** The connection closed before the answer arrived. The request may be sent again on a new connection. */
export class ConnectionClosed extends Error {
  override readonly name = 'ConnectionClosed';
}

interface Pending {
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: Error) => void;
}

/** A stream to a supervisor. A socket can be unreferenced, so that it does not keep an idle process alive. */
export type Channel = Duplex & { ref?(): unknown; unref?(): unknown };

/** Opens a channel. Errors: one whose `code` means that no process listens on the socket; then the sandbox is gone. */
export type Dial = () => Promise<Channel>;

export const dialSocket =
  (path: string): Dial =>
  () =>
    openSocket(path);

/** Connects to a socket. A path longer than the kernel's 108 bytes is opened through its folder's descriptor. */
async function openSocket(path: string): Promise<Socket> {
  const folder = Buffer.byteLength(path) > MAX_SOCKET_PATH ? openSync(dirname(path), 'r') : undefined;
  const short = folder === undefined ? path : `/proc/self/fd/${folder}/${basename(path)}`;
  try {
    return await new Promise<Socket>((resolve, reject) => {
      const socket = connect(short);
      const late = setTimeout(() => socket.destroy(new Error('connecting took too long')), CONNECT_DEADLINE_MS);
      socket.once('error', (error) => {
        clearTimeout(late);
        reject(error);
      });
      socket.once('connect', () => {
        clearTimeout(late);
        resolve(socket);
      });
    });
  } finally {
    if (folder !== undefined) closeSync(folder);
  }
}

export class SupervisorConnection {
  private readonly socket: Channel;
  private readonly pending = new Map<number, Pending>();
  private chunks: Buffer[] = [];
  private size = 0;
  private lastTag = PING_TAG;
  private unanswered = 0;
  private timer: NodeJS.Timeout | undefined;
  closed = false;

  private constructor(socket: Channel) {
    this.socket = socket;
    socket.unref?.();
    socket.on('data', (chunk: Buffer) => this.receive(chunk));
    socket.on('error', () => socket.destroy());
    socket.on('close', () => this.end());
  }

  static async open(dial: Dial): Promise<SupervisorConnection> {
    return new SupervisorConnection(await dial());
  }

  async request(op: number, body: Buffer): Promise<Answer> {
    if (this.closed) throw new ConnectionClosed('the supervisor closed the connection');
    this.lastTag = (this.lastTag % 0xffff_fffe) + 1;
    const tag = this.lastTag;
    return await new Promise<Answer>((resolve, reject) => {
      this.pending.set(tag, { resolve, reject });
      if (this.pending.size === 1) this.watch();
      this.send(tag, op, body);
    });
  }

  close(): void {
    this.socket.destroy();
    this.end();
  }

  private send(tag: number, op: number, body: Buffer): void {
    const head = Buffer.allocUnsafe(9);
    head.writeUInt32LE(body.length + 5, 0);
    head.writeUInt32LE(tag, 4);
    head.writeUInt8(op, 8);
    this.socket.write(body.length < 4096 ? Buffer.concat([head, body]) : head);
    if (body.length >= 4096) this.socket.write(body);
  }

  /** While a request waits: keeps the process alive, and pings the supervisor. */
  private watch(): void {
    this.socket.ref?.();
    this.unanswered = 0;
    this.timer = setInterval(() => {
      if (this.unanswered >= PINGS_UNANSWERED) this.close();
      else {
        this.unanswered += 1;
        this.send(PING_TAG, HELLO, Buffer.alloc(0));
      }
    }, PING_EVERY_MS);
  }

  private unwatch(): void {
    clearInterval(this.timer);
    this.timer = undefined;
    this.socket.unref?.();
  }

  private receive(chunk: Buffer): void {
    this.unanswered = 0;
    this.chunks.push(chunk);
    this.size += chunk.length;
    let frame = this.nextFrame();
    while (frame !== undefined) {
      const waiter = this.pending.get(frame.readUInt32LE(0));
      if (this.pending.delete(frame.readUInt32LE(0)) && this.pending.size === 0) this.unwatch();
      waiter?.resolve({ op: frame.readUInt8(4), body: frame.subarray(5) });
      frame = this.nextFrame();
    }
  }

  private nextFrame(): Buffer | undefined {
    const first = this.chunks[0];
    if (first === undefined || this.size < 4) return undefined;
    if (first.length < 4) this.chunks = [Buffer.concat(this.chunks)];
    const length = (this.chunks[0] ?? first).readUInt32LE(0);
    if (length < 5 || length > MAX_FRAME) {
      this.close();
      return undefined;
    }
    if (this.size < length + 4) return undefined;
    const all = this.chunks.length === 1 && this.chunks[0] !== undefined ? this.chunks[0] : Buffer.concat(this.chunks);
    const rest = all.subarray(length + 4);
    this.chunks = rest.length > 0 ? [rest] : [];
    this.size = rest.length;
    return all.subarray(4, length + 4);
  }

  private end(): void {
    if (this.closed) return;
    this.closed = true;
    this.unwatch();
    for (const { reject } of this.pending.values())
      reject(new ConnectionClosed('the supervisor closed the connection'));
    this.pending.clear();
  }
}
