/**
 * Graded in place: the policy must leave a process running, and the grader watches it for minutes in the policy's own
 * sandbox. A worker that is lost meanwhile costs nothing: `ctx.id` names the call, so the next one attaches to it.
 */

import { defineEnvironment, type Message, z } from 'longhaul';

const bash = (command: string): Message => ({
  role: 'assistant',
  content: '',
  toolCalls: [{ name: 'bash', arguments: { command } }],
});
const finish: Message = { role: 'assistant', content: '', toolCalls: [{ name: 'finish', arguments: {} }] };

defineEnvironment({
  name: 'keeps-running',
  options: z.strictObject({ seconds: z.int().min(1).max(3600).default(120) }),

  open: async ({ seconds }) =>
    await Promise.resolve({
      digest: 'keeps-running 1',
      splits: { train: 1000, 'held-out': 1000 },
      load: async (_split: string, index: number) =>
        await Promise.resolve({
          messages: [
            {
              role: 'user' as const,
              content:
                `Start a process that appends a line to /tmp/beat-${index} every second. Leave it running, ` +
                'then finish.',
            },
          ],
          tools: ['bash', 'finish'],
          sandboxes: { main: { workdir: '/work', files: [], env: {} } },
          resources: { memoryMiB: 128, diskMiB: 32, gradeSeconds: seconds + 120 },
          gradedIn: 'agents' as const,

          async grade(ctx) {
            const sandbox = await ctx.sandbox();
            const lines = `$(cat /tmp/beat-${index} 2>/dev/null | wc -l)`;
            const { output } = await sandbox.exec({
              callId: `${ctx.id}/watch`,
              command: `echo watched >> /tmp/watches; a=${lines}; sleep ${seconds}; echo $((${lines} - a))`,
              timeoutMs: (seconds + 60) * 1000,
              outputLimit: 1000,
              fresh: true,
            });
            const part = Math.min(1, Number(output) / seconds);
            const reason = `${output.trim()} lines in ${seconds} s`;
            // A busy machine may skip some.
            return { code: 'graded' as const, reward: part, passed: part > 0.5, reason };
          },

          oracle: async () =>
            await Promise.resolve([
              bash(`(while :; do echo on >> /tmp/beat-${index}; sleep 0.5; done) >/dev/null 2>&1 &`),
              finish,
            ]),
        }),
    }),
});
