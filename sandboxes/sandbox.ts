/**
 * The sandbox: the isolated machine that a rollout's tools act on. It outlives the worker that made it; every call is
 * journalled inside it, so a repeated call runs only once.
 */

import type { ImageChanges } from './image-changes.ts';

export interface SandboxLimits {
  readonly memoryMiB: number;
  readonly processes: number;
  /** Size of the writable workspace and /tmp together. */
  readonly diskMiB: number;
}

export interface SandboxFile {
  /** Absolute, or relative to `workdir`. */
  readonly path: string;
  readonly content: string | Uint8Array;
  readonly mode?: number;
}

export type SandboxProfile = 'strict' | 'swe';

export interface SandboxSpec {
  /** Unique and deterministic: a second `create` with the same id adopts the sandbox that exists. */
  readonly id: string;
  readonly workdir: string;
  readonly files: readonly SandboxFile[];
  /** Run once, through `/bin/bash -c` in `workdir`, after the files are written; a non-zero exit fails `create`. */
  readonly setup?: string;
  readonly env: Readonly<Record<string, string>>;
  readonly limits: SandboxLimits;
  /** The sandbox's image, for providers that have images. Default: a base image with bash, git and Python. */
  readonly image?: string;
  /**
   * How `image` is made on this host if it is not there; its tag is then named by its content. Absent: it is pulled.
   */
  readonly build?: ImageBuild;
  /**
   * Further folders at the top level that the sandbox's user may write, empty at the start (`/tests`). They share a
   * part of `diskMiB`. Default: none.
   */
  readonly folders?: readonly string[];
  /**
   * Absolute path of a folder of the host that the sandbox sees at `/opt/tools`, read-only: an agent's packages.
   * The caller that makes the sandbox must allow it. Default: none.
   */
  readonly toolsFolder?: string;
  /**
   * `strict` (default): only the workspace, /tmp and /dev/shm are writable. `swe`: all that the image's file modes
   * allow.
   */
  readonly profile?: SandboxProfile;
  /** Processors that the sandbox may use at once, where the provider can limit them. */
  readonly cpus?: number;
  /** Time limit of `setup`. Default: 600. */
  readonly setUpSeconds?: number;
  /** Absent: the sandbox reaches nothing. */
  readonly network?: SandboxNetwork;
  /** The sandbox ends itself if it was not renewed for this long. */
  readonly ttlSeconds: number;
}

/** A folder of this host from which the daemon builds an image. */
export interface ImageBuild {
  readonly context: string;
  /** Path of the Dockerfile in `context`. */
  readonly dockerfile: string;
  readonly arguments?: Readonly<Record<string, string>>;
  /** Default: 600. */
  readonly seconds?: number;
}

/** A loopback interface that several sandboxes share. Nothing else is on it. */
export interface SandboxNetwork {
  /** Id of a live sandbox whose network this one joins. Absent: this one is the first. */
  readonly joins?: string;
  /** Host names of all its sandboxes, which all are 127.0.0.1. */
  readonly names: readonly string[];
}

/** What a command did. It becomes an observation; it is never an error of Longhaul. */
export interface ExecResult {
  /** `null` if a signal or the time limit ended the command. */
  readonly exitCode: number | null;
  /** SIGXCPU: the command used up its processor time. */
  readonly signal: string | null;
  readonly output: string;
  /** Bytes of output dropped from the middle, 0 when complete. */
  readonly droppedBytes: number;
  readonly timedOut: boolean;
  /** The kernel's out-of-memory killer ended something during the call. */
  readonly outOfMemory: boolean;
  readonly durationMs: number;
  /** Processor time of the call, in milliseconds. 0 or absent if the call had no such limit. */
  readonly cpuMs?: number;
}

export interface ExecCall {
  /** Key in the journal. A call with a known id attaches to the running call, or returns its recorded result. */
  readonly callId: string;
  readonly command: string;
  readonly timeoutMs: number;
  /**
   * Limit on the processor time of all processes of the call together, in milliseconds. Unlike a clock, it does not
   * depend on other load on the machine. Default: not counted.
   */
  readonly cpuMs?: number;
  /** Bytes of combined output kept (head and tail). The rest is read, counted and dropped. */
  readonly outputLimit: number;
  /** True: runs in a new bash in `workdir`. It neither sees nor changes the state of the long-lived shell. */
  readonly fresh?: boolean;
  /** As `fresh`, after every process of earlier calls was ended, the long-lived shell included. */
  readonly alone?: boolean;
}

export interface WriteCall {
  readonly callId: string;
  readonly path: string;
  readonly content: Uint8Array;
  /** The observation that belongs to this write. The journal keeps it, and a repeated call returns it. */
  readonly note: string;
}

export type ReadResult =
  | { readonly kind: 'file'; readonly content: Uint8Array }
  | { readonly kind: 'directory'; readonly entries: readonly string[] }
  | { readonly kind: 'missing' }
  | { readonly kind: 'denied'; readonly reason: string }
  | { readonly kind: 'too-large'; readonly bytes: number };

/** The state with which the long-lived shell would restart. */
export interface ShellState {
  /** Empty before the first call. */
  readonly directory: string;
  /** Exported variables after the last call that ended by itself, as `declare -px` prints them. */
  readonly exports: string;
}

/** What is known of a connection to a sandbox's door. */
export interface DoorState {
  /** Counts the sandbox's connections from 1. */
  readonly connection: number;
  /** Bytes received so far. */
  readonly bytes: number;
  /** It sends no more. */
  readonly ended: boolean;
  /** It may send no more until it is answered. */
  readonly full: boolean;
}

export interface DoorNews extends Omit<DoorState, 'bytes'> {
  /** It is answered or closed: nothing else follows. */
  readonly gone: boolean;
  /** Where `chunk` begins. */
  readonly from: number;
  readonly chunk: Uint8Array;
}

/**
 * A port on the sandbox's loopback interface, from which bytes come here and go nowhere else. A connection carries one
 * request. What it sent is kept until it is answered, also if its reader is lost.
 */
export interface SandboxDoor {
  /** Opens the port, or another one if it is in use. Returns it. A repeated call returns the open one. */
  open(port: number): Promise<number>;
  /**
   * What is new of the connections in `known` and of those with a number above `seen`; nothing after some time without
   * news.
   */
  news(seen: number, known: readonly DoorState[]): Promise<readonly DoorNews[]>;
  /** Sends the answer, then closes the connection. False: it was answered before, or is closed. */
  answer(connection: number, bytes: Uint8Array): Promise<boolean>;
}

export interface Sandbox {
  readonly id: string;
  /** Absent: it can have none. */
  readonly door?: SandboxDoor;
  /** Runs in the sandbox's one long-lived shell: working directory and variables persist from call to call. */
  exec(call: ExecCall): Promise<ExecResult>;
  /**
   * Writes a regular file with the rights of the sandbox's user; makes its parent folders. Returns the journalled note.
   */
  write(call: WriteCall): Promise<{ readonly note: string; readonly error?: string }>;
  /** The note of a finished write with this id, if the journal has one. */
  written(callId: string): Promise<{ readonly note: string; readonly error?: string } | undefined>;
  read(path: string, maxBytes: number): Promise<ReadResult>;
  /** The shell's directory and exports. Absent if the sandbox cannot be snapshotted. */
  state?(): Promise<ShellState>;
  /** Restarts the shell in that state. Fails while a call runs. */
  resume?(state: ShellState): Promise<void>;
  /**
   * What differs from its image outside of its mounts. Absent if its image cannot be written, or if nobody keeps a
   * list. Errors: `SandboxUnavailable`.
   */
  imageChanges?(): Promise<ImageChanges>;
  /** Extends the time to live to at least `ttlSeconds` from now. */
  renew(ttlSeconds: number): Promise<void>;
  close(): void;
}

export interface SandboxProvider {
  readonly name: string;
  /**
   * Does the slow work that sandboxes share: it gets the image, so that `create` does not wait for it. `onLine`
   * receives lines of progress. Errors: those of `create`.
   */
  prepare?(spec: SandboxSpec, onLine: (line: string) => void): Promise<void>;
  /** Returns after the sandbox answered a probe. Errors: `SandboxUnavailable`. */
  create(spec: SandboxSpec): Promise<Sandbox>;
  /** Errors: `SandboxLost` if the sandbox is gone. */
  connect(id: string): Promise<Sandbox>;
  /** Idempotent. Returns when every process of the sandbox has ended. */
  destroy(id: string): Promise<void>;
  /** Ids of the sandboxes on this host, alive or half-made. */
  list(): Promise<string[]>;
  /** Ids of the sandboxes on this host that ended by themselves (time to live, a crash). Only their records remain. */
  ended?(): Promise<string[]>;
}

/** The sandbox is gone. The results of its calls so far are in the store. */
export class SandboxLost extends Error {
  override readonly name = 'SandboxLost';
}

/** A sandbox could not be made or reached. A later attempt may succeed. */
export class SandboxUnavailable extends Error {
  override readonly name = 'SandboxUnavailable';
}

/** A task or a setting asks for something that this machine can never provide. Retries do not help. */
export class SandboxImpossible extends Error {
  override readonly name = 'SandboxImpossible';
}
