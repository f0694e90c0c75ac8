/**
 * Eval sweeps as Temporal schedules. Each firing starts a sweep of its own, whose id ends with the time of the firing.
 * No sweep starts while the previous one is running. `latest:RUN` is the run's newest policy when the sweep starts.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { rootCause } from '@temporalio/common';
import {
  type Client,
  type ScheduleDescription,
  type ScheduleHandle,
  ScheduleAlreadyRunning,
  ScheduleNotFoundError,
  WorkflowFailedError,
  WorkflowNotFoundError,
} from '@temporalio/client';
import { LONGEST_SECONDS } from '../../protocol/limits.ts';
import { QUEUES } from '../../protocol/queues.ts';
import type { SweepConfig, SweepResult } from '../../protocol/eval.ts';
import { Unreachable, UserInputError } from '../../client/errors.ts';
import { summaryOf } from '../../client/longhaul.ts';

const PREFIX = 'eval-schedule/';

export interface ScheduleSettings {
  readonly name: string;
  readonly config: SweepConfig;
  /** Five fields, or six with seconds first; or an interval such as `6h`. One of the two. */
  readonly cron?: string;
  readonly every?: string;
  readonly timezone?: string;
  readonly jitter?: string;
  /** Largest delay of a firing that was missed while the server was down; later ones are dropped. */
  readonly catchUp: string;
  /** True if a sweep that fails pauses the schedule. */
  readonly pauseOnFailure: boolean;
  readonly paused?: boolean;
  readonly note?: string;
}

export interface ScheduledSweep {
  readonly workflowId: string;
  readonly scheduledAt: string;
  /** Temporal's status in lower case: `running`, `completed`, `failed`, `cancelled`, …, or `gone` after retention. */
  readonly status: string;
  readonly message?: string;
  readonly result?: SweepResult;
}

export interface ScheduleView {
  readonly name: string;
  readonly when: string;
  readonly paused: boolean;
  readonly note: string;
  readonly next: readonly string[];
}

/** A schedule as commands show it: its times, its counts and its last sweeps. */
export interface ScheduleDetails extends ScheduleView {
  readonly overlap: string;
  readonly catchUpSeconds: number;
  readonly jitterSeconds: number;
  readonly pauseOnFailure: boolean;
  readonly fired: number;
  readonly skipped: number;
  readonly missed: number;
  /** The newest first. */
  readonly recent: readonly ScheduledSweep[];
  readonly config: unknown;
}

/** The result of a trigger; `fired` is absent if the server has not reported it yet. */
export interface Triggered {
  readonly fired?: boolean;
  /** The sweep that started, or the one that is still running. */
  readonly sweep?: string;
}

const TOLD_WITHIN_MS = 10_000;
const TOLD_POLL_MS = 200;

const DURATION = /^(\d+(?:\.\d+)?)(s|m|h|d)$/;
const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

function checkDuration(option: string, value: string | undefined): void {
  if (value === undefined) return;
  const [, count, unit = ''] = DURATION.exec(value) ?? [];
  if (count === undefined) throw new UserInputError(option, value, 'give a number with s, m, h or d: 30m');
  if (Number(count) * (SECONDS[unit] ?? 1) > LONGEST_SECONDS)
    throw new UserInputError(option, value, `give at most ${LONGEST_SECONDS / 86_400}d`);
}

/** Errors: `UserInputError`, before any call to Temporal. */
export function checkSettings({ name, cron, every, timezone, jitter, catchUp }: ScheduleSettings): void {
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/.test(name))
    throw new UserInputError('--name', name, 'give letters, digits, dot, dash and underscore, at most 100');
  if ((cron === undefined) === (every === undefined))
    throw new UserInputError('--cron', cron ?? '', 'give one of --cron and --every');
  checkDuration('--every', every);
  checkDuration('--jitter', jitter);
  checkDuration('--catch-up', catchUp);
  if (timezone === '')
    throw new UserInputError('--timezone', timezone, 'give a zone such as Europe/Berlin, or leave it out: UTC');
  if (timezone !== undefined && every !== undefined)
    throw new UserInputError('--timezone', timezone, 'it has no meaning for an interval; leave it out');
}

/** Translates Temporal's errors for a time that it cannot read, and for a name in use. */
function refused(error: unknown, { name, cron, every, timezone }: ScheduleSettings): unknown {
  if (error instanceof ScheduleAlreadyRunning)
    return new UserInputError(
      '--name',
      name,
      'a schedule with this name exists; delete it first, or give another name',
    );
  // The client throws this for a time that the server cannot read.
  if (!(error instanceof TypeError)) return error;
  const [field, value] =
    cron === undefined
      ? (['--every', every] as const)
      : (['--cron', timezone === undefined ? cron : `${cron} in ${timezone}`] as const);
  return new UserInputError(field, value, `give one that Temporal can read (${error.message})`);
}

function whenOf({ cron, every, timezone, jitter }: ScheduleSettings): string {
  const base = cron === undefined ? `every ${every ?? ''}` : `cron ${cron} ${timezone ?? 'UTC'}`;
  return jitter === undefined ? base : `${base}, up to ${jitter} later`;
}

export class EvalSchedules {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Errors: `UserInputError` for settings that cannot be used, or a name in use. */
  async create(settings: ScheduleSettings): Promise<void> {
    checkSettings(settings);
    const { name, config, cron, every, timezone, jitter, catchUp, pauseOnFailure, paused = false, note } = settings;
    // The workflow's id names each sweep.
    const { eval: _eval, ...nameless } = config;
    try {
      await this.#client.schedule.create({
        scheduleId: `${PREFIX}${name}`,
        spec: {
          ...(cron === undefined ? {} : { cronExpressions: [cron] }),
          ...(every === undefined ? {} : { intervals: [{ every: every as '1h' }] }),
          ...(timezone === undefined ? {} : { timezone }),
          ...(jitter === undefined ? {} : { jitter: jitter as '1h' }),
        },
        action: {
          type: 'startWorkflow',
          workflowType: 'evalSweep',
          workflowId: `eval/${name}`,
          taskQueue: QUEUES.orchestrator,
          args: [nameless],
          staticSummary: summaryOf(config),
        },
        // Without a window Temporal catches up on a year of missed firings.
        policies: { overlap: 'SKIP', catchupWindow: catchUp as '1h', pauseOnFailure },
        state: { paused, ...(note === undefined ? {} : { note }) },
        memo: { when: whenOf(settings) },
      });
    } catch (error) {
      throw refused(error, settings);
    }
  }

  async list(): Promise<ScheduleView[]> {
    const views: ScheduleView[] = [];
    for await (const { scheduleId, memo, state, info } of this.#client.schedule.list()) {
      if (scheduleId.startsWith(PREFIX)) views.push(viewOf(scheduleId, memo, state, info.nextActionTimes));
    }
    return views.sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  async show(name: string): Promise<ScheduleDetails> {
    const { scheduleId, memo, state, info, policies, spec, action } = await this.#with(name, (handle) =>
      handle.describe(),
    );
    const recent = info.recentActions.map(({ scheduledAt, action: { workflow } }) =>
      this.#sweep(workflow.workflowId, scheduledAt),
    );
    return {
      ...viewOf(scheduleId, memo, state, info.nextActionTimes),
      overlap: policies.overlap ?? 'SKIP',
      catchUpSeconds: policies.catchupWindow / 1000,
      jitterSeconds: (spec.jitter ?? 0) / 1000,
      pauseOnFailure: policies.pauseOnFailure,
      fired: info.numActionsTaken,
      skipped: info.numActionsSkippedOverlap,
      missed: info.numActionsMissedCatchupWindow,
      recent: (await Promise.all(recent)).reverse(),
      config: action.args?.[0] ?? null,
    };
  }

  pause(name: string, note: string): Promise<void> {
    return this.#with(name, async (handle) => {
      await handle.pause(note);
      await untilPaused(handle, name, true);
    });
  }

  resume(name: string, note: string): Promise<void> {
    return this.#with(name, async (handle) => {
      await handle.unpause(note);
      await untilPaused(handle, name, false);
    });
  }

  /**
   * Fires now, unless the previous sweep is running; returns which of the two. The server learns of a sweep's end a
   * little later, and skips until then: if no sweep is running, it is asked again.
   */
  trigger(name: string): Promise<Triggered> {
    return this.#with(name, async (handle) => {
      const deadline = Date.now() + TOLD_WITHIN_MS;
      for (;;) {
        const triggered = await triggerOnce(handle, deadline);
        const isOver = triggered.fired === false && !(await this.#isRunning(triggered.sweep));
        if (!isOver || Date.now() > deadline) return triggered;
        await sleep(TOLD_POLL_MS);
      }
    });
  }

  /** Fires for every time of the schedule from `start` to `end`, one sweep after the other. */
  backfill(name: string, start: Date, end: Date): Promise<void> {
    return this.#with(name, (handle) => handle.backfill({ start, end, overlap: 'BUFFER_ALL' }));
  }

  /** Running sweeps continue, and results stay. */
  delete(name: string): Promise<void> {
    return this.#with(name, (handle) => handle.delete());
  }

  /** Errors: `UserInputError` if there is no such schedule. */
  async #with<T>(name: string, act: (handle: ScheduleHandle) => Promise<T>): Promise<T> {
    try {
      return await act(this.#client.schedule.getHandle(`${PREFIX}${name}`));
    } catch (error) {
      if (!(error instanceof ScheduleNotFoundError)) throw error;
      const known = (await this.list()).map((view) => view.name);
      throw new UserInputError(
        'NAME',
        name,
        known.length > 0 ? `give one of ${known.join(', ')}` : 'there is no schedule yet',
      );
    }
  }

  async #isRunning(workflowId: string | undefined): Promise<boolean> {
    if (workflowId === undefined) return false;
    const { status } = await this.#sweep(workflowId, new Date());
    return status === 'running';
  }

  async #sweep(workflowId: string, at: Date): Promise<ScheduledSweep> {
    const handle = this.#client.workflow.getHandle(workflowId);
    const scheduledAt = at.toISOString();
    try {
      const status = (await handle.describe()).status.name.toLowerCase();
      if (status === 'completed')
        return { workflowId, scheduledAt, status, result: (await handle.result()) as SweepResult };
      if (status !== 'failed') return { workflowId, scheduledAt, status };
      const failure: unknown = await handle.result().catch((error: unknown) => error);
      const message =
        failure instanceof WorkflowFailedError ? (rootCause(failure.cause) ?? failure.message) : String(failure);
      return { workflowId, scheduledAt, status, message };
    } catch (error) {
      if (!(error instanceof WorkflowNotFoundError)) throw error;
      return { workflowId, scheduledAt, status: 'gone' };
    }
  }
}

/** A sweep's id has the second in which it fires: another one in the same second would be the same sweep again. */
async function untilNextSecond(last: Date | undefined): Promise<void> {
  const left = last === undefined ? 0 : Math.floor(last.getTime() / 1000) * 1000 + 1000 - Date.now();
  // Clocks of other machines may differ by more.
  if (left > 0) await sleep(Math.min(left, 1000));
}

/** The server decides after its answer. */
async function triggerOnce(handle: ScheduleHandle, deadline: number): Promise<Triggered> {
  const { info: before } = await handle.describe();
  await untilNextSecond(before.recentActions.at(-1)?.scheduledAt);
  await handle.trigger('SKIP');
  for (;;) {
    const { info } = await handle.describe();
    const sweep = info.recentActions.at(-1)?.action.workflow.workflowId;
    if (info.numActionsTaken > before.numActionsTaken && sweep !== undefined) return { fired: true, sweep };
    const running = info.runningActions.map(({ workflow }) => workflow.workflowId);
    if (info.numActionsSkippedOverlap > before.numActionsSkippedOverlap)
      return { fired: false, ...(running[0] === undefined ? {} : { sweep: running[0] }) };
    if (Date.now() > deadline) return {};
    await sleep(TOLD_POLL_MS);
  }
}

/** The server accepts a change before it applies it. Errors: `Unreachable` if it is not applied within 10 s. */
async function untilPaused(handle: ScheduleHandle, name: string, paused: boolean): Promise<void> {
  const deadline = Date.now() + TOLD_WITHIN_MS;
  while ((await handle.describe()).state.paused !== paused) {
    if (Date.now() > deadline) {
      const how =
        `was asked to ${paused ? 'pause' : 'resume'} schedule ${name}, but has not done so within ` +
        `${TOLD_WITHIN_MS / 1000} s`;
      throw new Unreachable('Temporal', `See: npx longhaul schedule show ${name}`, { how });
    }
    await sleep(TOLD_POLL_MS);
  }
}

function viewOf(
  scheduleId: string,
  memo: Record<string, unknown> | undefined,
  state: ScheduleDescription['state'],
  next: readonly Date[],
): ScheduleView {
  const when = memo?.['when'];
  return {
    name: scheduleId.slice(PREFIX.length),
    when: typeof when === 'string' ? when : '',
    paused: state.paused,
    note: state.note ?? '',
    next: next.slice(0, 5).map((at) => at.toISOString()),
  };
}
