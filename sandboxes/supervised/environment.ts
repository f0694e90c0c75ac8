/** The variables of every sandbox: the same world at every start and with every provider. */

const fixed: Readonly<Record<string, string>> = {
  PATH: '/usr/bin:/bin',
  HOME: '/tmp/home',
  USER: 'agent',
  LOGNAME: 'agent',
  SHELL: '/bin/bash',
  TERM: 'dumb',
  TZ: 'UTC',
  LANG: 'C.UTF-8',
  LC_ALL: 'C.UTF-8',
  PYTHONHASHSEED: '0',
  PYTHONDONTWRITEBYTECODE: '1',
  GIT_PAGER: 'cat',
  PAGER: 'cat',
};

/** `KEY=VALUE` strings; the task's own variables come last. */
export function sandboxEnvironment(path: string, own: Readonly<Record<string, string>>): string[] {
  return Object.entries({ ...fixed, PATH: path, ...own }).map(([key, value]) => `${key}=${value}`);
}
