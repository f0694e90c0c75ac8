/**
 * Hunts a browser that a page can break, and a verdict that does not follow the state of the site. Chromium and the site
 * of the example run in one sandbox.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { browser } from '../../../agents/tools/browser/browser.ts';
import type { Sandbox } from '../../../sandboxes/sandbox.ts';
import type { TaskContext, Work } from '../../../tasks/environment.ts';
import { machineOf } from '../../../tasks/resources.ts';
import { webArena, webArenaOptions } from '../../../tasks/webarena/environment.ts';
import { openBench } from '../../sandboxes/harness.ts';

const hasChromium = ['/usr/lib/chromium/chromium', '/usr/bin/chromium', '/usr/bin/google-chrome'].some((path) =>
  existsSync(path),
);
const folder = join(import.meta.dirname, '../../../examples/tasks/webarena');
const UP = 'for _ in $(seq 600); do (exec 3<>/dev/tcp/127.0.0.1/7770) 2>/dev/null && exit 0; sleep 0.1; done; exit 1';
/** Another site, whose pages do what a browser must survive. */
const TRAPS = `import http.server
class Trap(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        page = b"""<title>Traps</title><button onclick="alert('hi')">Alert</button> <a href="/f" download="f.txt">File</a>
          <button onclick="document.title = confirm('sure?')">Ask</button> <button onclick="for (;;);">Hang</button>"""
        self.send_response(200); self.send_header('Content-Type', 'text/html'); self.end_headers(); self.wfile.write(page)
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(('127.0.0.1', 7771), Trap).serve_forever()
`;

it.skipIf(!hasChromium)(
  'a form is filled, its page is graded, and dialogs, downloads, other schemes and pages that hang are survived',
  async () => {
    const bench = await openBench();
    const options = webArenaOptions.parse({
      data: { test: join(folder, 'records.json') },
      sites: { shopping: 'http://127.0.0.1:7770' },
      sandbox: {
        folder: join(folder, 'site'),
        setup: `setsid python3 server.py >/dev/null 2>&1 </dev/null & ${UP}`,
        cpus: 2,
      },
    });
    const task = await (await webArena.open(options, { path: (_, path) => path })).load('test', 2);
    const { network: _network, ...machine } = machineOf(task, 'k', 'main');
    const traps = { path: '/tmp/traps.py', content: TRAPS };
    const setup = `setsid python3 /tmp/traps.py >/dev/null 2>&1 </dev/null & ${machine.setup ?? ''}`;
    const sandbox: Sandbox = await bench.provider.create({
      ...machine,
      files: [...machine.files, traps],
      setup,
      id: 'browsed',
      ttlSeconds: 600,
    });
    const signal = new AbortController().signal;
    const ctx = (id: string): TaskContext => ({
      key: 'k',
      id,
      execution: 1,
      deadline: Infinity,
      signal,
      provider: bench.provider,
      ask: () => Promise.reject(new Error('no judge')),
      sandbox: () => Promise.resolve(sandbox),
    });
    let calls = 0;
    const act = async (args: Record<string, unknown>) => {
      calls += 1;
      return await browser.run({ name: 'browser', arguments: args }, sandbox, {
        callId: `act-${calls}`,
        timeoutMs: 110_000,
      });
    };
    const verdict = async (id: string) => {
      const artifact = (await task.collect?.(ctx(`${id}/collect`))) ?? new Uint8Array();
      const work = {
        transcript: [],
        answer: '',
        finish: 'finish-tool',
        turns: 1,
        artifact,
        state: {},
        turnRewards: [],
      } satisfies Work;
      return await task.grade(ctx(`${id}/grade`), work);
    };
    const numberOf = ({ content }: { content: string }, what: RegExp): number =>
      Number(new RegExp(`\\[(\\d+)\\] ${what.source}`, 'u').exec(content)?.[1]);

    await task.start?.(ctx('start'));
    const home = await act({ action: 'read' });
    expect(home.content).toMatch(/^URL: http:\/\/127\.0\.0\.1:7770\/\nTitle: Shop\n/u);
    expect(await verdict('before')).toMatchObject({ reward: 0, parts: { program_html: 0 } });
    await act({ action: 'navigate', url: 'http://127.0.0.1:7770/' });
    const lamp = await act({ action: 'click', element: numberOf(await act({ action: 'read' }), /link "lamp"/) });
    expect(lamp.content).toContain('/goods/lamp');
    await act({ action: 'type', element: numberOf(lamp, /textbox "Name"/), text: "Ann O'Neill" });
    const ordered = await act({ action: 'type', element: numberOf(lamp, /textbox "Number"/), text: '3', submit: true });
    expect(ordered.content).toContain("Ann O'Neill");
    expect(await verdict('after')).toMatchObject({ reward: 1, passed: true });

    const shot = await act({ action: 'screenshot' });
    expect(
      Buffer.from(shot.seen?.[0] ?? [])
        .subarray(1, 4)
        .toString(),
    ).toBe('PNG');
    const traps1 = await act({ action: 'navigate', url: 'http://127.0.0.1:7771/' });
    expect((await act({ action: 'click', element: numberOf(traps1, /button "Alert"/) })).content).toMatch(
      /^\[a dialog \(alert\) said 'hi' and was accepted\]/u,
    );
    expect((await act({ action: 'click', element: numberOf(traps1, /link "File"/) })).content).toContain(
      '[a download was refused: f.txt]',
    );
    expect((await act({ action: 'click', element: numberOf(traps1, /button "Ask"/) })).content).toContain(
      'Title: false',
    );
    expect(
      (await act({ action: 'click', element: numberOf(traps1, /button "Ask"/), dialog: 'accept' })).content,
    ).toContain('Title: true');
    for (const url of ['file:///etc/passwd', 'javascript:alert(1)', 'chrome://version'])
      expect((await act({ action: 'navigate', url })).content, url).toContain('Error: only http:// and https://');
    expect((await act({ action: 'click', element: 99999 })).content).toContain('Error: there is no element [99999]');
    expect(await act({ action: 'click' })).toMatchObject({ refused: true });
    expect((await act({ action: 'click', element: numberOf(traps1, /button "Hang"/) })).content).toContain(
      'Error: the page does not answer',
    );
    expect((await act({ action: 'navigate', url: 'http://127.0.0.1:7770/orders' })).content).toContain("Ann O'Neill");
    // Everything ends: the next action starts the browser again, and says so.
    await sandbox.exec({ callId: 'end', command: 'true', timeoutMs: 60_000, outputLimit: 100, alone: true });
    expect((await act({ action: 'navigate', url: 'about:blank' })).content).toContain(
      '[the browser was started again: its pages are lost]',
    );
  },
  600_000,
);
