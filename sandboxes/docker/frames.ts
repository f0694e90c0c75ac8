/**
 * The daemon's frames around the output of an exec without a terminal: 8 bytes of head (stream, three zeros, big-endian
 * length), then the bytes. An invalid head is an error, and is never treated as raw output.
 */

const HEAD = 8;
const STDOUT = 1;
const STDERR = 2;

export interface FrameHandlers {
  readonly stdout: (bytes: Buffer) => void;
  readonly stderr: (bytes: Buffer) => void;
}

/**
 * Parses chunks as they arrive. A frame's bytes are passed on at once, without waiting for its end and without a copy.
 */
export class FrameParser {
  private readonly handlers: FrameHandlers;
  private head = Buffer.alloc(0);
  private left = 0;
  private stream = 0;

  constructor(handlers: FrameHandlers) {
    this.handlers = handlers;
  }

  /** Errors: `Error` if the bytes are not frames. */
  push(chunk: Buffer): void {
    let rest = chunk;
    while (rest.length > 0) {
      if (this.left === 0) rest = this.takeHead(rest);
      else {
        const part = rest.subarray(0, this.left);
        this.left -= part.length;
        rest = rest.subarray(part.length);
        (this.stream === STDERR ? this.handlers.stderr : this.handlers.stdout)(part);
      }
    }
  }

  private takeHead(bytes: Buffer): Buffer {
    const missing = HEAD - this.head.length;
    this.head = Buffer.concat([this.head, bytes.subarray(0, missing)]);
    if (this.head.length === HEAD) {
      this.stream = this.head.readUInt8(0);
      const isHead = (this.stream === STDOUT || this.stream === STDERR) && this.head.readUIntBE(1, 3) === 0;
      if (!isHead) throw new Error(`the daemon sent ${this.head.toString('hex')} where a frame starts`);
      this.left = this.head.readUInt32BE(4);
      this.head = Buffer.alloc(0);
    }
    return bytes.subarray(missing);
  }
}
