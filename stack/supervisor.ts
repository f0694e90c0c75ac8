/**
 * The supervisor of the embedded stack: starts the server, then the workers, keeps each alive, and records every
 * change. If it is killed, the processes continue to run, and the next supervisor takes them over.
 */

import type { Server } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { isAlive, ownIdentity } from '#setup/process-identity.mjs';
import { choosePort, isPortFree } from './temporal-server/free-port.ts';
import { choosePorts, ownId, SERVER, type ServerPorts, serverSpec } from './embedded-server.ts';
import { rotateLog } from './processes/log-files.ts';
import { ManagedProcess, type Say } from './processes/managed-process.ts';
import { claimPorts } from './port-claims.ts';
import { type ProcessSpec, readyFileSpec } from './processes/process-spec.ts';
import { STACK_ID_VARIABLE } from '../connection/stack-identity.ts';
import type { StackPlan } from './stack-plan.ts';
import { type StackPaths, supervisorLog } from '../connection/stack-paths.ts';
import { type ProcessRecord, readStackState, type StackState, writeStackState } from '../connection/stack-state.ts';
import { stopProcess } from './processes/stop-process.ts';
import { startUiProxy } from './ui-proxy.ts';

const POLL_MS = 50;
const ROTATE_EVERY_MS = 30_000;
const MAX_LOG_BYTES = 20 * 1024 * 1024;
/** Delay before a state that could not be written is written again. */
const WRITE_AGAIN_MS = 1_000;
const DRAIN_MS = 45_000;
const SERVER_STOP_MS = 10_000;
const UI_TRIES = 20;

export class Supervisor {
  readonly #paths: StackPaths;
  readonly #plan: StackPlan;
  readonly #say: Say;
  readonly #previous: StackState | undefined;
  readonly #since = new Date().toISOString();
  #phase: StackState['phase'] = 'starting';
  #ports: ServerPorts | undefined;
  #server: ManagedProcess | undefined;
  #stackId = '';
  #uiProxy: Server | undefined;
  #workers: ManagedProcess[] = [];
  /** Set while the written state is out of date. */
  #unwritten: NodeJS.Timeout | undefined;

  constructor(paths: StackPaths, plan: StackPlan, say: Say) {
    this.#paths = paths;
    this.#plan = plan;
    this.#say = say;
    this.#previous = readStackState(paths.state);
  }

  /** Runs the stack until `stop` is aborted, then drains it. */
  async run(stop: AbortSignal): Promise<void> {
    const rotating = setInterval(() => this.#rotateLogs(), ROTATE_EVERY_MS);
    try {
      await this.#startAll(stop);
      while (!stop.aborted) await sleep(60_000, undefined, { signal: stop }).catch(() => undefined);
      await this.#stopAll();
    } finally {
      clearInterval(rotating);
      clearTimeout(this.#unwritten);
      this.#closeUi();
    }
  }

  async #startAll(stop: AbortSignal): Promise<void> {
    const address = await this.#startServer(stop);
    if (address === undefined) return;
    const specs = this.#plan.workers(this.#temporalSettings(address)).map((what) => readyFileSpec(this.#paths, what));
    await this.#endUnwanted(specs);
    this.#workers = specs.map((spec) => this.#managed(spec));
    for (const worker of this.#workers) worker.start(this.#recordOf(worker.spec.name));
    await until(() => this.#workers.every((worker) => worker.record.state === 'ready'), stop);
    if (stop.aborted) return;
    this.#phase = 'up';
    this.#write();
    this.#say(`the stack is up: Temporal at ${address}${this.#ui === '' ? '' : `, its UI at ${this.#ui}`}`);
  }

  /** Returns the address when the server answers; `undefined` if `stop` was aborted before. */
  async #startServer(stop: AbortSignal): Promise<string | undefined> {
    const { cluster } = this.#plan;
    if ('address' in cluster) {
      this.#write();
      return cluster.address;
    }
    let previous = this.#recordOf(SERVER);
    const survives = previous?.process !== undefined && isAlive(previous.process);
    if (survives) this.#stackId = this.#previous?.stackId ?? '';
    const kept = survives ? this.#previous?.ports : undefined;
    let ports = kept?.behind === undefined ? undefined : { ...kept, behind: kept.behind };
    while (!stop.aborted) {
      ports ??= await choosePorts(this.#paths.home, this.#previous);
      ports = await this.#openUi(ports);
      const server = await this.#serverAt(ports, cluster.program, previous);
      if (await this.#comesUp(server, ports, stop)) {
        claimPorts(this.#paths.home, [ports.temporal, ports.ui]);
        const address = `127.0.0.1:${ports.temporal}`;
        await this.#learnId(address, stop);
        return address;
      }
      if (stop.aborted) return undefined;
      await server.stop(SERVER_STOP_MS);
      [previous, ports] = [undefined, undefined];
    }
    return undefined;
  }

  /** If another process took the UI's port since it was chosen, another port is chosen. */
  async #openUi(ports: ServerPorts): Promise<ServerPorts> {
    this.#closeUi();
    let ui = ports.ui;
    for (let left = UI_TRIES; ; left -= 1) {
      try {
        this.#uiProxy = await startUiProxy(ui, ports.behind);
        return { ...ports, ui };
      } catch (error) {
        if (left <= 1) throw error;
        ui = await choosePort([]);
      }
    }
  }

  #closeUi(): void {
    this.#uiProxy?.close();
    this.#uiProxy?.closeAllConnections();
    this.#uiProxy = undefined;
  }

  async #serverAt(ports: ServerPorts, program: string, previous: ProcessRecord | undefined): Promise<ManagedProcess> {
    const spec = serverSpec(this.#paths, program, ports, this.#plan);
    if (previous?.process !== undefined && previous.digest !== spec.digest)
      await stopProcess(previous.process, SERVER_STOP_MS);
    this.#ports = ports;
    this.#server = this.#managed(spec);
    this.#server.start(previous);
    return this.#server;
  }

  /** False if the server failed because one of its ports was taken between the choice and the start. */
  async #comesUp(server: ManagedProcess, ports: ServerPorts, stop: AbortSignal): Promise<boolean> {
    const isReady = () => server.record.state === 'ready';
    const failures = server.record.failedStarts;
    await until(() => isReady() || server.record.failedStarts > failures, stop);
    if (isReady() || stop.aborted) return isReady();
    if (!(await isPortFree(ports.temporal)) || !(await isPortFree(ports.behind.port, ports.behind.host))) return false;
    // The server itself fails: it is restarted repeatedly, and its record shows that.
    await until(isReady, stop);
    return isReady();
  }

  /** The server was ready a moment ago; if it has died since, its next start answers. */
  async #learnId(address: string, stop: AbortSignal): Promise<void> {
    let id = '';
    while (id === '' && !stop.aborted) {
      id = await ownId(this.#paths, address);
      if (id === '') await sleep(POLL_MS);
    }
    this.#stackId = id;
    this.#write();
  }

  /** Workers find an existing cluster as this process did; our own server is passed to them by variables. */
  #temporalSettings(address: string): Record<string, string> {
    const { cluster, namespace } = this.#plan;
    if ('address' in cluster) return {};
    return {
      TEMPORAL_ADDRESS: address,
      TEMPORAL_NAMESPACE: namespace,
      LONGHAUL_TEMPORAL_UI: this.#ui,
      [STACK_ID_VARIABLE]: this.#stackId,
    };
  }

  /** Stops processes that an earlier supervisor left running and that do not match this plan. */
  async #endUnwanted(specs: readonly ProcessSpec[]): Promise<void> {
    const unwanted = (this.#previous?.processes ?? []).filter(
      (record) =>
        record.name !== SERVER && !specs.some((spec) => spec.name === record.name && spec.digest === record.digest),
    );
    await Promise.all(unwanted.map(async (record) => record.process && stopProcess(record.process, DRAIN_MS)));
  }

  async #stopAll(): Promise<void> {
    this.#phase = 'stopping';
    this.#say('the stack is draining and stopping');
    await Promise.all(this.#workers.map((worker) => worker.stop(DRAIN_MS)));
    await this.#server?.stop(SERVER_STOP_MS);
    this.#write();
    this.#say('the stack is down');
  }

  #managed(spec: ProcessSpec): ManagedProcess {
    return new ManagedProcess(spec, () => this.#write(), this.#say);
  }

  #recordOf(name: string) {
    return this.#previous?.processes.find((record) => record.name === name);
  }

  get #ui(): string {
    return this.#ports === undefined ? '' : `http://127.0.0.1:${this.#ports.ui}`;
  }

  /** A full disk does not end the supervisor: it is logged once, and the state is written when there is space again. */
  #write(): void {
    const isAgain = this.#unwritten !== undefined;
    clearTimeout(this.#unwritten);
    this.#unwritten = undefined;
    try {
      writeStackState(this.#paths.state, this.#state);
    } catch (error) {
      if (!isAgain) this.#say(`the state of the stack could not be written: ${messageOf(error)}; retrying`, 'warn');
      this.#unwritten = setTimeout(() => this.#write(), WRITE_AGAIN_MS);
    }
  }

  get #state(): StackState {
    const { cluster, namespace, settings } = this.#plan;
    const managed = [...(this.#server === undefined ? [] : [this.#server]), ...this.#workers];
    const known = new Set(managed.map((one) => one.spec.name));
    // Survivors that are not managed yet stay recorded, so that a supervisor that is killed now loses none of them.
    const waiting =
      this.#phase === 'starting' ? (this.#previous?.processes ?? []).filter((record) => !known.has(record.name)) : [];
    return {
      format: 1,
      supervisor: ownIdentity(),
      since: this.#since,
      address: 'address' in cluster ? cluster.address : `127.0.0.1:${this.#ports?.temporal ?? 0}`,
      namespace,
      ui: this.#ui,
      ...(this.#ports === undefined ? {} : { ports: this.#ports }),
      ...(this.#stackId === '' ? {} : { stackId: this.#stackId }),
      phase: this.#phase,
      settings,
      processes: [...managed.map((one) => one.record), ...waiting],
    };
  }

  #rotateLogs(): void {
    const managed = [...(this.#server ? [this.#server] : []), ...this.#workers].map(({ spec }) => spec);
    // The supervisor's own log as well: a worker that cannot start adds lines to it repeatedly.
    for (const { name, log } of [...managed, { name: 'the supervisor', log: supervisorLog(this.#paths) }]) {
      try {
        rotateLog(log, MAX_LOG_BYTES);
      } catch (error) {
        // Usually a full disk: the processes continue, and the next round retries.
        this.#say(`the log of ${name} could not be rotated: ${messageOf(error)}`, 'warn');
      }
    }
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

async function until(condition: () => boolean, stop: AbortSignal): Promise<void> {
  while (!condition() && !stop.aborted) await sleep(POLL_MS);
}
