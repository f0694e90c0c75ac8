/**
 * Writes what is stuck in a run or an eval into its workflow's details, and removes it later. It sends a signal for
 * each new finding, up to a limit, because each signal is an event in the run's history.
 */

import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { STALLED, type Stalled } from '../../protocol/train-status.ts';

/** The most findings that one worker sends to one run: some hundred events. Log and command line report all of them. */
const MOST_REPORTS = 100;
/** The most lines in one signal. */
const LINES = 10;
/** What every line begins with. */
const MARK = 'stuck: ';

interface Reported {
  /** The keys of what is stuck according to the run's details, as one text; empty if nothing is. */
  readonly keys: string;
  readonly times: number;
}

export class StallReporter {
  readonly #client: Client;
  readonly #reported = new Map<string, Reported>();

  constructor(client: Client) {
    this.#client = client;
  }

  /** `lines` by the key of what is stuck: a changed count is not a new finding. Errors: those of Temporal's client. */
  async report(workflow: string, lines: ReadonlyMap<string, string>): Promise<void> {
    const { keys: before, times } = this.#reported.get(workflow) ?? {
      keys: await this.#reportedBefore(workflow),
      times: 0,
    };
    const keys = [...lines.keys()].sort().join('\n');
    const news = keys !== before && (keys === '' || times < MOST_REPORTS);
    if (news) await this.#signal(workflow, [...lines.values()].slice(0, LINES));
    this.#reported.set(workflow, { keys: news ? keys : before, times: times + (news && keys !== '' ? 1 : 0) });
  }

  /** Forgets the workflows that have ended. */
  keep(workflows: ReadonlySet<string>): void {
    for (const one of this.#reported.keys()) if (!workflows.has(one)) this.#reported.delete(one);
  }

  async #signal(workflow: string, lines: Stalled): Promise<void> {
    try {
      await this.#client.workflow.getHandle(workflow).signal<[Stalled]>(STALLED, lines);
    } catch (error) {
      // It has ended meanwhile.
      if (!(error instanceof WorkflowNotFoundError)) throw error;
    }
  }

  /** Another worker may have written a finding that no longer holds. */
  async #reportedBefore(workflow: string): Promise<string> {
    const query = this.#client.workflow
      .getHandle(workflow)
      .query<{ currentDetails?: string }>('__temporal_workflow_metadata');
    const { currentDetails = '' } = await query.catch(() => ({ currentDetails: '' }));
    return currentDetails.includes(MARK) ? 'something else' : '';
  }
}
