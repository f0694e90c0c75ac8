/**
 * Puts what is stuck in a run, or an eval, into its workflow's own details, and takes it out again: by a signal for each
 * finding that is news, and a bounded number of them, since each is an event of the run's history.
 */

import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { STALLED, type Stalled } from '../../protocol/train-status.ts';

/** Findings of one run that one worker tells it: some hundred events. The log and the command line tell all. */
const TOLD_AT_MOST = 100;
/** Lines of one telling. */
const LINES = 10;
/** What every line begins with. */
const MARK = 'stuck: ';

interface Told {
  /** What is stuck by the run's details, as one text; empty: nothing is. */
  readonly keys: string;
  readonly times: number;
}

export class RunTeller {
  readonly #client: Client;
  readonly #told = new Map<string, Told>();

  constructor(client: Client) {
    this.#client = client;
  }

  /** `lines` by what is stuck: a count that changes is no news. Errors: those of Temporal's client. */
  async tell(workflow: string, lines: ReadonlyMap<string, string>): Promise<void> {
    const { keys: before, times } = this.#told.get(workflow) ?? { keys: await this.#saidBefore(workflow), times: 0 };
    const keys = [...lines.keys()].sort().join('\n');
    const news = keys !== before && (keys === '' || times < TOLD_AT_MOST);
    if (news) await this.#signal(workflow, [...lines.values()].slice(0, LINES));
    this.#told.set(workflow, { keys: news ? keys : before, times: times + (news && keys !== '' ? 1 : 0) });
  }

  /** Forgets those that have ended. */
  keep(workflows: ReadonlySet<string>): void {
    for (const one of this.#told.keys()) if (!workflows.has(one)) this.#told.delete(one);
  }

  async #signal(workflow: string, lines: Stalled): Promise<void> {
    try {
      await this.#client.workflow.getHandle(workflow).signal<[Stalled]>(STALLED, lines);
    } catch (error) {
      // It has ended meanwhile.
      if (!(error instanceof WorkflowNotFoundError)) throw error;
    }
  }

  /** Another worker may have told it something that is so no more. */
  async #saidBefore(workflow: string): Promise<string> {
    const query = this.#client.workflow
      .getHandle(workflow)
      .query<{ currentDetails?: string }>('__temporal_workflow_metadata');
    const { currentDetails = '' } = await query.catch(() => ({ currentDetails: '' }));
    return currentDetails.includes(MARK) ? 'something else' : '';
  }
}
