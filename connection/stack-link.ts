/**
 * A connection to one stack only. The server's id is checked first, and again after each loss of the connection, so
 * that no call reaches another stack's server. If the stack restarts on another port, the connection follows it.
 */

import {
  Connection,
  type ConnectionOptions,
  defaultGrpcRetryOptions,
  makeGrpcRetryInterceptor,
} from '@temporalio/client';
import {
  Channel,
  type ChannelCredentials,
  type ChannelInterface,
  type ChannelOptions,
  connectivityState,
  InterceptingCall,
  type Interceptor,
  Metadata,
  status,
  type StatusObject,
} from '@grpc/grpc-js';
import { WrongStack } from './stack-identity.ts';
import type { StackNow } from './stack-now.ts';

const CHECK_MS = 5_000;
/** gRPC's default grows to two minutes: a stack that is up again would be noticed that late. */
const BACKOFF = {
  'grpc.initial_reconnect_backoff_ms': 250,
  'grpc.min_reconnect_backoff_ms': 250,
  'grpc.max_reconnect_backoff_ms': 2_000,
};

export interface ExpectedStack {
  readonly home: string;
  readonly address: string;
  readonly id: string;
}

const messageOf = (failure: unknown): string => (failure instanceof Error ? failure.message : String(failure));

/** The status of a call that was refused here. */
export type Refusal = StatusObject & { readonly wrongStack?: WrongStack };

function unavailable(details: string): Refusal {
  return { code: status.UNAVAILABLE, details, metadata: new Metadata() };
}

function wrong(error: WrongStack): Refusal {
  return { code: status.FAILED_PRECONDITION, details: error.message, metadata: new Metadata(), wrongStack: error };
}

/** One transport to one address, and whether its present connection was checked. */
class Route {
  readonly address: string;
  readonly channel: ChannelInterface;
  readonly #asker: Connection;
  readonly #onLoss: () => void;
  /** Counts the connections that were lost. */
  losses = 0;
  checked = false;

  constructor(address: string, credentials: ChannelCredentials, options: ChannelOptions, onLoss: () => void) {
    this.address = address;
    this.channel = new Channel(address, credentials, { ...options, ...BACKOFF });
    this.#onLoss = onLoss;
    this.#asker = Connection.lazy({ address, interceptors: [], channelArgs: { channelOverride: this.channel } });
    this.#watch();
  }

  /** Requests the server's id. Errors: those of gRPC, within 5 s. */
  id(): Promise<string> {
    return this.#asker.withDeadline(
      Date.now() + CHECK_MS,
      async () => (await this.#asker.workflowService.getClusterInfo({})).clusterId,
    );
  }

  #watch(): void {
    const state = this.channel.getConnectivityState(false);
    if (state === connectivityState.SHUTDOWN) return;
    this.channel.watchConnectivityState(state, Infinity, () => {
      if (state === connectivityState.READY) {
        this.losses += 1;
        this.checked = false;
        this.#onLoss();
      }
      this.#watch();
    });
  }
}

export interface LinkOptions {
  /** Returns the stack's present state and address. Default: always the expected ones. */
  readonly now?: () => StackNow;
  /** Called after each loss of the connection. */
  readonly onLoss?: () => void;
}

/** The channel of a connection. `interceptor` must be the innermost one, so that each attempt of a call is checked. */
export class StackLink implements ChannelInterface {
  readonly #expected: ExpectedStack;
  readonly #now: () => StackNow;
  readonly #makeRoute: (address: string) => Route;
  #route: Route;
  #checking: Promise<Refusal | undefined> | undefined;

  constructor(
    expected: ExpectedStack,
    credentials: ChannelCredentials,
    options: ChannelOptions,
    { now, onLoss = () => undefined }: LinkOptions = {},
  ) {
    this.#expected = expected;
    this.#now = now ?? (() => ({ status: 'up', address: expected.address, id: expected.id }));
    this.#makeRoute = (address) => new Route(address, credentials, options, onLoss);
    this.#route = this.#makeRoute(expected.address);
  }

  /** Returns `undefined` if the present connection is to the expected stack. */
  check(): Promise<Refusal | undefined> {
    if (this.#route.checked) return Promise.resolve(undefined);
    this.#checking ??= this.#check().finally(() => {
      this.#checking = undefined;
    });
    return this.#checking;
  }

  async #check(): Promise<Refusal | undefined> {
    const { home, id } = this.#expected;
    let now: StackNow;
    try {
      now = this.#now();
    } catch (failure) {
      // This process has too many open files, or the folder is missing: a retry of the call may succeed.
      return unavailable(`the state of the stack in ${home} cannot be read: ${messageOf(failure)}`);
    }
    const refusal = (address: string, answered: string) =>
      wrong(new WrongStack({ home, address, expected: id, answered }));
    if (now.status === 'up' && now.id !== id) return refusal(now.address, now.id);
    if (now.status === 'up' && now.address !== this.#route.address) this.#moveTo(now.address);
    const route = this.#route;
    const before = route.losses;
    let answered: string;
    try {
      answered = await route.id();
    } catch (failure) {
      return unavailable(`Temporal at ${route.address} does not answer: ${messageOf(failure)}`);
    }
    if (route.losses !== before || route !== this.#route)
      return unavailable(`the connection to ${route.address} was lost`);
    if (answered === id && now.status !== 'down') {
      route.checked = true;
      return undefined;
    }
    if (now.status === 'coming')
      return unavailable(`the stack in ${home} is starting, and another stack answers at ${route.address}`);
    return refusal(route.address, answered);
  }

  #moveTo(address: string): void {
    const old = this.#route;
    this.#route = this.#makeRoute(address);
    old.channel.close();
  }

  readonly interceptor: Interceptor = (options, nextCall) => {
    const route = this.#route;
    const pass = async (): Promise<Refusal | undefined> => {
      const refusal = await this.check();
      return (
        refusal ?? (route === this.#route ? undefined : unavailable(`the stack has moved to ${this.#route.address}`))
      );
    };
    let isCancelled = false;
    return new InterceptingCall(nextCall(options), {
      cancel: (next) => {
        isCancelled = true;
        next();
      },
      start: (metadata, listener, next) => {
        const refuse = (refusal: Refusal) => {
          // gRPC's own failures deliver a null message too.
          listener.onReceiveMessage(null);
          listener.onReceiveStatus(refusal);
        };
        const begin = () => {
          const before = route.losses;
          next(metadata, {
            onReceiveStatus: (end, deliver) => {
              if (end.code !== status.OK || route.losses === before) return deliver(end);
              // gRPC itself may have retried the call on a connection that was not checked.
              void pass().then((refusal) => deliver(refusal ?? end));
            },
          });
        };
        if (route.checked && route === this.#route) return begin();
        void pass().then((refusal) => {
          if (refusal) refuse(refusal);
          else if (isCancelled) refuse({ code: status.CANCELLED, details: 'cancelled', metadata: new Metadata() });
          else begin();
        });
      },
    });
  };

  close(): void {
    this.#route.channel.close();
  }

  getTarget(): string {
    return this.#route.channel.getTarget();
  }

  getConnectivityState(tryToConnect: boolean): connectivityState {
    return this.#route.channel.getConnectivityState(tryToConnect);
  }

  watchConnectivityState(...given: Parameters<ChannelInterface['watchConnectivityState']>): void {
    this.#route.channel.watchConnectivityState(...given);
  }

  getChannelzRef(): ReturnType<ChannelInterface['getChannelzRef']> {
    return this.#route.channel.getChannelzRef();
  }

  createCall(...given: Parameters<ChannelInterface['createCall']>): ReturnType<ChannelInterface['createCall']> {
    return this.#route.channel.createCall(...given);
  }
}

/** Connection options that connect Temporal's client to `expected` only. */
export function linkOptions(
  expected: ExpectedStack,
  options: LinkOptions = {},
  onLink: (link: StackLink) => void = () => undefined,
): ConnectionOptions {
  let link: StackLink | undefined;
  const open = (_address: string, credentials: ChannelCredentials, args: ChannelOptions): StackLink => {
    link = new StackLink(expected, credentials, args, options);
    onLink(link);
    return link;
  };
  const checked: Interceptor = (given, nextCall) =>
    link === undefined ? new InterceptingCall(nextCall(given)) : link.interceptor(given, nextCall);
  return {
    address: expected.address,
    channelArgs: { channelFactoryOverride: open },
    interceptors: [makeGrpcRetryInterceptor(defaultGrpcRetryOptions()), checked],
  };
}
