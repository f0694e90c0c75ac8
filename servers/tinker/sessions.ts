/** Sessions of the Tinker API: made, kept alive, finished, listed. A finished session takes no further operation. */

import { randomUUID } from 'node:crypto';
import type { z } from 'zod';
import type { createSessionBody, finishBody, searchBody } from '../../endpoints/tinker/wire/bodies.ts';
import type { TinkerSession } from '../../store/tinker/journal.ts';
import { ApiError } from '../http/api-error.ts';
import { checkpointsOf } from './checkpoints.ts';
import { type Call, type Page, ownSessionOf, textsOf } from './service.ts';

export async function createSession(call: Call, body: z.output<typeof createSessionBody>): Promise<object> {
  const { service, tenant } = call;
  const { sessions } = await service.journal.counts(tenant);
  if (sessions >= service.quotas.sessions)
    throw new ApiError(
      400,
      `this API key has ${sessions} sessions, as many as it may have: finish some (those without heartbeats ` +
        'end by themselves)',
    );
  const at = service.now().toISOString();
  const id = randomUUID();
  await service.journal.putSession({
    id,
    tenant,
    tags: body.tags,
    ...(body.user_metadata === undefined ? {} : { userMetadata: body.user_metadata }),
    ...(body.display_name === undefined ? {} : { displayName: body.display_name }),
    ...(body.project_id === undefined ? {} : { projectId: body.project_id }),
    createdAt: at,
    seenAt: at,
  });
  return { type: 'create_session', session_id: id };
}

/** Errors: `ApiError` 410 if it is finished, which ends the client's heartbeats. */
export async function heartbeat(call: Call, id: string): Promise<object> {
  const session = await ownSessionOf(call, id);
  if (session.finished) throw new ApiError(410, `session_id: ${id} is finished`);
  await call.service.journal.seen(id, call.service.now().toISOString());
  return { type: 'session_heartbeat' };
}

export async function finishSession(call: Call, id: string, body: z.output<typeof finishBody>): Promise<object> {
  await ownSessionOf(call, id);
  const { reason, detail } = body;
  await call.service.journal.finishSession(id, { type: reason.type, ...(detail === undefined ? {} : { detail }) });
  return { status: 'ok' };
}

export async function listSessions({ service, tenant }: Call, page: Page): Promise<object> {
  const sessions = await service.journal.sessions(tenant, page);
  return { sessions: sessions.map(({ id }) => id) };
}

async function modelsOf({ service, tenant }: Call, session: string): Promise<string[]> {
  const models = await service.journal.models(tenant);
  return models.filter((model) => model.session === session).map(({ id }) => id);
}

export async function showSession(call: Call, id: string): Promise<object> {
  const { userMetadata, displayName } = await ownSessionOf(call, id);
  const samplers = await call.service.journal.samplers(id);
  return {
    training_run_ids: await modelsOf(call, id),
    sampler_ids: samplers.map((sampler) => sampler.id),
    user_metadata: textsOf(userMetadata),
    display_name: displayName ?? null,
  };
}

const MOST_SEARCHED = 10_000;

function matches(session: TinkerSession, body: z.output<typeof searchBody>): boolean {
  const { session_id: id, display_name: name, user_metadata: wanted, statuses } = body;
  const shown = (session.displayName ?? '').toLowerCase();
  const isNamed =
    name !== undefined &&
    name
      .toLowerCase()
      .split(/\s+/)
      .every((word) => shown.includes(word));
  if ((id !== undefined || name !== undefined) && session.id !== id && !isNamed) return false;
  const metadata = textsOf(session.userMetadata) ?? {};
  if (!Object.entries(wanted).every(([key, value]) => metadata[key] === value)) return false;
  const { finished } = session;
  return (
    statuses === undefined ||
    statuses.some(({ type, reasons }) =>
      finished ? type === 'client_finished' && (reasons?.includes(finished.type) ?? true) : type === 'active',
    )
  );
}

/** The newest first. */
export async function searchSessions(call: Call, body: z.output<typeof searchBody>): Promise<object> {
  const all = await call.service.journal.sessions(call.tenant, { limit: MOST_SEARCHED, offset: 0 });
  const order = ({ createdAt, id }: Pick<TinkerSession, 'createdAt' | 'id'>) => `${createdAt} ${id}`;
  const { cursor, limit } = body;
  const last =
    cursor && order({ createdAt: new Date(cursor.last_created_at).toISOString(), id: cursor.last_session_id });
  const found = all
    .filter((session) => matches(session, body))
    .toSorted((a, b) => (order(a) < order(b) ? 1 : -1))
    .filter((session) => last === undefined || order(session) < last);
  const shown = found.slice(0, limit);
  const end = found.length > limit ? shown.at(-1) : undefined;
  const checkpoints = await checkpointsOf(call);
  return {
    sessions: shown.map((session) => {
      const own = checkpoints.filter(({ run }) => run.startsWith(`${session.id}:`));
      return {
        session_id: session.id,
        created_at: session.createdAt,
        owner: session.tenant,
        project_id: session.projectId ?? '',
        status: session.finished
          ? {
              type: 'client_finished',
              reason: { type: session.finished.type },
              detail: session.finished.detail ?? null,
            }
          : { type: 'active' },
        checkpoints_count: own.length,
        display_name: session.displayName ?? null,
        user_metadata: textsOf(session.userMetadata),
        checkpoint_storage_bytes: own.reduce((sum, { bytes }) => sum + bytes, 0),
      };
    }),
    next_cursor: end ? { last_created_at: end.createdAt, last_session_id: end.id } : null,
  };
}
