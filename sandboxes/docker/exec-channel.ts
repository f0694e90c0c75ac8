/**
 * A stream to the supervisor through `docker exec`: it needs only the daemon's API, so it works over TCP and with
 * runtimes whose sockets the host cannot see. It ends when either side ends. A process that never started is an error.
 */

import type { Exec } from 'dockerode';
import { Duplex } from 'node:stream';

import { SandboxLost, SandboxUnavailable } from '../sandbox.ts';
import type { Channel } from '../supervisor/connection.ts';
import { RUN_FOLDER, SUPERVISOR } from './container.ts';
import { classifyDocker, type Engine, statusOf, within } from './engine.ts';
import { FrameParser } from './frames.ts';

const COMPLAINT_BYTES = 4096;

/** Removes the frames and keeps backpressure: it reads from the daemon only while this stream is read. */
class ExecChannel extends Duplex {
  private readonly raw: Channel;
  private readonly parser: FrameParser;
  complaint = '';

  constructor(raw: Channel) {
    // An exec whose output has ended accepts no input either.
    super({ allowHalfOpen: false });
    this.raw = raw;
    this.parser = new FrameParser({
      stdout: (bytes) => {
        if (!this.push(bytes)) raw.pause();
      },
      stderr: (bytes) => {
        if (this.complaint.length < COMPLAINT_BYTES) this.complaint += bytes.toString();
      },
    });
    raw.on('data', (chunk: Buffer) => this.parse(chunk));
    raw.on('error', (error) => this.destroy(error));
    // Some daemons end the stream, some close it, some do both.
    raw.on('end', () => this.push(null));
    raw.on('close', () => this.destroy());
  }

  ref(): void {
    this.raw.ref?.();
  }

  unref(): void {
    this.raw.unref?.();
  }

  private parse(chunk: Buffer): void {
    try {
      this.parser.push(chunk);
    } catch (error) {
      this.destroy(error instanceof Error ? error : new Error(String(error)));
    }
  }

  override _read(): void {
    this.raw.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.raw.write(chunk, done);
  }

  override _final(done: (error?: Error | null) => void): void {
    this.raw.end(done);
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.raw.destroy();
    done(error);
  }
}

/**
 * 404: the container is gone. 409, or a similar message: it does not run. A paused container may resume, so it is not
 * gone.
 */
async function isGone(engine: Engine, container: string, error: unknown): Promise<boolean> {
  const said = String(error);
  // Podman reports the same error for a paused and for an ended container.
  if (/container state improper/iu.test(said)) return !(await isPaused(engine, container));
  return (
    statusOf(error) === 404 || /is not running/iu.test(said) || (statusOf(error) === 409 && !/is paused/iu.test(said))
  );
}

async function isPaused(engine: Engine, container: string): Promise<boolean> {
  try {
    return (await within('inspect', engine.docker.getContainer(container).inspect())).State.Paused;
  } catch (error) {
    if (statusOf(error) === 404) return false;
    throw classifyDocker(`container ${container} cannot be inspected`, error);
  }
}

/**
 * Errors: `SandboxLost` if the container is gone or does not run; `SandboxUnavailable` if the daemon cannot be reached
 * or the process did not start.
 */
export async function openExecChannel(engine: Engine, container: string): Promise<Channel> {
  try {
    const exec: Exec = await within(
      'exec',
      engine.docker
        .getContainer(container)
        .exec({
          Cmd: [SUPERVISOR, 'attach', RUN_FOLDER],
          User: '0:0',
          AttachStdin: true,
          AttachStdout: true,
          AttachStderr: true,
          Tty: false,
        }),
    );
    // Without `hijack` stdin cannot be half-closed, and some daemons do not answer at all.
    const raw = await within('exec start', exec.start({ hijack: true, stdin: true, Tty: false }));
    return new ExecChannel(raw as Channel);
  } catch (error) {
    if (await isGone(engine, container, error))
      throw new SandboxLost(`container ${container} is gone: ${String(error)}`);
    const known = classifyDocker(`container ${container} cannot be attached to`, error);
    throw known instanceof SandboxUnavailable ? known : new SandboxUnavailable(known.message);
  }
}
