/** Formats a run as lines of text: one per step, and a bar for the current batch. Pure: it prints nothing. */

import { imageText } from '../../protocol/image.ts';
import { placeText } from '../../protocol/frames.ts';
import type { Message } from '../../protocol/message.ts';
import { noGroupVaried } from '../../reports/no-group-varied.ts';
import { visible } from '../../reports/visible.ts';
import type { AskedQuestion, Trajectory } from '../../reports/trajectories.ts';
import { tripLine } from '../../protocol/breaker.ts';
import type { EvaluationRecord, StepRecord } from '../../protocol/step-record.ts';
import type { TrainStatus } from '../../protocol/train-status.ts';

const percent = (rate: number) => `${(100 * rate).toFixed(1)}%`;

/**
 * `step 3/20 · reward 0.531 · pass 53.1% · 32 rollouts, 6 groups trained on · 410 tok/s · 5.1 s (rollout 4.2, train
 * 0.9)`. `steps`: the number of planned steps, if it is known.
 */
export function stepLine(record: StepRecord, steps?: number): string {
  const { seconds, staleness } = record;
  // Rollouts that overlap with updates are sampled all the time, not only while the step waits for them.
  const sampling = record.batches ? seconds.total : seconds.rollout;
  const surplus = record.dropped['surplus'] ?? 0;
  const rollouts = record.valid + surplus + Object.values(record.masked).reduce((sum, n) => sum + n, 0);
  const speed = sampling > 0 ? Math.round(record.sampledTokens / sampling) : 0;
  const masked = Object.entries(record.masked).map(([reason, n]) => `${n} ${reason}`);
  return [
    steps === undefined ? `step ${record.step}` : `step ${String(record.step).padStart(String(steps).length)}/${steps}`,
    `reward ${record.rewardMean.toFixed(3)}`,
    `pass ${percent(record.passRate).padStart(6)}`,
    `${rollouts} rollouts, ${record.groups} groups trained on`,
    `${speed} tok/s`,
    `${seconds.total.toFixed(1)} s (rollout ${seconds.rollout.toFixed(1)}, train ${seconds.train.toFixed(1)})`,
    ...(staleness && staleness.max > 0 ? [`${staleness.mean.toFixed(1)} updates stale, at most ${staleness.max}`] : []),
    ...(masked.length > 0 ? [`masked: ${masked.join(', ')}`] : []),
    ...(noGroupVaried(record) ? ['no group varied: nothing learned'] : []),
  ].join(' · ');
}

/** `held-out: 41.0% at temperature 1, 55.5% greedy (200 tasks)`, then a line per family. */
export function evaluationLines(name: string, evaluation: EvaluationRecord): string[] {
  const greedy = evaluation.greedyPassRate === null ? '' : `, ${percent(evaluation.greedyPassRate)} greedy`;
  const failed = Object.entries(evaluation.failed ?? {}).map(([reason, n]) => `${n} ${reason}`);
  const families = Object.entries(evaluation.byFamily).map(
    ([family, { passRate }]) => `${family} ${percent(passRate)}`,
  );
  return [
    `${name}: ${percent(evaluation.passRate)} at temperature 1${greedy} (${evaluation.rollouts} held-out tasks)`,
    ...(failed.length > 0
      ? [`  not graded: ${failed.join(', ')}; ${percent(evaluation.gradedPassRate ?? 0)} of the graded ones passed`]
      : []),
    ...(families.length > 0 ? [`  by family: ${families.join(' · ')}`] : []),
  ];
}

/** The name of the evaluation at `step`. */
export const evaluationName = (step: number): string => (step === 0 ? 'before training' : `after step ${step}`);

const BAR = 24;

export interface BatchProgress {
  readonly started: number;
  readonly ended: number;
  readonly total: number;
  readonly passed: number;
  readonly failed: number;
}

/** The run's phase: `paused at a turn`, `training, pauses before the next step`. */
export function phaseText({ phase, pauseAt, tripped }: TrainStatus): string {
  if (tripped) return `paused: ${tripped.failure}`;
  if (phase === 'paused') return pauseAt === 'step' ? 'paused before the next step' : 'paused at a turn';
  return pauseAt === 'step' ? `${phase}, pauses before the next step` : phase;
}

/** A bar, followed by `text`. */
export function barText(ended: number, total: number, text: string): string {
  const filled = total > 0 ? Math.round((ended / total) * BAR) : 0;
  return `${'█'.repeat(filled)}${'░'.repeat(BAR - filled)} ${text}`;
}

/** The current batch as one line. The most important field comes first, since a narrow terminal cuts the line. */
export function progressBar(status: TrainStatus, { started, ended, total, passed, failed }: BatchProgress): string {
  const name = status.phase === 'training' ? 'training' : (status.batch?.name ?? status.phase);
  const counts = `${started - ended} running, ${passed} passed${failed > 0 ? `, ${failed} failed` : ''}`;
  return barText(
    ended,
    total,
    `${name} ${ended}/${total} · ${phaseText(status)} · ${counts} · policy v${status.policyVersion}`,
  );
}

/** The state of a running run, as lines. */
export function liveLines(status: TrainStatus, progress: BatchProgress): string[] {
  const { step, steps, policyVersion, batch, overlap } = status;
  const { started, ended, total, passed, failed } = progress;
  const rollouts =
    `${batch?.name}: ${ended} of ${total} rollouts ended (${passed} passed, ${failed} failed), ` +
    `${started - ended} running`;
  const why = status.tripped ? [tripLine(status.tripped, status.run)] : [];
  const ahead = overlap
    ? [`${overlap.running} batches are running, ${overlap.waiting} have ended and wait for their step`]
    : [];
  return [
    ...why,
    `${phaseText(status)}; ${step} of ${steps} steps done, policy v${policyVersion}`,
    ...(batch ? [rollouts] : []),
    ...ahead,
  ];
}

/** The text of a message, and its calls with their arguments; control characters are written out. */
export function messageText(message: Message): string {
  return visible(spokenText(message));
}

function spokenText(message: Message): string {
  if (message.role === 'tool') return [message.content, ...(message.images ?? []).map(imageText)].join('\n');
  if (message.role !== 'assistant') return message.content;
  const calls = (message.toolCalls ?? []).map(({ name, arguments: given }) => {
    const parameters = Object.entries(given).map(([key, value]) => `\n  ${key}: ${String(value)}`);
    return `→ ${name}${parameters.join('')}`;
  });
  return [message.content, ...calls].filter((part) => part !== '').join('\n');
}

/** A question to a judge, and its answer. */
export function askedText({
  place,
  judge,
  question,
  answer,
  promptTokens,
  sampledTokens,
  seconds,
}: AskedQuestion): string {
  const said = question.map(({ role, content }) => (role === 'user' ? content : `[${role}] ${content}`)).join('\n');
  return (
    `── ${place} · asked judge ${judge} · ${promptTokens + sampledTokens} tokens, ${seconds.toFixed(1)} ` +
    `s\n${said}\n── ${place} · judge ${judge} answered\n${answer}`
  );
}

/** A whole trajectory: every message, then how it ended. */
export function trajectoryText(trajectory: Trajectory): string {
  const messages = trajectory.messages.map((m) => {
    // A sub-agent's messages stand deeper than those of its caller.
    const indent = '   '.repeat(m.agentPath?.length ?? 0);
    const head = [m.role, placeText(m)].filter((part) => part !== '').join(' · ');
    return `── ${head}\n${messageText(m)}`.replaceAll(/^/gmu, indent);
  });
  const asked = (trajectory.asked ?? []).map(askedText);
  const end =
    trajectory.status === 'graded'
      ? `reward ${trajectory.reward ?? 0} (${trajectory.passed ? 'passed' : 'not passed'}): ${trajectory.reason}`
      : `failed: ${trajectory.failure ?? 'internal'}: ${trajectory.reason}`;
  const turns =
    `${trajectory.turns} turns, ${trajectory.sampledTokens} tokens sampled, finish: ` +
    `${trajectory.finish ?? 'none'}`;
  const untrainable = trajectory.untrainable === undefined ? [] : [`cannot be trained on: ${trajectory.untrainable}`];
  const counts = Object.entries(trajectory.hints ?? {}).map(([rule, count]) => `${rule} ${count}`);
  const hints = counts.length === 0 ? [] : [`hints: ${counts.join(', ')}`];
  return visible(
    [`${trajectory.rollout}`, ...messages, ...asked, `── end\n${end}`, turns, ...hints, ...untrainable].join('\n'),
  );
}
