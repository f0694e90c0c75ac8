/** The programs that the machine must have, each with the command that installs it on Debian and Ubuntu. */

import { ask, MissingPrerequisites, which } from '../command.mjs';

const APT = 'sudo apt-get install -y';

/** Every prerequisite as `{ what, remedy, found }`. `found`: its version or path, or `undefined` if it is missing. */
export function prerequisites(env = process.env) {
  const node = Number(process.versions.node.split('.')[0]) >= 18 ? process.versions.node : undefined;
  return [
    { what: 'Node.js >= 18', remedy: `${APT} nodejs npm`, found: node },
    { what: 'npm', remedy: `${APT} npm`, found: which('npm', env) },
    { what: 'Python 3', remedy: `${APT} python3`, found: which('python3', env) },
    { what: 'pip for Python 3', remedy: `${APT} python3-pip`, found: pip(env) },
    { what: 'a C++ compiler', remedy: `${APT} g++`, found: compiler(env) },
    { what: 'make', remedy: `${APT} make`, found: which('make', env) },
    { what: 'bubblewrap or a Docker daemon', remedy: `${APT} bubblewrap`, found: which('bwrap', env) ?? docker(env) },
  ];
}

/** Errors: `MissingPrerequisites`, with all missing ones. */
export function checkPrerequisites(env = process.env) {
  const missing = prerequisites(env).filter((one) => one.found === undefined);
  if (missing.length > 0) throw new MissingPrerequisites(missing.map(({ what, remedy }) => ({ what, remedy })));
}

/** The C++ compiler: `$CXX`, else the first of g++, clang++ and c++ on PATH. */
export function compiler(env = process.env) {
  return [env.CXX, 'g++', 'clang++', 'c++']
    .filter(Boolean)
    .map((name) => which(name, env))
    .find(Boolean);
}

function pip(env) {
  const python = which('python3', env);
  return python === undefined ? undefined : ask(python, ['-c', 'import pip; print(pip.__version__)']);
}

function docker(env) {
  const path = which('docker', env);
  return path === undefined ? undefined : ask(path, ['info', '--format', '{{.ServerVersion}}'], 10_000);
}
