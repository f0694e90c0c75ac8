/** Another stack's server where a client's or a worker's own was. */

import type { Mutation } from '../../mutation.ts';

const FAULT = "the stack is down, and another stack's server has its port";
const LINK = 'connection/stack-link.ts';
const CLIENT_TEST = 'test/cli/connect/wrong-stack.test.ts';
const WORKER_TEST = 'test/connection/stack-watch.test.ts';
const REFUSED = "another stack's server at the port is refused by name";

export const wrongStack: readonly Mutation[] = [
  {
    name: 'whoever answers is the own stack',
    fault: FAULT,
    file: LINK,
    before: "if (answered === id && now.status !== 'down') {",
    after: 'if (answered !== undefined) {',
    tests: [
      { file: CLIENT_TEST, test: REFUSED },
      { file: WORKER_TEST, test: 'a worker process does not start on the server of another stack', hangs: true },
    ],
  },
  {
    name: 'a server is asked for its id once',
    fault: FAULT,
    file: LINK,
    before: '        this.checked = false;\n',
    after: '',
    tests: [{ file: CLIENT_TEST, test: REFUSED }],
  },
  {
    name: 'a copy of the database is the own stack',
    fault: FAULT,
    file: LINK,
    before: "if (answered === id && now.status !== 'down') {",
    after: 'if (answered === id) {',
    tests: [{ file: CLIENT_TEST, test: 'a copy of its folder is another stack' }],
  },
  {
    name: 'a client stays at the port that its stack had',
    fault: FAULT,
    file: LINK,
    before: "if (now.status === 'up' && now.address !== this.#route.address) this.#moveTo(now.address);\n",
    after: '',
    tests: [{ file: CLIENT_TEST, test: 'where its own stack comes back on another port' }],
  },
];
