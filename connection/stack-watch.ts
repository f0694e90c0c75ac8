/**
 * A worker's check of its server: after each loss of the connection no activity starts before the server has returned
 * the id of this worker's stack. If it returns another id, the worker ends.
 */

import { Context } from '@temporalio/activity';
import { Connection } from '@temporalio/client';
import type { ActivityInboundCallsInterceptor } from '@temporalio/worker';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ExpectedStack, linkOptions, type StackLink } from './stack-link.ts';
import { naming, type WrongStack } from './stack-identity.ts';
import { Unreachable } from './unreachable.ts';

const AGAIN_MS = 250;

export class StackWatch {
  readonly #connection: Connection;
  readonly #onWrong: (error: WrongStack) => void;
  #link: StackLink | undefined;
  #checked: Promise<void> = Promise.resolve();
  #closed = false;

  private constructor(expected: ExpectedStack, onWrong: (error: WrongStack) => void) {
    this.#onWrong = onWrong;
    const onLoss = () => {
      this.#checked = this.#untilChecked();
    };
    const options = linkOptions(expected, { onLoss }, (link) => {
      this.#link = link;
    });
    this.#connection = Connection.lazy(options);
  }

  /** Errors: `WrongStack`; `Unreachable` if no server answers. */
  static async begin(expected: ExpectedStack, onWrong: (error: WrongStack) => void): Promise<StackWatch> {
    const watch = new StackWatch(expected, onWrong);
    try {
      await naming(() => watch.#connection.ensureConnected());
      return watch;
    } catch (error) {
      await watch.close();
      if (error instanceof Error && error.name === 'WrongStack') throw error;
      throw new Unreachable(`Temporal at ${expected.address}`, 'Start the stack: npx longhaul up --detach', {
        cause: error,
      });
    }
  }

  /** Resolves at once while the connection is to the worker's stack; after a loss, when it is again. */
  passes(): Promise<void> {
    return this.#checked;
  }

  /** For `Worker.create`. */
  readonly interceptor: ActivityInboundCallsInterceptor = {
    execute: async (input, next) => {
      await Promise.race([this.passes(), Context.current().cancelled]);
      return next(input);
    },
  };

  async close(): Promise<void> {
    this.#closed = true;
    await this.#connection.close();
  }

  /** The server may be away for a long time. A wrong server ends the worker. */
  async #untilChecked(): Promise<void> {
    while (!this.#closed) {
      const refusal = await this.#link?.check();
      if (refusal === undefined) return;
      if (refusal.wrongStack) this.#onWrong(refusal.wrongStack);
      await sleep(AGAIN_MS, undefined, { ref: false });
    }
  }
}
