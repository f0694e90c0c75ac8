/** The sandbox that callers use: the supervisor's client behind the interface of `sandbox.ts`. */

import type { ExecCall, ExecResult, ReadResult, Sandbox, SandboxDoor, ShellState, WriteCall } from '../sandbox.ts';
import type { ImageChanges } from '../image-changes.ts';
import type { SupervisorClient, WriteOutcome } from '../supervisor/client.ts';

/**
 * Neither file names nor strings of the supervisor's protocol can contain a NUL. The supervisor would reject the
 * request as malformed; here the caller gets this error.
 */
const NUL_IN_PATH = 'the path has a NUL character';

export class SupervisedSandbox implements Sandbox {
  readonly id: string;
  readonly door: SandboxDoor;
  readonly imageChanges?: () => Promise<ImageChanges>;
  private readonly client: SupervisorClient;

  constructor(id: string, client: SupervisorClient, imageChanges?: () => Promise<ImageChanges>) {
    this.id = id;
    this.client = client;
    if (imageChanges !== undefined) this.imageChanges = imageChanges;
    this.door = {
      open: (port) => client.openDoor(port),
      news: (seen, known) => client.doorNews(seen, known),
      answer: (connection, bytes) => client.answerDoor(connection, bytes),
    };
  }

  async exec(call: ExecCall): Promise<ExecResult> {
    // A NUL cannot be part of a command, so it is removed.
    return await this.client.exec({ ...call, command: call.command.replaceAll('\0', '') });
  }

  async write(call: WriteCall): Promise<WriteOutcome> {
    const note = call.note.replaceAll('\0', '');
    if (call.path.includes('\0')) return { note, error: NUL_IN_PATH };
    return await this.client.write({ ...call, note });
  }

  async written(callId: string): Promise<WriteOutcome | undefined> {
    return await this.client.written(callId);
  }

  async read(path: string, maxBytes: number): Promise<ReadResult> {
    if (path.includes('\0')) return { kind: 'denied', reason: NUL_IN_PATH };
    return await this.client.read(path, maxBytes);
  }

  async state(): Promise<ShellState> {
    return await this.client.state();
  }

  async resume(state: ShellState): Promise<void> {
    await this.client.resume(state);
  }

  async renew(ttlSeconds: number): Promise<void> {
    await this.client.renew(Math.ceil(ttlSeconds * 1000));
  }

  close(): void {
    this.client.close();
  }
}
